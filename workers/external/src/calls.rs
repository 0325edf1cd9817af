//! The calls that are under way, and who makes them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use crankcase_engine::{Stop, Stopper};
use crankcase_workers::{Finished, JobError, Ledger, Told};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::call_record::CallRecord;
use crate::settings::Settings;

/// The calls of types that are under way, and their end. Cheap to clone; clones are the same.
///
/// A process that makes calls [ends](Self::end) them before it ends itself, and waits for that: a
/// program or a container of a type would run on.
///
/// # Examples
///
/// ```
/// use crankcase_external::{Calls, External, Settings};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let calls = Calls::default();
/// let external = External::new(Settings::default()).with_calls(calls.clone());
/// // Load a site, and apply it.
/// calls.end();
/// calls.ended().await;
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Calls {
    all: Ending,
    loads: Ending,
    killed: Ending,
    open: Arc<watch::Sender<Open>>,
    /// How many bytes an action may write to a file.
    written: Arc<Mutex<Option<u64>>>,
}

/// How calls are told to stop.
#[derive(Clone)]
struct Ending {
    stopper: Stopper,
    stop: Stop,
}

impl Default for Ending {
    fn default() -> Self {
        let (stopper, stop) = Stop::pair();
        Self { stopper, stop }
    }
}

/// The calls under way, in the order in which they have begun.
#[derive(Debug, Default)]
struct Open {
    calls: BTreeMap<u64, String>,
    next: u64,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Calls").field(&self.open()).finish()
    }
}

impl Calls {
    /// Tells all calls to stop, those under way and those to come. Returns at once.
    pub fn end(&self) {
        self.all.stopper.stop();
    }

    /// Tells the calls of loads to stop, those under way and those to come. Returns at once. An agent that ends
    /// stops its resources, and with them their calls, in their order; nobody would stop a load.
    pub fn end_loads(&self) {
        self.loads.stopper.stop();
    }

    /// Tells all calls to stop, and kills the programs that they run, also those that are clients of an engine. Returns
    /// at once.
    pub fn kill(&self) {
        self.end();
        self.killed.stopper.stop();
    }

    /// Waits until no call is under way, and no container of an earlier one.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) {
        let mut open = self.open.subscribe();
        // The sender is this one's.
        drop(open.wait_for(|open| open.calls.is_empty()).await);
    }

    /// Returns a description of each call that is under way.
    pub fn open(&self) -> Vec<String> {
        self.open.borrow().calls.values().cloned().collect()
    }

    /// Sets how many bytes each action that begins from now on may write to a file; `None`, the default, is
    /// no limit but the system's. A program that writes more gets the signal XFSZ, or an error: so a test
    /// of a type sees what is left when it is killed while it writes.
    pub fn limit_writes(&self, bytes: Option<u64>) {
        *self.written.lock() = bytes;
    }

    /// Returns that limit.
    pub(crate) fn write_limit(&self) -> Option<u64> {
        *self.written.lock()
    }

    /// Returns the stop of the calls of loads.
    pub(crate) fn load_stop(&self) -> &Stop {
        &self.loads.stop
    }

    /// Returns whether a call must stop, because its caller or all calls are told to stop.
    pub(crate) fn is_over(&self, caller: &Stop) -> bool {
        caller.is_stopped() || self.all.stop.is_stopped()
    }

    /// Notes a call until the returned value is dropped.
    pub(crate) fn begin(&self, what: String) -> OpenCall {
        let mut id = 0;
        self.open.send_modify(|open| {
            id = open.next;
            open.next += 1;
            open.calls.insert(id, what);
        });
        OpenCall { id, open: Arc::clone(&self.open) }
    }

    /// Runs a job to its end. Tells it to stop when its caller or all calls are told to stop.
    pub(crate) async fn stopping(
        &self,
        (stopper, caller): (&Stopper, &Stop),
        job: impl Future<Output = Result<Finished, JobError>>,
    ) -> Result<Finished, JobError> {
        let mut job = pin!(job);
        tokio::select! {
            biased;
            done = &mut job => return done,
            () = caller.wait() => {}
            () = self.all.stop.wait() => {}
        }
        stopper.stop();
        tokio::select! {
            biased;
            done = &mut job => done,
            // Its process group is killed when it is dropped.
            () = self.killed.stop.wait() => Err(JobError::Stopped { output: String::new() }),
        }
    }
}

/// The caller of a type or an engine.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) calls: &'a Calls,
    /// The ledger of the agent that it calls for, if there is one.
    pub(crate) agent_ledger: Option<&'a Ledger>,
    /// Where its calls are on record otherwise.
    pub(crate) record: &'a CallRecord,
    pub(crate) stop: &'a Stop,
    pub(crate) told: Option<Told<'a>>,
}

impl Caller<'_> {
    /// Returns where its calls are on record, if they can be.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.agent_ledger.or_else(|| self.record.ledger())
    }

    /// Returns a function that says whether its calls must stop, for work that blocks a thread.
    pub(crate) fn stopped(&self) -> impl Fn() -> bool + Send + use<> {
        let (calls, stop) = (self.calls.clone(), self.stop.clone());
        move || calls.is_over(&stop)
    }
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct OpenCall {
    id: u64,
    open: Arc<watch::Sender<Open>>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.open.send_modify(|open| drop(open.calls.remove(&self.id)));
    }
}
