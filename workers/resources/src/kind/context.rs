//! What a resource may use in every call: its declaration, facts, notices, secrets, stop and log.

use std::any::Any;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::{Ledger, Secrets, printable};
use serde_json::Value;
use tokio::time::Instant;

use crate::base::deadline::Deadline;
use crate::base::error::BoxError;
use crate::base::log::Log;
use crate::declare::action::Action;
use crate::declare::declaration::{Declaration, DependencyState, Scope};
use crate::kind::foresight::{Foreseen, Foresight};
use crate::state::facilities::{Facilities, Shared};
use crate::state::world::{WatchedFact, World, set_fact};

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
    declaration: Declaration,
    scope: Arc<dyn Scope>,
    facilities: Facilities,
    used: Vec<Used>,
    notices: Vec<Notice>,
    foresight: Option<Foresight>,
}

/// What is known of a resource that this one depends on.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Used {
    /// The name under which expressions see it.
    pub alias: String,
    /// The name of the resource.
    pub resource: String,
    /// Its state: as it is, or in a plan as it will be.
    pub state: DependencyState,
    /// What was done to it in this run, or in a plan would be. Under `run`: what its
    /// [notice](Notice::actions) says, if there is one, so nothing of a resource that does not notify
    /// this one.
    pub actions: Arc<[Action]>,
}

/// The change of a resource that notifies this one; in a plan, the change that it would have. The
/// notice stays until it was answered, also if the agent is killed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// The name of the resource that has changed.
    pub by: String,
    /// The attributes in which it was not as declared; none if that is not known any more.
    pub attributes: Vec<String>,
    /// What was done to it, or in a plan would be, since this one has answered it last; none if that is
    /// not known any more. Of what was done several times under `run` only the last time is here.
    pub actions: Arc<[Action]>,
}

impl Notice {
    pub(crate) fn new(by: &str, attributes: Vec<String>, actions: Arc<[Action]>) -> Self {
        Self { by: by.to_owned(), attributes, actions }
    }

    /// Adds what has changed since. Of actions of one name only the later ones stay: a notice that is
    /// not answered must not grow for ever.
    pub(crate) fn add(&mut self, later: &Self) {
        let is_new = |attribute: &&String| !self.attributes.contains(attribute);
        let attributes: Vec<_> = later.attributes.iter().filter(is_new).cloned().collect();
        self.attributes.extend(attributes);
        let is_done_again = |action: &Action| later.actions.iter().any(|it| it.name == action.name);
        let before = self.actions.iter().filter(|action| !is_done_again(action));
        self.actions = before.chain(&*later.actions).cloned().collect();
    }
}

impl Context {
    /// Returns the context of a resource as it is declared, which is given nothing else.
    pub fn new(declaration: &Declaration, scope: Arc<dyn Scope>, stop: Stop) -> Self {
        let about = About {
            declaration: declaration.clone(),
            scope,
            facilities: Facilities::default(),
            used: Vec::new(),
            notices: Vec::new(),
            foresight: None,
        };
        let (log, memory) = (Log::new(about.facilities.secrets()), Memory::default());
        Self { about: Arc::new(about), stop, deadline: None, log, memory }
    }

    /// Sets what the resource gets in addition to its config.
    #[must_use]
    pub fn with(mut self, facilities: &Facilities) -> Self {
        Arc::make_mut(&mut self.about).facilities = facilities.clone();
        self
    }

    /// Sets what is known of the resources before this one.
    pub(crate) fn knowing(mut self, used: Vec<Used>, notices: Vec<Notice>) -> Self {
        let about = Arc::make_mut(&mut self.about);
        (about.used, about.notices) = (used, notices);
        self
    }

    /// Sets what a plan knows of things that are not there yet.
    pub(crate) fn foreseeing(mut self, foresight: Option<&Foresight>) -> Self {
        if let Some(foresight) = foresight {
            Arc::make_mut(&mut self.about).foresight = Some(foresight.clone());
        }
        self
    }

    /// Returns the resource's name.
    pub fn name(&self) -> &str {
        &self.about.declaration.name
    }

    /// Returns the folder in which relative paths of the config start; absolute.
    pub fn folder(&self) -> &Path {
        &self.about.declaration.folder
    }

    /// Returns what renders template files.
    pub fn scope(&self) -> &dyn Scope {
        &*self.about.scope
    }

    /// Returns what is known of the machine, as expressions see it as `host`. It is null unless the kind
    /// says that it [reads the host](crate::Resource::READS_HOST).
    pub fn host(&self) -> &Value {
        self.about.declaration.host.as_deref().unwrap_or(&Value::Null)
    }

    /// Returns a fact as this host sees it; none if nothing is at the path, a JSON pointer.
    ///
    /// # Errors
    ///
    /// When the path is no JSON pointer, or there are no facts here.
    pub fn fact(&self, path: &str) -> Result<Option<Value>, BoxError> {
        self.world()?.snapshot()?.get(path)
    }

    /// Returns the fact at a path as it is stored, whatever layers make of it; none if nothing is.
    ///
    /// # Errors
    ///
    /// When the path is no JSON pointer, or there are no facts here.
    pub fn stored_fact(&self, path: &str) -> Result<Option<Value>, BoxError> {
        self.world()?.snapshot()?.stored(path)
    }

    /// Watches a fact, for [`Watch::fact`](crate::Watch::fact).
    ///
    /// # Errors
    ///
    /// When the path is no JSON pointer, or there are no facts here.
    pub fn watch_fact(&self, path: &str) -> Result<WatchedFact, BoxError> {
        Ok(WatchedFact { path: path.to_owned(), changes: self.world()?.watch(path)? })
    }

    /// Writes a fact, which is the resource's own from then on; none removes it. The resource writes over nothing
    /// that is not its own, and a user overwrites it only deliberately.
    ///
    /// # Errors
    ///
    /// When the fact is of somebody else, does not fit its schema, or cannot be written, or there are no facts
    /// here: nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// A write that was begun is made as a whole or not at all.
    pub async fn set_fact(&self, path: &str, value: Option<Value>) -> Result<(), BoxError> {
        let owner = format!("resource {}", self.name());
        set_fact((&**self.world()?, self.secrets()), &owner, path, value).await
    }

    fn world(&self) -> Result<&Arc<dyn World>, BoxError> {
        self.about.facilities.world().ok_or_else(|| "there are no facts here".into())
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
        self.about.declaration.wanted.has(attribute)
    }

    /// Returns where commands are put on record while they run.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.about.facilities.ledger()
    }

    /// Returns what is hidden in all that is said of the resource: in its errors, its
    /// [log](Self::log), its actions and what differs. What a kind itself passes to others, such as a name
    /// in a list of processes, it redacts with this.
    pub fn secrets(&self) -> &Secrets {
        self.about.facilities.secrets()
    }

    /// Returns the attributes of the config whose values come from secrets.
    pub(crate) fn hidden(&self) -> &BTreeSet<String> {
        &self.about.declaration.hidden
    }

    /// Returns whether the resource is put back as it was when it leaves its manifest.
    pub(crate) fn is_reversed(&self) -> bool {
        self.about.declaration.reverse
    }

    pub(crate) fn facilities(&self) -> &Facilities {
        &self.about.facilities
    }

    /// Returns what is known of the resources that this one depends on.
    pub fn dependencies(&self) -> &[Used] {
        &self.about.used
    }

    /// Returns which resources that notify this one have changed. It is
    /// what a [refresh](crate::Resource::refresh) answers.
    pub fn notices(&self) -> &[Notice] {
        &self.about.notices
    }

    /// In a plan, returns what will be of a thing at this resource's turn, if a resource before
    /// this one changes it. Once it is this resource's turn, the answer is always none: then the
    /// thing itself shows it.
    ///
    /// A check asks before it says that something missing is an obstacle, and before it trusts something
    /// that it does not keep. The claims of resources say what they change; `name` is that of a
    /// [`Claim`](crate::Claim). A check that cannot tell then fails with an error, and the plan says that
    /// the resource *may change*.
    pub fn foresees(&self, space: &str, name: &str) -> Option<Foreseen> {
        self.about.foresight.as_ref()?.sees(space, name)
    }

    /// In a plan, returns whether a resource before this one, at any distance, changes or may
    /// change. Then a look that depends on unknown things, such as a command, may find something
    /// else at this resource's turn. Once it is this resource's turn, the answer is always no. A
    /// check that cannot tell then fails with an error, as with [`foresees`](Self::foresees).
    pub fn follows_changes(&self) -> bool {
        self.about.foresight.as_ref().is_some_and(Foresight::follows_changes)
    }

    /// In a plan, returns whether a resource before this one, at any distance, changes or may
    /// change, and may make files that no claim names, like a command that does not say what it
    /// creates. Then a file that is read may be another one at this resource's turn. Once it is
    /// this resource's turn, the answer is always no. A check that cannot tell then fails with an
    /// error, as with [`foresees`](Self::foresees).
    pub fn follows_makers(&self) -> bool {
        self.about.foresight.as_ref().is_some_and(Foresight::follows_makers)
    }

    /// Returns something that the resources of a run share. The first resource that asks opens it,
    /// and the others wait until it is open. It is kept to the end of the run.
    ///
    /// # Errors
    ///
    /// When it cannot be opened, or the call is told to stop meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn shared<T: Shared>(&self, key: &str) -> Result<Arc<T>, BoxError> {
        tokio::select! {
            biased;
            // First, so that what is open can still be used to end in good order.
            shared = self.about.facilities.services().get(key) => shared,
            () = self.stop.wait() => Err("it was told to stop".into()),
        }
    }

    /// Returns the journal of files that are written in place, for
    /// [`Overwrite::write`](crankcase_workers::Overwrite::write); none if the run has no state folder.
    pub fn overwrites(&self) -> Option<PathBuf> {
        self.about.facilities.overwrites()
    }

    /// Returns a folder of the resource's own, which it finds again in later runs. It is made with
    /// mode 0700 if it is not there, but not by a plan. Blocks for the disk.
    ///
    /// # Errors
    ///
    /// When the run has no state folder, or the folder cannot be made.
    pub fn private_folder(&self) -> Result<PathBuf, BoxError> {
        let made = self.about.facilities.make_private(self.name())?;
        made.ok_or_else(|| "there is no state folder in which it could have one of its own".into())
    }

    /// Removes that folder with all that is in it, if it is there. A plan removes nothing. Blocks for
    /// the disk.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn remove_private_folder(&self) -> Result<(), BoxError> {
        Ok(self.about.facilities.remove_private(self.name())?)
    }

    /// Adds lines to the log of the call. That of an action is kept, even if the action then fails or
    /// panics; that of anything else is logged at the level `debug`.
    ///
    /// Control characters are escaped. 7 MiB are kept, measured without that; the rest is counted.
    pub fn log(&self, text: &str) {
        self.log.add(text);
    }

    /// Tells those who watch the run of a line of the action's output, while the action runs. It is in no
    /// log and no account: what has to be there is [logged](Self::log).
    pub fn said(&self, line: &str) {
        if let Some(observer) = self.about.facilities.observer() {
            observer.said(self.name(), &printable(&self.secrets().redact(line)));
        }
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

    /// Returns how long a look, and each action, may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.about.declaration.timeout
    }

    /// Returns the context of one call, with a log of its own.
    pub(crate) fn of_call(&self, deadline: &Deadline<'_>) -> Self {
        Self { log: Log::new(self.secrets()), ..self.within(deadline) }
    }

    /// Returns the context with another deadline.
    pub(crate) fn within(&self, deadline: &Deadline<'_>) -> Self {
        let (stop, deadline) = (deadline.stop().clone(), deadline.at());
        Self { stop, deadline, ..self.clone() }
    }

    /// Returns the context with the memory of another one.
    pub(crate) fn remembering(self, other: &Self) -> Self {
        Self { memory: other.memory.clone(), ..self }
    }

    /// Forgets what the resource was notified of.
    pub(crate) fn forget_notices(&mut self) {
        let about = Arc::make_mut(&mut self.about);
        about.notices.clear();
        about.used.iter_mut().for_each(|used| used.actions = Arc::default());
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
