//! Changes of a worker, and their effect on others.

use crate::client::{Client, ClientError};
use crate::wire::{ControlRequest, Controlled, WorkerChange};

impl Client {
    /// Asks for a change of a worker, like the method of its name.
    ///
    /// # Errors
    ///
    /// As the method of its name, such as [`bounce`](Self::bounce) or [`pause`](Self::pause).
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the change.
    pub async fn change(
        &self,
        change: WorkerChange,
        request: &ControlRequest,
    ) -> Result<Controlled, ClientError> {
        match change {
            WorkerChange::Act(act) => self.control(act, request).await,
            WorkerChange::Pause => self.pause(request).await,
            WorkerChange::Resume => self.resume(request).await,
        }
    }

    /// Returns in words what a change of a worker would do to others. Of each list at most so many
    /// names are said, as `name` writes them. The agent is asked only about what its engine does.
    ///
    /// # Errors
    ///
    /// As [`preview`](Self::preview).
    pub async fn effect(
        &self,
        change: WorkerChange,
        path: &str,
        most: usize,
        name: fn(&str) -> String,
    ) -> Result<String, ClientError> {
        Ok(match change {
            WorkerChange::Act(act) => self.preview(act, path).await?.in_words(most, name),
            WorkerChange::Pause => {
                "stops no worker: it runs on, and its work is left alone until it is resumed".into()
            }
            WorkerChange::Resume => "stops no worker: it goes on with its work".into(),
        })
    }
}
