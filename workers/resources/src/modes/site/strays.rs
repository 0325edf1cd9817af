//! The programs that an earlier agent has left, and whose resources are not in the site any more.

use std::collections::HashSet;
use std::time::Duration;

use crankcase_workers::Survivor;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use crate::declare::declaration::Declaration;
use crate::modes::site::Site;
use crate::state::facilities::Facilities;

/// How long such a program may take to end before it is killed: it must not hold up all others.
const LONGEST_GRACE: Duration = Duration::from_secs(10);

impl Site {
    /// Ends the programs that an earlier agent has left running and that no resource of the site is
    /// to adopt. Ends none if the site was [cut](Self::select) down to some resources.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, those that were asked to end are killed, or stay on record.
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
        end_all(strays, "it is not declared").await;
    }
}

impl Facilities {
    /// Ends the programs that an earlier agent has left running for a resource that is parked, and
    /// that nobody has adopted.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, those that were asked to end are killed, or stay on record.
    pub async fn end_survivors_of(&self, resource: &str) {
        let left = self.survivors().take_all(|it| it.name() == resource);
        end_all(left, "its resource is parked").await;
    }
}

async fn end_all(survivors: Vec<Survivor>, why: &'static str) {
    let mut ending = JoinSet::new();
    for stray in survivors {
        ending.spawn(end(stray, why).in_current_span());
    }
    while ending.join_next().await.is_some() {}
}

async fn end(stray: Survivor, why: &'static str) {
    let (process, pid) = (stray.name().to_owned(), stray.pid());
    match timeout(LONGEST_GRACE, stray.end()).await {
        Ok(Err(err)) => {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(process, pid, error, "cannot end what an earlier agent has left");
        }
        // A program that has not ended in time is killed, because its future was dropped.
        Ok(Ok(())) | Err(_) => {
            tracing::info!(process, pid, why, "ended: an earlier agent had left it");
        }
    }
}
