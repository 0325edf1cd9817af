//! Waits until a process is ready.

use std::future::pending;

use tokio::time::sleep;

use super::probe::Probe;
use super::readiness::Readiness;
use super::status::ProcessHandle;

impl Readiness {
    /// Waits for what makes the process ready; `said` has what was missing last.
    pub(super) async fn reached(&self, handle: &ProcessHandle, said: &mut Option<String>) {
        let gone = match self {
            Self::Spawned => return,
            Self::Delay(delay) => return sleep(*delay).await,
            Self::Port(address) => return Probe::Port(*address).until_answered(said).await,
            Self::Http { address, path } => {
                let probe = Probe::Http { address: *address, path: path.clone() };
                return probe.until_answered(said).await;
            }
            Self::Line(text) => {
                *said = Some(format!("it has written no line with {text:?}"));
                handle.output().is_seen().wait_for(|is_seen| *is_seen).await.is_err()
            }
            Self::Notify { .. } => {
                *said = Some("it has not sent READY=1".to_owned());
                handle.notified().wait_for(|notified| notified.is_ready).await.is_err()
            }
        };
        if gone {
            // Who would tell has ended; the process may end by itself, or its time does.
            pending::<()>().await;
        }
    }
}
