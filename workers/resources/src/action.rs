use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_workers::Ledger;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::BoxError;
use crate::text::printable;

/// How many bytes of log one action keeps; what comes later is counted and dropped.
///
/// All that `exec` keeps of both outputs has room, 64 KiB of each, also when every byte of it was no
/// UTF-8 and became three.
const LOG_LIMIT: usize = 512 * 1024;

type Body = Box<
    dyn FnOnce(ActionContext) -> Pin<Box<dyn Future<Output = Result<(), Unfinished>> + Send>>
        + Send,
>;

/// Something that a check wants done: a description that can be shown, and a body to run.
#[must_use]
pub struct Action {
    description: Description,
    body: Body,
}

impl Action {
    /// Returns an action that does nothing until it is run.
    pub fn new<F, Fut>(description: Description, body: F) -> Self
    where
        F: FnOnce(ActionContext) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Unfinished>> + Send + 'static,
    {
        Self { description, body: Box::new(|context| Box::pin(body(context))) }
    }

    /// Returns what the action is.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Runs the action.
    ///
    /// # Errors
    ///
    /// When it failed or was interrupted. What it logged until then is in `context`.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: tell the context's stop instead.
    pub async fn run(self, context: ActionContext) -> Result<(), Unfinished> {
        (self.body)(context).await
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Action").field(&self.description).finish()
    }
}

/// What an action is, without its body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Description {
    /// What is done, as a verb.
    pub name: String,
    /// To what, and how.
    pub arguments: Map<String, Value>,
    /// The attributes that it changes.
    pub changes: Vec<String>,
}

impl Description {
    /// Returns a description without arguments that changes nothing in particular.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), arguments: Map::new(), changes: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn with(mut self, argument: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(argument.to_owned(), value.into());
        self
    }

    /// Adds an attribute that the action changes.
    #[must_use]
    pub fn changing(mut self, attribute: &str) -> Self {
        self.changes.push(attribute.to_owned());
        self
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (name, value) in &self.arguments {
            write!(f, " {name}={value}")?;
        }
        Ok(())
    }
}

/// What an action may use while it runs.
#[derive(Debug, Clone)]
pub struct ActionContext {
    stop: Stop,
    ledger: Option<Ledger>,
    log: Arc<Mutex<Log>>,
}

impl ActionContext {
    /// Returns a context with an empty log and no ledger.
    pub fn new(stop: Stop) -> Self {
        Self { stop, ledger: None, log: Arc::default() }
    }

    /// Sets where commands are put on record while they run, to be ended by the next agent if this one
    /// is killed.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        self.ledger = ledger;
        self
    }

    /// Returns where commands are put on record while they run.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// Returns the request to end early, which a long action obeys with
    /// [`Unfinished::Interrupted`].
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Adds lines to the log, which is kept even if the action then fails or panics.
    ///
    /// Control characters are escaped. 512 KiB are kept, measured without that; the rest is counted.
    pub fn log(&self, text: &str) {
        let mut log = self.log.lock();
        for line in text.lines() {
            log.add(line);
        }
    }

    /// Returns the log so far.
    pub fn lines(&self) -> Vec<String> {
        let log = self.log.lock();
        let mut lines = log.lines.clone();
        if log.dropped > 0 {
            lines.push(format!("... {} more lines were dropped", log.dropped));
        }
        lines
    }
}

#[derive(Debug, Default)]
struct Log {
    lines: Vec<String>,
    bytes: usize,
    dropped: usize,
}

impl Log {
    /// Counts a line as it was given: what its escapes take is no fault of the lines after it.
    fn add(&mut self, line: &str) {
        if self.dropped > 0 || self.bytes + line.len() > LOG_LIMIT {
            self.dropped += 1;
            return;
        }
        self.bytes += line.len() + 1;
        self.lines.push(printable(line));
    }
}

/// Why an action did not finish.
///
/// Any error converts into [`Unfinished::Failed`], so `?` works; therefore it is not an `Error`
/// itself.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unfinished {
    /// It was told to stop, and ended what it had begun.
    Interrupted,
    /// It failed.
    Failed(BoxError),
}

impl<E: Into<BoxError>> From<E> for Unfinished {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
