//! What the handler of a rule may use: facts, notifications and commands.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Job, Ledger, ProcessConfig, Secrets};
use serde_json::Value;

use crate::base::error::BoxError;
use crate::rules::cause::Cause;
use crate::rules::pace::Pace;
use crate::schedule::shared::Schedule;
use crate::state::world::{World, WorldSnapshot, set_fact};

/// How much of the output of a command is kept for its error, in bytes.
const KEPT: usize = 2 * 1024;

/// What a rule can use to do its work: facts, notifications and commands.
#[derive(Debug, Clone)]
pub struct RuleTools {
    pub(crate) rule: String,
    pub(crate) world: Arc<dyn World>,
    pub(crate) facts: Arc<dyn WorldSnapshot>,
    pub(crate) secrets: Secrets,
    pub(crate) schedule: Schedule,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) timeout: Duration,
    pub(crate) pace: Arc<Pace>,
    pub(crate) stop: Stop,
}

impl RuleTools {
    /// Returns the fact at a path, as this host saw it when the rule found its cause. Returns none if there was no fact.
    ///
    /// # Errors
    ///
    /// When `path` is not a JSON pointer.
    pub fn fact(&self, path: &str) -> Result<Option<Value>, BoxError> {
        self.facts.get(path)
    }

    /// Writes a fact, which belongs to the rule from then on. None removes the fact.
    ///
    /// A rule that has changed facts or notified resources ten times in ten seconds is slowed: each further time it
    /// waits until a second has passed since the last one.
    ///
    /// # Errors
    ///
    /// When the fact belongs to a user or to another owner, does not fit its schema, would show a secret, or cannot be
    /// written.
    pub async fn set_fact(&self, path: &str, value: Option<Value>) -> Result<(), BoxError> {
        let owner = format!("rule {}", self.rule);
        if self.world.snapshot()?.stored(path)? != value {
            self.pace.turn().await;
        }
        set_fact((&*self.world, &self.secrets), &owner, path, value).await
    }

    /// Notifies a resource, which then refreshes or is looked at. The notification outlives the agent. The rule is slowed
    /// as for [`set_fact`](Self::set_fact).
    ///
    /// # Errors
    ///
    /// When there is no such resource, or the notification cannot be put on record.
    pub async fn notify(&self, resource: &str) -> Result<(), BoxError> {
        self.pace.turn().await;
        match self.schedule.notify(resource, &format!("rule {}", self.rule)).await? {
            true => Ok(()),
            false => Err(format!("there is no resource \"{resource}\" to notify").into()),
        }
    }

    /// Runs a command to its end, and then kills what is left of its process group. The command reads the cause as JSON
    /// from stdin.
    ///
    /// # Errors
    ///
    /// When the command line has a secret, which others on the machine would see; when the command cannot be started,
    /// takes longer than the rule's timeout, or does not exit with 0.
    pub async fn run(&self, command: &[String], cause: &Cause) -> Result<(), BoxError> {
        if command.iter().any(|word| self.secrets.are_in(word)) {
            let help = "the command reads the cause as JSON from stdin";
            return Err(format!("a secret on the command line is seen by others; {help}").into());
        }
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
