//! A program that a resource keeps running.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use crankcase_engine::{Exit, Outcome, Stop, Stopper};
use crankcase_workers::{Ledger, Process, ProcessConfig, ProcessError, ProcessHandle, Survivor};
use tokio::sync::{oneshot, watch};

/// A program that runs. When it is dropped it is killed, and the worker that it was spawned for does
/// not count as ended before it is gone.
pub(crate) struct Supervised {
    /// The program's own: a resource may end it and go on.
    stopper: Stopper,
    /// Says that the program is to be left running.
    leaver: Stopper,
    survives: bool,
    handle: Arc<ProcessHandle>,
    /// Tells when the program is ready.
    told_ready: oneshot::Receiver<()>,
    /// Why its last check has failed, if it has.
    unhealthy: watch::Receiver<Option<String>>,
    run: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

/// How the supervision of a program has ended, and what is left if the program runs on.
type Ended = (Outcome, Option<Survivor>);

impl Supervised {
    pub(crate) async fn spawn(
        worker: &Stop,
        config: ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        Ok(Self::of(Process::spawn_for(worker, config, ledger).await?))
    }

    /// Adopts a program that an earlier agent has left running; returns nothing if it has ended.
    pub(crate) async fn adopt(
        worker: &Stop,
        config: ProcessConfig,
        ledger: Option<&Ledger>,
        survivor: &Survivor,
    ) -> Result<Option<Self>, ProcessError> {
        Ok(Process::adopt_for(worker, config, ledger, survivor).await?.map(Self::of))
    }

    fn of(process: Process) -> Self {
        let (handle, survives) = (Arc::new(process.handle()), process.survives());
        let ((stopper, stop), (leaver, left)) = (Stop::pair(), Stop::pair());
        let (ready, told_ready) = oneshot::channel();
        let run = Box::pin(async move {
            let process = match process.ready_unless(&stop).await {
                Ok(process) => process,
                Err(error) => return (Err(error.into()), None),
            };
            let _nobody_waits = ready.send(());
            let survivor = process.survivor();
            let outcome = process.run_or_leave(stop, async { left.wait().await }).await;
            let survivor = survivor.filter(|_| outcome.is_ok() && left.is_stopped());
            (outcome, survivor)
        });
        let unhealthy = handle.unhealthy();
        Self { stopper, leaver, survives, handle, told_ready, unhealthy, run }
    }

    /// Returns a view of the program that shows nothing any more once this is gone.
    pub(crate) fn handle(&self) -> Weak<ProcessHandle> {
        Arc::downgrade(&self.handle)
    }

    /// Returns the pid of the program, also after its end.
    pub(crate) fn pid(&self) -> i32 {
        self.handle.pid()
    }

    /// Returns whether the program was ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.handle.status().is_ready
    }

    /// Waits until the program is ready. Cancel safe; not to be called after the end.
    ///
    /// # Errors
    ///
    /// When it has ended before, or is not ready in time; it is gone then.
    pub(crate) async fn ready(&mut self) -> Result<(), Exit> {
        if self.is_ready() {
            return Ok(());
        }
        tokio::select! {
            biased;
            _ready = &mut self.told_ready => Ok(()),
            (outcome, _) = self.run.as_mut() => Err(own_end(outcome)),
        }
    }

    /// Waits until the program ends by itself, or until a health check has another result than the
    /// check before. Cancel safe; not to be called after the end.
    pub(crate) async fn news(&mut self) -> News {
        tokio::select! {
            biased;
            (outcome, _) = self.run.as_mut() => News::Ended(own_end(outcome)),
            Ok(()) = self.unhealthy.changed() => News::Health,
        }
    }

    /// Returns why the last check of its health has failed, if it has.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        self.unhealthy.borrow().clone()
    }

    /// Returns whether it may be left running.
    pub(crate) fn survives(&self) -> bool {
        self.survives
    }

    /// Leaves the program running, ready or not, and returns what another worker needs to adopt it;
    /// nothing if it has ended. Only for one that [survives](Self::survives).
    pub(crate) async fn leave(self) -> Option<Survivor> {
        self.leaver.stop();
        // This ends the wait until the program is ready. A worker that is told to leave the program
        // does not end it, even if it is told to stop as well.
        self.stopper.stop();
        let (outcome, survivor) = self.run.await;
        if let Err(exit) = outcome {
            tracing::debug!(%exit, "program ended before it was left");
        }
        survivor
    }

    /// Asks the program to end and waits for it. It may have ended by itself before.
    pub(crate) async fn end(self) {
        self.stopper.stop();
        if let (Err(exit), _) = self.run.await {
            tracing::debug!(%exit, "program ended before it was told to");
        }
    }
}

/// A change of a program that runs.
#[derive(Debug)]
pub(crate) enum News {
    /// It has ended by itself.
    Ended(Exit),
    /// Its health may have changed.
    Health,
}

/// Returns how a program that was not told to end has ended.
fn own_end(outcome: Outcome) -> Exit {
    match outcome {
        Err(exit) => exit,
        Ok(()) => Exit::failed("the program has ended"),
    }
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Supervised")
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::Path;

    use crankcase_engine::owner;

    use super::*;

    #[tokio::test]
    async fn a_worker_whose_program_is_dropped_ends_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let script = format!("exec >{}; echo $$; exec sleep 1000", pipe.display());
        let config = ProcessConfig::new("it", vec!["sh".into(), "-c".into(), script.into()]);
        let (_stopper, worker) = Stop::pair();
        let mut program = Supervised::spawn(&worker, config, None).await.unwrap();
        let mut line = String::new();
        tokio::select! {
            biased;
            news = program.news() => panic!("{news:?}"),
            read = tokio::task::spawn_blocking(move || {
                let mut lines = BufReader::new(std::fs::File::open(pipe)?);
                lines.read_line(&mut line).map(|_| line)
            }) => line = read.unwrap().unwrap(),
        }
        let place = Path::new("/proc").join(line.trim());
        assert!(place.exists());

        drop(program);
        let (told, ended) = oneshot::channel();
        owner::once_gone(&worker, move || {
            let _nobody_waits = told.send(place.exists());
        });

        assert!(!ended.await.unwrap());
    }
}
