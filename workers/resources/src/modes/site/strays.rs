//! The programs that were left running, and whose resources are not in the site any more.

use std::collections::HashSet;
use std::time::Duration;

use crankcase_workers::{Fate, Survivor};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use crate::declare::declaration::Declaration;
use crate::modes::site::Site;
use crate::report::observer::{Event, EventKind};
use crate::state::facilities::Facilities;

/// How long such a program may take to end before it is killed: it must not hold up all others.
const LONGEST_GRACE: Duration = Duration::from_secs(10);

/// Why such a program has ended that did not run any more.
const GONE: &str = "it had ended before; how is unknown";

/// A program that has ended.
struct EndedStray {
    /// The name of its resource.
    resource: String,
    pid: i32,
    why: &'static str,
}

impl Site {
    /// Ends the programs that an earlier agent has left running and that no resource of the site is
    /// to adopt, and tells the observer so. Ends none if the site was [cut](Self::select) down to
    /// some resources.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, those that were asked to end are killed, or stay on record. The observer
    /// is told of none.
    pub async fn end_stray_programs(&self, facilities: &Facilities) {
        if self.is_cut() {
            return;
        }
        let is_program = |declared: &&Declaration| {
            self.kinds().get(&declared.kind).is_ok_and(|kind| kind.is_supervised())
        };
        let programs = self.declarations().iter().filter(is_program);
        let programs: HashSet<&str> = programs.map(|declared| declared.name.as_str()).collect();
        let unsure = self.unsure();
        let is_stray = |it: &Survivor| !programs.contains(it.name()) && !unsure.has(it.name());
        let strays = facilities.survivors().take_all(is_stray);
        for stray in end_all(strays, "it is not declared").await {
            if let Some(kind) = self.kind_of_stray(&stray.resource, facilities) {
                facilities.tell_end(&stray, &kind);
            }
        }
    }

    /// Returns the kind of the resource of such a program. If the resource has left with an apply,
    /// its kind is not on record any more, and is taken to be the one that has programs.
    fn kind_of_stray(&self, resource: &str, facilities: &Facilities) -> Option<String> {
        let has_programs =
            |kind: &str| self.kinds().get(kind).is_ok_and(|kind| kind.is_supervised());
        let on_record = facilities.records().look(|loaded| loaded.kind_of(resource));
        let mut kinds = on_record.as_deref().into_iter().chain(self.kinds().names());
        kinds.find(|kind| has_programs(kind)).map(str::to_owned)
    }
}

impl Facilities {
    /// Ends the programs that were left running for a resource and that nobody has adopted, and
    /// tells the observer so, with the reason.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, those that were asked to end are killed, or stay on record. The observer
    /// is told of none.
    pub async fn end_survivors_of(&self, resource: &str, why: &'static str) {
        let left = self.survivors().take_all(|it| it.name() == resource);
        for stray in end_all(left, why).await {
            if let Some(kind) = self.records().look(|loaded| loaded.kind_of(&stray.resource)) {
                self.tell_end(&stray, &kind);
            }
        }
    }

    /// Tells the observer that such a program of a resource of this kind has ended.
    fn tell_end(&self, EndedStray { resource, pid, why }: &EndedStray, kind: &str) {
        if let Some(observer) = self.observer() {
            let why = format!("it was left running: {why}");
            let event = Event::new(EventKind::Ended, (resource, kind), (&why, Duration::ZERO));
            observer.happened(&Event { pid: Some(*pid), ..event });
        }
    }
}

/// Ends programs, and returns those that have ended.
async fn end_all(survivors: Vec<Survivor>, why: &'static str) -> Vec<EndedStray> {
    let mut ending = JoinSet::new();
    for stray in survivors {
        ending.spawn(end(stray, why).in_current_span());
    }
    let mut ended = Vec::new();
    while let Some(stray) = ending.join_next().await {
        ended.extend(stray.ok().flatten());
    }
    ended
}

/// Ends a program. Returns none if it could not be ended.
async fn end(stray: Survivor, why: &'static str) -> Option<EndedStray> {
    let (resource, pid) = (stray.name().to_owned(), stray.pid());
    let why = match timeout(LONGEST_GRACE, stray.end_or_clear()).await {
        Ok(Err(err)) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(process = resource, pid, error, "cannot end what was left running");
            return None;
        }
        Ok(Ok(Fate::Gone)) => GONE,
        // A program that has not ended in time is killed, because its future was dropped.
        Ok(Ok(_)) | Err(_) => why,
    };
    tracing::info!(process = resource, pid, why, "ended: it was left running");
    Some(EndedStray { resource, pid, why })
}
