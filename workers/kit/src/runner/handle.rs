//! The handle by which others start, stop and follow the workers of a runner.

use std::fmt;
use std::sync::Arc;

use tokio::time::{Instant, timeout_at};

use super::error::RunnerError;
use super::report::RunnerReport;
use super::spec::ChildSpec;
use super::stay::{Ending, Stay};
use super::table::Shared;
use crate::moment::after;

/// Starts and stops the workers of a [`Runner`](super::Runner). Cheap to clone; dropping it stops
/// nothing.
///
/// Every call but `report` does what it says when it is made, and its future only waits. What a worker
/// would wait for in vain is refused if its own task makes the call. Calls are answered also
/// when the runner stops: a `wait` with the worker's end, a `start` that still waits with
/// [`RunnerError::Withdrawn`], and what comes later with [`RunnerError::Stopping`] or
/// [`RunnerError::Unknown`].
#[derive(Clone)]
pub struct RunnerHandle {
    shared: Arc<Shared>,
}

impl RunnerHandle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Starts a worker under a name; returns when its start has begun.
    ///
    /// If the name has a worker that was told to stop, it waits until that one is really gone. A
    /// start that fails is a failure of the worker, not of this call. Workers run on the runtime that
    /// this is called on.
    ///
    /// # Errors
    ///
    /// When the name has a worker that is not about to leave, or one that waits already; the name or
    /// the spec cannot be used; the worker is stopped or replaced before its turn comes; the runner
    /// stops; a worker that is about to leave would wait for its own end.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting; a worker that waits for its turn goes on waiting.
    pub fn start(
        &self,
        name: &str,
        spec: ChildSpec,
    ) -> impl Future<Output = Result<ChildWatch, RunnerError>> + Send + use<> {
        let stay = self.shared.put("start", name, spec, false);
        async move { begun(stay?).await }
    }

    /// Puts another spec under a name, whatever it has; returns when its start has begun.
    ///
    /// A worker that is there is told to stop, and the new one is started when it is really gone. One
    /// that waits for its turn is never started.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), but not because of a worker that is there; also when a worker would
    /// replace itself.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting; the replacement goes on.
    pub fn replace(
        &self,
        name: &str,
        spec: ChildSpec,
    ) -> impl Future<Output = Result<ChildWatch, RunnerError>> + Send + use<> {
        let stay = self.check_own_end("replace", name);
        let stay = stay.and_then(|()| self.shared.put("replace", name, spec, true));
        async move { begun(stay?).await }
    }

    /// Stops a worker; returns how it ended, when it is gone and its name free.
    ///
    /// One that waits for its next start is simply not started again, and one that waits for its
    /// turn never.
    ///
    /// # Errors
    ///
    /// When there is no worker of that name, or a worker would stop itself.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting; the worker stops all the same.
    pub fn stop(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Ending, RunnerError>> + Send + use<> {
        let stay = self.check_own_end("stop", name);
        let stay =
            stay.and_then(|()| self.shared.take_out(name).ok_or_else(|| unknown("stop", name)));
        async move { Ok(stay?.ended().await) }
    }

    /// Stops a worker and starts it again; returns when the old one is gone.
    ///
    /// One that backs off or is spent is started at once; its history of failures is kept.
    ///
    /// # Errors
    ///
    /// When there is no worker of that name, it is about to leave, or it would bounce itself.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting; the bounce goes on.
    pub fn bounce(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<(), RunnerError>> + Send + use<> {
        let bounced = self.check_own_end("bounce", name).and_then(|()| {
            let stay = self.shared.present(name).ok_or_else(|| unknown("bounce", name))?;
            let generation = stay.bounce().ok_or_else(|| unknown("bounce", name))?;
            Ok((stay, generation))
        });
        async move {
            let (stay, generation) = bounced?;
            stay.bounced(generation).await;
            Ok(())
        }
    }

    /// Waits until the worker that a name has now has left for good, and returns how it ended.
    ///
    /// Restarts are not ends: for a permanent worker it waits until someone stops or replaces it.
    ///
    /// # Errors
    ///
    /// When there is no worker of that name, or a worker would wait for itself.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait, and all get the same.
    pub fn wait(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Ending, RunnerError>> + Send + use<> {
        let stay = self.check_own_end("wait for", name);
        let stay =
            stay.and_then(|()| self.shared.present(name).ok_or_else(|| unknown("wait for", name)));
        async move { Ok(stay?.ended().await) }
    }

    /// Waits until the worker that a name has, or is about to have, is up.
    ///
    /// # Errors
    ///
    /// When there is no worker of that name, it leaves before it is up, or a worker would wait for
    /// itself.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn running(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<(), RunnerError>> + Send + use<> {
        let stay = self.shared.newest(name).ok_or_else(|| unknown("wait for", name));
        let stay = stay.and_then(|stay| {
            if stay.is_up().is_none() {
                // That of the worker that must end before, too.
                self.check_own_end("wait for", name)?;
            }
            Ok(stay)
        });
        async move { ChildWatch { stay: stay? }.running().await }
    }

    /// Returns the names that have a worker, in any state, sorted.
    pub fn names(&self) -> Vec<String> {
        self.shared.all().iter().map(|stay| stay.name().to_owned()).collect()
    }

    /// Returns what the workers are doing, with their own reports.
    ///
    /// It waits for those at most as long as the report deadline of the runner's policy. Calls at the
    /// same time share the answers. A worker whose answer is late is not asked again before it has
    /// answered.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn report(&self) -> RunnerReport {
        let stays = self.shared.all();
        let workers = stays.iter().map(|stay| (stay.name().to_owned(), stay.report()));
        let is_stopping = self.shared.is_stopping();
        let mut report = RunnerReport { is_stopping, workers: workers.collect() };
        let within = self.shared.policy().report_deadline;
        let deadline = after(Instant::now(), within);
        // All are asked before one is waited for.
        let ask = |stay: &Arc<Stay>| {
            let (reporter, runtime) = stay.reporter()?;
            Some(reporter.ask(within, within, runtime))
        };
        let asked: Vec<_> = stays.iter().map(ask).collect();
        for (stay, asked) in stays.iter().zip(asked) {
            let (Some(answer), Some(worker)) = (asked, report.workers.get_mut(stay.name())) else {
                continue;
            };
            match timeout_at(deadline, answer).await {
                Ok(Ok(detail)) => worker.report = Some(detail),
                Ok(Err(error)) => worker.reporter = Some(error.to_string()),
                Err(_) => worker.reporter = Some(format!("no answer within {within:?}")),
            }
        }
        report
    }

    /// Refuses what would make a worker wait for its own end.
    fn check_own_end(&self, action: &'static str, name: &str) -> Result<(), RunnerError> {
        match self.shared.present(name) {
            Some(stay) if stay.is_own_task() => Err(RunnerError::own_end(action, name)),
            _ => Ok(()),
        }
    }
}

/// Follows one spec under a name of a runner, through all its restarts. Cheap to clone; dropping it
/// stops nothing.
#[derive(Debug, Clone)]
pub struct ChildWatch {
    stay: Arc<Stay>,
}

impl ChildWatch {
    /// Waits until its worker is up.
    ///
    /// # Errors
    ///
    /// When it leaves before it is up, or its own worker would wait for itself.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn running(&self) -> Result<(), RunnerError> {
        if self.stay.is_up().is_none() && self.stay.is_own_task() {
            return Err(RunnerError::own_end("wait for", self.stay.name()));
        }
        if self.stay.up().await {
            Ok(())
        } else {
            Err(RunnerError::Left { name: self.stay.name().to_owned() })
        }
    }

    /// Waits until it has left for good, and returns how its last worker ended, also when that was
    /// long ago. Its own worker would wait until it is dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of callers may wait, and all get the same.
    pub async fn ended(&self) -> Ending {
        self.stay.ended().await
    }
}

/// Waits for a stay's turn.
async fn begun(stay: Arc<Stay>) -> Result<ChildWatch, RunnerError> {
    if stay.begun().await {
        Ok(ChildWatch { stay })
    } else {
        Err(RunnerError::Withdrawn { name: stay.name().to_owned() })
    }
}

fn unknown(action: &'static str, name: &str) -> RunnerError {
    RunnerError::Unknown { action, name: name.to_owned() }
}

impl fmt::Debug for RunnerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}
