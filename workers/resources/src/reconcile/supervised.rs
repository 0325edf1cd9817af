use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crankcase_engine::{Exit, Outcome, Stop, Stopper, Worker};
use crankcase_workers::{Ledger, Process, ProcessConfig, ProcessError};

/// A program that runs.
pub(super) struct Supervised {
    stopper: Stopper,
    run: Pin<Box<dyn Future<Output = Outcome> + Send>>,
}

impl Supervised {
    pub(super) async fn spawn(
        config: ProcessConfig,
        ledger: Option<&Ledger>,
    ) -> Result<Self, ProcessError> {
        let process = Process::spawn(config, ledger).await?;
        let (stopper, stop) = Stop::pair();
        Ok(Self { stopper, run: Box::pin(process.run(stop)) })
    }

    /// Waits until the program ends by itself. Cancel safe until then; not to be called after.
    pub(super) async fn ended(&mut self) -> Exit {
        match self.run.as_mut().await {
            Err(exit) => exit,
            Ok(()) => Exit::failed("the program has ended"),
        }
    }

    /// Asks the program to end and waits for it. That it ended by itself before is no matter.
    pub(super) async fn end(self) {
        self.stopper.stop();
        if let Err(exit) = self.run.await {
            tracing::debug!(%exit, "program ended before it was told to");
        }
    }
}

impl fmt::Debug for Supervised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Supervised")
    }
}
