//! The resources of a site that people hold: parked and paused ones.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_engine::{Engine, Exit, Origin, Timestamp, WorkerState};
use crankcase_resources::front::resource_name;
use crankcase_resources::run::Schedule;
use crankcase_resources::state::{Hold, Key, Topic};
use crankcase_resources::{BoxError, Facilities};
use crankcase_status::Holder;
use parking_lot::Mutex;

use crate::site_origin::ORIGIN;

/// The resources of a site that people hold. Pauses resources, and keeps on record which resources are paused and which
/// are parked. Cheap to clone; clones are the same.
///
/// It is for both the manifold of the site, which connects it, and the control socket.
#[derive(Clone, Default)]
pub struct ResourceHolds(Arc<Mutex<Option<Kept>>>);

// Each change of the value is one step, so a panic leaves no change half done.
impl UnwindSafe for ResourceHolds {}
impl RefUnwindSafe for ResourceHolds {}

/// The site that is kept.
#[derive(Clone)]
struct Kept {
    /// The engine of the resources.
    engine: Engine,
    schedule: Schedule,
    facilities: Facilities,
}

impl fmt::Debug for ResourceHolds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceHolds").finish_non_exhaustive()
    }
}

impl ResourceHolds {
    /// Connects it with the site that is kept from now on.
    pub(super) fn connect(&self, engine: Engine, schedule: Schedule, facilities: Facilities) {
        *self.0.lock() = Some(Kept { engine, schedule, facilities });
    }

    /// Returns the site that is kept, and the name of its resource at a path; none if there is none.
    fn find(&self, path: &str) -> Option<(Kept, String)> {
        let kept = self.0.lock().clone()?;
        let worker = path.strip_prefix(kept.engine.path())?.strip_prefix('/')?;
        let resource = resource_name(worker);
        kept.schedule.has(&resource).then_some((kept, resource))
    }
}

#[async_trait]
impl Holder for ResourceHolds {
    async fn note_park(&self, path: &str, by: Option<&Origin>) -> Result<(), String> {
        let Some((kept, resource)) = self.find(path) else { return Ok(()) };
        let Kept { engine, facilities, .. } = kept;
        let key = Key::new(Topic::Park, &*resource);
        let noted = match by {
            Some(by) => hold(by).note(facilities.records(), key).await,
            None => Hold::forget(facilities.records(), key).await,
        };
        if by.is_none() {
            unpark_again(&engine, path).await;
        } else if noted.is_ok() {
            // Its worker may never have started, so that nobody has adopted its program.
            facilities.end_survivors_of(&resource, "its resource is parked").await;
        }
        noted.map_err(unwritten)
    }

    async fn pause(&self, path: &str, by: Option<&Origin>) -> Result<(), String> {
        let Some((Kept { schedule, facilities, .. }, resource)) = self.find(path) else {
            return Err(format!("{path:?} is no resource, and only a resource can be paused"));
        };
        let paused = match by {
            Some(by) => schedule.pause(&resource, hold(by), facilities.records()).await,
            None => schedule.resume(&resource, facilities.records()).await,
        };
        paused.map_err(unwritten)
    }
}

/// Unparks a worker that was parked after a person has unparked it: the site parks again what was
/// on record as parked until now.
async fn unpark_again(engine: &Engine, path: &str) {
    let why = engine.why(path).await;
    let state = why.as_ref().and_then(|why| why.steps.first()).map(|step| step.state);
    if state == Some(WorkerState::Parked)
        && let Some((engine, name)) = engine.find(path)
    {
        // If the engine has ended, there is nothing to do.
        drop(engine.asked_by(ORIGIN, "it is on record as parked no more").unpark(name).await);
    }
}

/// Returns a hold that begins now.
fn hold(by: &Origin) -> Hold {
    Hold::new(&by.who, &by.why, now())
}

fn unwritten(error: BoxError) -> String {
    format!("cannot put it on record: {}", Exit::failed(error))
}

#[expect(clippy::disallowed_methods, reason = "people are told since when a resource is held")]
fn now() -> String {
    Timestamp(SystemTime::now()).to_string()
}
