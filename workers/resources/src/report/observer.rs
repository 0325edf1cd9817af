//! What happens to resources, for those who watch.

use std::fmt;
use std::time::{Duration, SystemTime};

use crankcase_engine::Origin;
use crankcase_workers::{Fate, Leftover};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::base::packed::Packed;
use crate::base::text::cut_after;
use crate::report::account::{Accounted, Done};
use crate::report::found::{Difference, summary};

/// The length of the texts of one event, in characters.
const LONGEST_TEXTS: usize = 64 * 1024;

/// The length of the longest value in an event, in bytes of JSON.
const LONGEST_VALUE: usize = 4 * 1024;

/// The most lines of one action in an excerpt of an event.
const MOST_LINES: usize = 20;

/// The length of the longest of these lines, in characters.
const LONGEST_LINE: usize = 1_000;

/// Sees what happens to resources in apply and run, as it happens. See
/// [`Facilities::observed_by`](crate::Facilities::observed_by).
///
/// It is called where resources are worked on, several at a time, so it must not block for long.
/// Secrets are hidden in all that it sees.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Sees a line of an action's output while the action runs. Of a kind that does not say its lines at
    /// once ([`Context::said`](crate::Context::said)), nothing is seen.
    fn said(&self, resource: &str, line: &str) {
        let _ = (resource, line);
    }

    /// Sees, under run, that a resource is about to do its first action after a look, which the
    /// schedule has allowed. `event` is the event that follows the actions, as far as it is known.
    /// The call may block for the disk.
    fn begins(&self, event: &Event) {
        let _ = event;
    }

    /// Sees, under run, that an action of a resource has failed again, for the same reason as the
    /// last time, was interrupted because its worker is to stop while the agent goes on, or was not
    /// begun after all. There is no event for it. The call may block for the disk.
    fn failed_again(&self, resource: &str) {
        let _ = resource;
    }

    /// Sees that a resource was changed, or could not be. A failure that is the same at each try is seen
    /// once.
    fn happened(&self, event: &Event) {
        let _ = event;
    }

    /// Sees how apply has ended with a resource.
    fn accounted(&self, accounted: &Accounted) {
        let _ = accounted;
    }
}

/// What has happened to a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Event {
    /// What that was.
    pub event: EventKind,
    /// The resource's name.
    pub resource: String,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// What was not as declared, as a text of bounded length; empty if nothing was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub differences: String,
    /// What was not as declared, per attribute. Texts are cut after 65,536 characters in all, and of a value
    /// that is longer than 4 KiB as JSON only the length is here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Difference>,
    /// The names of the actions that were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<String>,
    /// The actions that were done, and after them the one that has failed, with what each has said: in
    /// [`LastEvent`] the last 20 lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Done>,
    /// The resources and rules that have notified it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notified_by: Vec<String>,
    /// The caller that has bounced or unparked the worker of the resource, if that was the reason for
    /// the look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<AskedBy>,
    /// The pid of the program that was started, adopted or reloaded, or has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Why it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the resource was looked at, or why its program was started, adopted or reloaded, or why
    /// it has ended.
    pub why: String,
    /// How long that took, with the look, in milliseconds.
    pub took_ms: u64,
}

/// The caller of a bounce or an unpark, and its reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskedBy {
    /// The name of the caller, such as that of a user.
    pub who: String,
    /// The reason that the caller has given.
    pub why: String,
}

impl From<Origin> for AskedBy {
    fn from(Origin { who, why, .. }: Origin) -> Self {
        Self { who, why }
    }
}

/// What can happen to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// It was made as declared, for the first time or because its declaration is another one.
    Changed,
    /// Something else had changed it, and it was made as declared again.
    Repaired,
    /// It has answered a notification.
    Refreshed,
    /// It could not be made as declared.
    Failed,
    /// It has left its manifest, and is not kept any more.
    Released,
    /// Its program was started for the first time since the agent keeps it.
    Started,
    /// Its program was started again. One that ran was ended before.
    Restarted,
    /// Its program was told to read its configuration anew, and runs on.
    Reloaded,
    /// Its program was adopted: a worker before had started it, and left it running.
    Adopted,
    /// Its program has ended: by itself, or with its worker, or because it cannot be kept any more.
    Ended,
}

impl EventKind {
    /// Returns whether it has happened to the program of the resource, and not to the resource.
    /// Rules wait for none of these.
    pub fn is_of_program(self) -> bool {
        matches!(
            self,
            Self::Started | Self::Restarted | Self::Reloaded | Self::Adopted | Self::Ended
        )
    }

    /// Returns it as a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Repaired => "repaired",
            Self::Refreshed => "refreshed",
            Self::Failed => "failed",
            Self::Released => "released",
            Self::Started => "started",
            Self::Restarted => "restarted",
            Self::Reloaded => "reloaded",
            Self::Adopted => "adopted",
            Self::Ended => "ended",
        }
    }
}

impl Event {
    /// Returns that the program of a resource, with a name and a kind, has ended: an earlier agent
    /// had left it behind. Returns none if it was never started, or may still run.
    pub fn left_behind(resource: (&str, &str), leftover: &Leftover) -> Option<Self> {
        let why = match (leftover.fate, leftover.pid) {
            (Fate::Ended, _) => "an earlier agent had left it behind",
            (Fate::Gone, Some(_)) => "an earlier agent had left it behind, and it was gone",
            _ => return None,
        };
        let pid = leftover.pid;
        Some(Self { pid, ..Self::new(EventKind::Ended, resource, (why, Duration::ZERO)) })
    }

    pub(crate) fn new(
        event: EventKind,
        (resource, kind): (&str, &str),
        (why, took): (&str, Duration),
    ) -> Self {
        Self {
            event,
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            differences: String::new(),
            changes: Vec::new(),
            actions: Vec::new(),
            done: Vec::new(),
            notified_by: Vec::new(),
            asked_by: None,
            pid: None,
            error: None,
            why: why.to_owned(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Adds what differed, what was done, and the action that has failed.
    #[must_use]
    pub(crate) fn with(
        self,
        differences: &[Difference],
        done: &[Done],
        failed: Option<&Done>,
    ) -> Self {
        let actions = done.iter().map(|done| done.action.name.clone()).collect();
        Self {
            differences: summary(differences),
            changes: bounded(differences),
            actions,
            done: done.iter().chain(failed).cloned().collect(),
            ..self
        }
    }

    /// Returns the event with the last lines that each action has said: one is kept of each resource.
    #[must_use]
    pub(crate) fn excerpt(mut self) -> Self {
        for Done { log, .. } in &mut self.done {
            let last = log[log.len().saturating_sub(MOST_LINES)..].iter();
            *log = last.map(|line| cut_after(line, LONGEST_LINE)).collect();
        }
        self
    }
}

impl Event {
    /// Returns the event without values, diffs and lines: a rule may have to keep many.
    pub(crate) fn brief(&self) -> Self {
        let Self { event, resource, kind, differences, actions, error, why, took_ms, .. } = self;
        Self {
            event: *event,
            resource: resource.clone(),
            kind: kind.clone(),
            differences: differences.clone(),
            changes: Vec::new(),
            actions: actions.clone(),
            done: Vec::new(),
            notified_by: self.notified_by.clone(),
            asked_by: self.asked_by.clone(),
            pid: self.pid,
            error: error.clone(),
            why: why.clone(),
            took_ms: *took_ms,
        }
    }
}

/// Returns differences of bounded length.
fn bounded(differences: &[Difference]) -> Vec<Difference> {
    let mut left = LONGEST_TEXTS;
    let value = |value: &Value| match value.to_string().len() {
        length if length > LONGEST_VALUE => Value::from(format!("({length} bytes)")),
        _ => value.clone(),
    };
    let bounded = differences.iter().map(|difference| {
        let text = difference.text.as_ref().map(|text| cut_after(text, left));
        left = left.saturating_sub(text.as_ref().map_or(0, |text| text.chars().count()));
        let (old, new) = (value(&difference.old), value(&difference.new));
        Difference { attribute: difference.attribute.clone(), old, new, text }
    });
    bounded.collect()
}

/// The last event of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastEvent {
    /// When it happened, in RFC 3339 and UTC.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl LastEvent {
    /// Packs an event that happens now.
    #[expect(clippy::disallowed_methods, reason = "people are told when it was")]
    pub(crate) fn pack(event: Event) -> Packed {
        let at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        Packed::new(&json!(Self { at, event }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crankcase_workers::{Fate, Leftover};
    use serde_json::{Value, json};

    use super::{Event, EventKind, LONGEST_TEXTS, LastEvent};
    use crate::declare::action::Action;
    use crate::report::account::Done;
    use crate::report::found::Difference;

    #[test]
    fn a_program_that_was_left_behind_has_ended_unless_it_may_run_or_never_ran() {
        let left = |pid, fate| {
            let leftover = Leftover { name: "web".to_owned(), pid, fate };
            Event::left_behind(("web", "process"), &leftover).map(|event| event.why)
        };

        let ended = left(Some(7), Fate::Ended);
        let gone = left(Some(7), Fate::Gone);

        assert_eq!(ended.as_deref(), Some("an earlier agent had left it behind"));
        assert_eq!(gone.as_deref(), Some("an earlier agent had left it behind, and it was gone"));
        for (pid, fate) in [(None, Fate::Gone), (Some(7), Fate::Remains), (None, Fate::Unreadable)]
        {
            assert_eq!(left(pid, fate), None, "{fate}");
        }
    }

    #[test]
    fn an_event_is_whole_and_its_excerpt_of_bounded_length() {
        let long = "x".repeat(100_000);
        let differences = [
            Difference::new("content", long.clone().into(), Value::Null).with_text(long.clone()),
            Difference::new("mode", "0644".into(), "0600".into()).with_text(long.clone()),
        ];
        let done = [Done { action: Action::new("write"), log: vec![long; 50] }];

        let happened = Event::new(EventKind::Repaired, ("page", "file"), ("why", Duration::ZERO));
        let whole = happened.with(&differences, &done, None);
        let happened = whole.clone().excerpt();

        assert_eq!(whole.done, done);
        assert_eq!(happened.changes[0].old, json!("(100002 bytes)"));
        let texts = happened.changes.iter().filter_map(|change| change.text.as_ref());
        assert!(texts.map(String::len).sum::<usize>() < LONGEST_TEXTS + 100);
        assert_eq!(
            (happened.done[0].log.len(), &happened.actions[..]),
            (20, &["write".to_owned()][..])
        );
        assert!(serde_json::to_string(&happened).is_ok_and(|text| text.len() < 128 * 1024));
    }

    #[test]
    fn a_last_event_is_unpacked_as_it_happened() -> Result<(), serde_json::Error> {
        let differences = [
            Difference::new("mode", "0644".into(), "0600".into()),
            Difference::new("size", json!(0.1), json!({"old": [u64::MAX]}))
                .with_text("-a\n+b".into()),
        ];
        let done = [Done { action: Action::new("write"), log: vec!["a \"line\"".to_owned()] }];
        let happened = Event::new(EventKind::Repaired, ("page", "file"), ("why", Duration::ZERO));
        let happened = happened.with(&differences, &done, None);

        let LastEvent { event, .. } =
            serde_json::from_value(LastEvent::pack(happened.clone()).value())?;

        assert_eq!(event, happened);
        Ok(())
    }
}
