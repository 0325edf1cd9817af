use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Job, Ledger, ProcessConfig, Secrets};
use serde_json::Value;

use crate::error::BoxError;
use crate::reconcile::Board;
use crate::rules::cause::Cause;
use crate::world::{World, set_fact};

/// How much of what a command writes is kept for its error, in bytes.
const KEPT: usize = 2 * 1024;

/// With what a rule does its work.
#[derive(Debug, Clone)]
pub struct Hands {
    pub(crate) rule: String,
    pub(crate) world: Arc<dyn World>,
    pub(crate) secrets: Secrets,
    pub(crate) board: Board,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) timeout: Duration,
    pub(crate) stop: Stop,
}

impl Hands {
    /// Returns a fact; none if nothing is at the path.
    ///
    /// # Errors
    ///
    /// When the path is none.
    pub fn fact(&self, path: &str) -> Result<Option<Value>, BoxError> {
        self.world.get(path)
    }

    /// Writes a fact, which is the rule's own from then on; none removes it.
    ///
    /// # Errors
    ///
    /// When the fact is of somebody else, does not fit its schema, would show a secret, or cannot be written.
    pub async fn set_fact(&self, path: &str, value: Option<Value>) -> Result<(), BoxError> {
        let owner = format!("rule {}", self.rule);
        set_fact((&*self.world, &self.secrets), &owner, path, value).await
    }

    /// Notifies a resource: it does what it does for a notification, or is looked at.
    ///
    /// # Errors
    ///
    /// When there is no such resource.
    pub fn notify(&self, resource: &str) -> Result<(), BoxError> {
        match self.board.notify(resource, &format!("rule {}", self.rule)) {
            true => Ok(()),
            false => Err(format!("there is no resource \"{resource}\" to notify").into()),
        }
    }

    /// Runs a command to its end, with its children. Its stdin is the cause, as JSON.
    ///
    /// # Errors
    ///
    /// When it cannot be started, takes too long, or ends with anything but 0.
    pub async fn run(&self, command: &[String], cause: &Cause) -> Result<(), BoxError> {
        let argv: Vec<OsString> = command.iter().map(OsString::from).collect();
        let mut process = ProcessConfig::new(&format!("rule {}", self.rule), argv);
        process.input = serde_json::to_vec(cause)?;
        let job = Job::new(process, self.timeout).with_children().kept(KEPT, KEPT);
        let finished = job.run(self.ledger.as_ref(), &self.stop, (None, None)).await?;
        match finished.status.success() {
            true => Ok(()),
            false => {
                Err(format!("the command {}: {}", finished.end(), finished.stderr.trim()).into())
            }
        }
    }
}
