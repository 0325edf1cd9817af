//! What events say of a worker, such as the one under test.

use crankcase_engine::{EndKind, Engine, Event, EventKind, Name};

/// What the manifold under test is installed under.
pub(crate) const SUBJECT: Name<()> = Name::new("subject");

/// Whether an event is about this worker of this engine itself.
pub(crate) fn is_about<T>(event: &Event, engine: &Engine, name: &Name<T>) -> bool {
    // The outermost one's path is `/`, and nothing in the paths of its workers.
    let home = engine.path().trim_end_matches('/');
    event.worker() == Some(name.as_str()) && event.engine() == home
}

/// Whether a worker has ended.
pub(crate) fn is_end(event: &Event) -> bool {
    matches!(event.kind, EventKind::Ended { .. })
}

/// Whether a worker has come up or ended.
pub(crate) fn is_turn(event: &Event) -> bool {
    matches!(event.kind, EventKind::Started { .. }) || is_end(event)
}

/// Whether a worker that was told to stop has not ended as it should: by itself, in its grace, and
/// without an error.
pub(crate) fn is_bad_stop(kind: &EventKind) -> bool {
    match kind {
        EventKind::Aborted | EventKind::Stuck => true,
        EventKind::Ended { end, .. } => !matches!(end, EndKind::Stopped | EndKind::Done),
        _ => false,
    }
}

/// Returns an event as text, without its time.
pub(crate) fn line(event: &Event) -> String {
    format!("{} {}", event.path(), event.kind)
}
