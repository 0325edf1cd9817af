//! Waits until a process is ready.

use std::future::pending;

use tokio::time::sleep;

use super::probe::Probe;
use super::readiness::Readiness;
use super::ready_file::{ReadyFile, until_written};
use super::status::ProcessHandle;

impl Readiness {
    /// Waits until the process is ready; the handle says what was missing last. `before` is the
    /// file that was there before the process was spawned.
    pub(super) async fn reached(&self, handle: &ProcessHandle, before: Option<ReadyFile>) {
        let missing = handle.missing();
        let gone = match self {
            Self::Spawned => return,
            Self::Delay(delay) => {
                *missing.lock() = Some(format!("it has not run for {delay:?}"));
                return sleep(*delay).await;
            }
            Self::Port(address) => return Probe::Port(*address).until_answered(missing).await,
            Self::Http { address, path } => {
                let probe = Probe::Http { address: *address, path: path.clone() };
                return probe.until_answered(missing).await;
            }
            Self::File(path) => return until_written(path, before, missing).await,
            Self::Line(text) => {
                *missing.lock() = Some(format!("it has written no line with {text:?}"));
                handle.output().is_seen().wait_for(|is_seen| *is_seen).await.is_err()
            }
            Self::Notify { .. } => {
                *missing.lock() = Some("it has not sent READY=1".to_owned());
                handle.notified().wait_for(|notified| notified.is_ready).await.is_err()
            }
        };
        if gone {
            // Who would tell has ended; the process may end by itself, or its time does.
            pending::<()>().await;
        }
    }
}
