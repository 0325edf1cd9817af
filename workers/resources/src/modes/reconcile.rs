//! One resource under `run`: it is kept as declared until its worker is told to stop.
//!
//! Invariants:
//! 1. The schedule says when the resource is visited. Each visit works from all that is known when
//!    it begins; what comes later has it visited again.
//! 2. A path is watched before the resource is checked, so no later change of it is missed.
//! 3. After a failure the next visit waits for the backoff, for a watch, or for the schedule. After
//!    many repairs in a row watches do not count: two resources that undo each other's changes must
//!    not keep the machine busy.
//! 4. Looks that watches cause and that find nothing to do take a tenth of the time at most: a file
//!    that is written all the time must not keep the machine busy either. A look that fails counts
//!    as a longer one, because a failing action may set off the watches itself.
//! 5. The schedule is asked before each action, and before a program is started for the first time,
//!    or is replaced. A program that has ended and ran with an equal config is started without a
//!    question, and a program that an earlier agent or worker has left running is adopted without a
//!    question: a resource that is held back gets its program back.
//! 6. A resource that a person has paused is not looked at and not changed. Its program runs on,
//!    and is started again without a question. The resource counts as good, and offers its last
//!    state. No health check ends the program; the same holds for a resource that is `noop`.
//! 7. The outcome of a visit is reported once. A visit that did not end well after the worker was
//!    told to stop is given up instead: it is no failure, and the next worker visits again.
//! 8. A visit that waits until a program is ready ends when something new was sent to the resource.
//!    The program runs on, and the next visit replaces it, waits again, or leaves it alone.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crankcase_engine::{Backoff, Exit, Health, Journal, Live, Origin, Outcome, Stop};
use crankcase_workers::{Containment, ProcessHandle, Watches};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;

use crate::declare::declaration::Declaration;
use crate::declare::earlier_config::EarlierConfig;
use crate::kind::kinds::Kinds;
use crate::state::facilities::Facilities;
use crate::visit::claims::Claims;

use self::reconciler::Reconciler;

pub use self::declared::CurrentDeclaration;
pub use self::tallies::Tallies;
use crate::schedule::shared::Schedule;
use crate::schedule::state::State;

mod declared;
mod open_resource;
mod reconciler;
mod tallies;

/// How often a resource is looked at when nothing says that it may have changed: every 5 minutes,
/// give or take 20 %.
pub const FULL_LOOK: Duration = Duration::from_secs(5 * 60);

/// How long a file that a resource reads, such as a template, must have been left alone before it is read again.
pub const QUIET: Duration = Duration::from_millis(500);

/// How resources are kept.
#[derive(Debug, Clone)]
pub struct Reconcile {
    /// The kinds that resources may have.
    pub kinds: Kinds,
    /// The wait after a check or an action that failed.
    pub backoff: Backoff,
    /// How often a resource is looked at without a reason; default [`FULL_LOOK`]. It is spread by
    /// the backoff's jitter.
    pub look_every: Duration,
    /// How long a file that a resource [reads](crate::Watch::reads) must have been left alone after a change before it
    /// is read again; default [`QUIET`], at most 10 s. One that keeps changing is read after 20 times that, and one that
    /// somebody has written to and not closed is waited for up to 5 s.
    pub quiet: Duration,
    /// What resources are given; nothing that outlives the process by default.
    pub facilities: Facilities,
    /// Seeds the jitter, together with the resource's name. By default another one each time, so
    /// that hosts that have lost the same server do not come back to it in step.
    pub seed: u64,
}

impl Reconcile {
    /// Returns the defaults with these kinds.
    pub fn new(kinds: Kinds) -> Self {
        let backoff = Backoff::default();
        let seed = rand::random();
        let facilities = Facilities::default();
        Self { kinds, backoff, look_every: FULL_LOOK, quiet: QUIET, facilities, seed }
    }

    /// Returns the wait after a failure: that of the resource itself, or of all.
    fn backoff_of(&self, declaration: &Declaration) -> Backoff {
        let own = declaration.backoff.as_deref();
        own.unwrap_or(&self.backoff).clone()
    }
}

/// What one resource is connected to.
#[derive(Debug)]
pub struct Links {
    /// What is declared of it.
    pub declaration: CurrentDeclaration,
    /// What tells that files have changed.
    pub watches: Live<Watches>,
    /// The schedule of its site. It must know the resource before the worker starts, and each
    /// dependency must have a state on offer by then.
    pub schedule: Schedule,
    /// Which resource keeps which path.
    pub claims: Claims,
    /// What is known of the program that the resource keeps running, if it keeps one.
    pub program: Program,
    /// What is told how well the resource is.
    pub health: Health,
    /// What is told how the resource was changed, and why.
    pub journal: Journal,
    /// The caller that has bounced or unparked the worker before this start, and its reason.
    pub asked_by: Option<Origin>,
}

/// What is known of the program of a resource.
///
/// It belongs to the resource and outlives its worker, which ends with the program. Cheap to clone;
/// clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Program(Arc<Mutex<MaybeKnown>>);

/// What is known once a program was started. Few resources have one.
type MaybeKnown = Option<Box<Known>>;

#[derive(Default)]
struct Known {
    /// The one that was started last, while it runs.
    running: Weak<ProcessHandle>,
    /// How it has ended, if it does not run and was not told to.
    last_end: Option<String>,
    /// The config with which one was started last.
    ran_with: Option<EarlierConfig>,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The config may hold secrets.
        let Self { running, last_end, .. } = self;
        let mut shown = f.debug_struct("Known");
        shown.field("running", running).field("last_end", last_end).finish_non_exhaustive()
    }
}

/// What the program of a resource does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ProgramStatus {
    /// The pid of its leader, which is its group's id.
    pub pid: i32,
    /// Whether it was adopted from an earlier agent or worker: how it ends will be unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// What ends with it: all that it has started, or its process group.
    pub contained_by: Containment,
    /// Whether it was ready for those that depend on it.
    pub is_ready: bool,
    /// What it lacks to be ready; none once it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// Why its last health check has failed, and how many checks have; none while it is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
    /// How many lines it has written to stdout and stderr.
    pub lines: u64,
    /// How many of them were dropped because they came too fast.
    pub dropped_lines: u64,
}

impl Program {
    /// Returns what the program does, if it runs.
    pub fn status(&self) -> Option<ProgramStatus> {
        let status = self.0.lock().as_ref()?.running.upgrade()?.status();
        Some(ProgramStatus {
            pid: status.pid,
            adopted: status.is_adopted,
            contained_by: status.contained_by,
            is_ready: status.is_ready,
            waits_for: status.waits_for,
            unhealthy: status.unhealthy,
            lines: status.lines,
            dropped_lines: status.dropped_lines,
        })
    }

    /// Notes that it was started.
    fn begin(&self, running: Weak<ProcessHandle>, config: EarlierConfig) {
        let known = Known { running, ran_with: Some(config), last_end: None };
        *self.0.lock() = Some(Box::new(known));
    }

    /// Returns how it has ended, if it does not run and was not told to end.
    fn last_end(&self) -> Option<String> {
        self.0.lock().as_ref()?.last_end.clone()
    }

    /// Returns the config with which it was started last, by any worker.
    fn ran_with(&self) -> Option<EarlierConfig> {
        self.0.lock().as_ref()?.ran_with.clone()
    }

    /// Notes that it has ended and was not told to.
    fn end(&self, exit: &Exit) {
        self.0.lock().get_or_insert_default().last_end = Some(exit.to_string());
    }
}

/// Keeps a resource as declared until `stop` is told. The resources of a site share the setting.
///
/// It is checked, changed if need be, and checked again; then it waits until a watched path, the
/// state of a dependency, its declaration or a notification says that it may be otherwise, and at
/// the latest for the next full look. A check or an action that fails makes it degraded, with the
/// reason, and is tried again after a backoff, or as soon as one of these says that it may be
/// otherwise. The state that it had stays on offer.
///
/// Nothing is done to it while a resource that it depends on is not as declared: it is degraded
/// then too, *held back by* that resource, and goes on at once when that one is repaired. As long
/// as a resource before it is at work it waits, and says nothing.
///
/// `offer` is called with a watch of the state when the resource is as declared for the first time.
///
/// While a person has paused it, it is left alone and counts as good, and its program runs on.
///
/// A new state of a dependency renders the config again. With an equal config the resource is
/// checked, and no more; with another one it is made anew, and a program of it is started anew. A
/// program is also started anew by a notification.
///
/// # Errors
///
/// When a supervised program cannot be started or has ended by itself: the engine starts the worker
/// again after its backoff.
///
/// # Cancel safety
///
/// Not cancel safe: tell `stop` instead. A program that runs is killed when it is dropped. When the
/// agent [ends](Facilities::leave_programs), a program that may outlive it is left running.
pub fn reconcile<F>(
    setting: Arc<Reconcile>,
    links: Links,
    offer: F,
    stop: Stop,
) -> impl Future<Output = Outcome>
where
    F: FnOnce(watch::Receiver<State>) + Send,
{
    // Made before the future: an `async fn` would hold its arguments twice. Boxed, so that the task
    // has little more than the wait.
    let mut reconciler = Box::new(Reconciler::new(setting, links, offer, stop));
    async move {
        let outcome = reconciler.run().await;
        Box::pin(reconciler.close()).await;
        outcome
    }
}
