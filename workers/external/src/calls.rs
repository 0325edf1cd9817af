//! The calls that are under way, and their callers.

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

/// The calls of types that are under way, and their end. A clone is cheap, and shares the same
/// calls.
///
/// A process [ends](Self::end) its calls before it ends itself, and waits for them. Otherwise a
/// program or a container of a type runs on.
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
    /// The most bytes that an action may write to a file.
    written: Arc<Mutex<Option<u64>>>,
}

/// Both sides of a stop that many calls share.
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

/// The calls under way, in the order of their beginning.
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
    /// Asks all calls to stop, those under way and those to come. Returns at once.
    pub fn end(&self) {
        self.all.stopper.stop();
    }

    /// Asks the calls of loads to stop, those under way and those to come. Returns at once. An
    /// agent that ends stops its resources in their order, and each of them stops its calls.
    /// Nothing else stops a load.
    pub fn end_loads(&self) {
        self.loads.stopper.stop();
    }

    /// Asks all calls to stop, and kills their programs. Also kills the clients of an engine.
    /// Returns at once.
    pub fn kill(&self) {
        self.end();
        self.killed.stopper.stop();
    }

    /// Waits until no call is under way, and no container of an earlier call is left.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ended(&self) {
        let mut open = self.open.subscribe();
        // This value has the sender, so the wait cannot fail.
        drop(open.wait_for(|open| open.calls.is_empty()).await);
    }

    /// Returns a description of each call that is under way.
    pub fn open(&self) -> Vec<String> {
        self.open.borrow().calls.values().cloned().collect()
    }

    /// Sets the most bytes that each later action may write to a file. `None`, the default, leaves
    /// the limit to the system. A program that writes more gets the signal XFSZ, or an error. So a
    /// test of a type sees the files of a program that was killed while it wrote.
    pub fn limit_writes(&self, bytes: Option<u64>) {
        *self.written.lock() = bytes;
    }

    /// Returns the limit that [`limit_writes`](Self::limit_writes) has set.
    pub(crate) fn write_limit(&self) -> Option<u64> {
        *self.written.lock()
    }

    /// Returns the stop of the calls of loads.
    pub(crate) fn load_stop(&self) -> &Stop {
        &self.loads.stop
    }

    /// Returns whether a call of this caller must stop.
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

    /// Runs a job to its end. Asks it to stop when its caller must stop, or when all calls must.
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
            // The drop of the job kills its process group.
            () = self.killed.stop.wait() => Err(JobError::Stopped { output: String::new() }),
        }
    }
}

/// The caller of a type or an engine.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) calls: &'a Calls,
    /// The ledger of its agent, if it has an agent.
    pub(crate) agent_ledger: Option<&'a Ledger>,
    /// The record of its calls, if it has no agent.
    pub(crate) record: &'a CallRecord,
    pub(crate) stop: &'a Stop,
    pub(crate) told: Option<Told<'a>>,
}

impl Caller<'_> {
    /// Returns the ledger for its calls, if there is one.
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
