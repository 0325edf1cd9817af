use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crankcase_engine::Stop;
use crankcase_workers::Ledger;
use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::declaration::{Declaration, Scope, Wanted};
use crate::log::Log;

/// What a resource may use, whatever is asked of it. Cheap to clone, for blocking work.
#[derive(Debug, Clone)]
pub struct Context {
    about: Arc<About>,
    stop: Stop,
    deadline: Option<Instant>,
    log: Log,
    memory: Memory,
}

/// What stays the same from one call to the next.
#[derive(Debug, Clone)]
struct About {
    name: String,
    folder: PathBuf,
    scope: Arc<dyn Scope>,
    wanted: Wanted,
    ledger: Option<Ledger>,
}

impl Context {
    /// Returns the context of a resource as it is declared, without a ledger.
    pub fn new(declaration: &Declaration, scope: Arc<dyn Scope>, stop: Stop) -> Self {
        let about = About {
            name: declaration.name.clone(),
            folder: declaration.folder.clone(),
            scope,
            wanted: declaration.wanted.clone(),
            ledger: None,
        };
        let (log, memory) = (Log::default(), Memory::default());
        Self { about: Arc::new(about), stop, deadline: None, log, memory }
    }

    /// Sets where commands are put on record while they run, to be ended by the next agent if this one
    /// is killed.
    #[must_use]
    pub fn with_ledger(mut self, ledger: Option<Ledger>) -> Self {
        Arc::make_mut(&mut self.about).ledger = ledger;
        self
    }

    /// Returns the resource's name.
    pub fn name(&self) -> &str {
        &self.about.name
    }

    /// Returns the folder in which relative paths of the config start; absolute.
    pub fn folder(&self) -> &Path {
        &self.about.folder
    }

    /// Returns what renders template files.
    pub fn scope(&self) -> &dyn Scope {
        &*self.about.scope
    }

    /// Returns what tells the call to end early. A look that takes long obeys it with an error, an
    /// action with [`Unfinished::Interrupted`](crate::Unfinished::Interrupted).
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns when the call is told to stop, if it has a timeout.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns whether dependents use an attribute of the state.
    ///
    /// An attribute that they do not use may be left out, if it is costly to know or changes more
    /// often than what the resource keeps: a change of the state has all dependents look again.
    pub fn wants(&self, attribute: &str) -> bool {
        self.about.wanted.has(attribute)
    }

    /// Returns where commands are put on record while they run.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.about.ledger.as_ref()
    }

    /// Adds lines to the log of the call. That of an action is kept, even if the action then fails or
    /// panics; that of anything else is logged at the level `debug`.
    ///
    /// Control characters are escaped. 512 KiB are kept, measured without that; the rest is counted.
    pub fn log(&self, text: &str) {
        self.log.add(text);
    }

    /// Returns what the resource remembers from its open to its close: at first the default.
    ///
    /// # Panics
    ///
    /// When it remembers something of another type.
    pub fn memory<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let memory = self.memory.0.get_or_init(|| Arc::new(T::default()));
        Arc::clone(memory).downcast().expect("a resource remembers one type")
    }

    /// Returns the context of one call, with a log of its own.
    pub(crate) fn of_call(&self, deadline: &Deadline<'_>) -> Self {
        let (stop, at) = (deadline.stop().clone(), deadline.at());
        Self { stop, deadline: at, log: Log::default(), ..self.clone() }
    }

    /// Returns the context with the memory of another one.
    pub(crate) fn remembering(self, other: &Self) -> Self {
        Self { memory: other.memory.clone(), ..self }
    }

    /// Logs what a call that is no action has logged.
    pub(crate) fn trace(&self) {
        for line in self.log.lines() {
            tracing::debug!(resource = self.name(), line, "a resource said");
        }
    }

    /// Returns what the call has logged so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lines()
    }
}

/// What a resource remembers. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<OnceLock<Arc<dyn Any + Send + Sync>>>);
