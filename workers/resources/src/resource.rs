use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Stop;
use crankcase_workers::{Ledger, ProcessConfig};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::action::{Action, Description};
use crate::declaration::{Config, Scope, Wanted};
use crate::error::{AttributeError, BoxError};
use crate::known::{Claimed, KnownConfig};
use crate::params::{Reader, Table};

/// A kind of resource: what a manifest names as `type`.
///
/// A kind turns a config into a [`Resource`]; a resource that exists is therefore valid. New
/// abilities (grouping, reversal) come as further methods with a default.
///
/// # Guarantees
///
/// - A panic in a method is caught and becomes an error of the one resource.
///
/// # Requirements
///
/// - [`validate`](Self::validate) is pure: it looks at the config alone, opens nothing and waits
///   for nothing. It returns all errors at once.
pub trait Kind: fmt::Debug + Send + Sync {
    /// Returns the name under which a manifest asks for the kind.
    fn name(&self) -> &str;

    /// Returns what the kind is for, in one sentence.
    fn summary(&self) -> &str;

    /// Returns the parameters of a config. By default a config has any attributes.
    fn table(&self) -> &Table {
        Table::open()
    }

    /// Returns the attributes of a state, which expressions of dependents may use. By default it has
    /// any.
    fn states(&self) -> &Table {
        Table::open()
    }

    /// Makes a resource of a config.
    ///
    /// # Errors
    ///
    /// Every attribute that is wrong, with what would be right.
    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>>;

    /// Returns what is wrong with a config as far as it is known while its manifest is loaded.
    ///
    /// It says nothing that [`validate`](Self::validate) would not say once all is known, for what
    /// it says refuses the manifest. A kind whose parameters are derived asks
    /// [`judge`](crate::judge()). By default a config of which all is known is validated; while one
    /// is only partly known, unknown attributes are reported and nothing else.
    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        if known.unknown.is_empty() {
            return self.validate(known.config).err().unwrap_or_default();
        }
        Reader::new(self.table(), known).into_errors()
    }

    /// Returns what a resource with this config keeps, makes, needs and reads, as far as that is known.
    ///
    /// What one resource keeps no other may, a resource comes after those that make what it needs, and
    /// what is read is looked for while a manifest is loaded. What becomes known later is compared
    /// then, and orders nothing any more. By default nothing is known.
    fn claims(&self, known: &KnownConfig<'_>) -> Claimed {
        let _ = known;
        Claimed::unknown()
    }

    /// Returns whether two configs declare the same resource, so that a new manifest leaves it
    /// running.
    fn same(&self, old: &Config, new: &Config) -> bool {
        old == new
    }

    /// Returns whether a check may ask for a shutdown-first action.
    ///
    /// Apply looks at everything once more before its first action if a kind in use says so.
    fn stops_first(&self) -> bool {
        false
    }

    /// Returns whether its resources are programs that `run` supervises; see
    /// [`Resource::program`].
    fn is_supervised(&self) -> bool {
        false
    }
}

/// One resource with a valid config: it looks, and says what would have to be done.
///
/// A resource lives for one plan, one apply, or under `run` for as long as its config stays the
/// same. What it must remember for that time (that it ran already, a connection) is its own.
///
/// # Guarantees
///
/// - [`open`](Self::open) comes first and [`close`](Self::close) last, each once; between them no
///   two calls overlap. After an `open` that failed comes only `close`.
/// - A panic is caught and becomes an error of this resource.
/// - An action is run at most once, soon after the check that returned it, and after it the
///   resource is checked again.
///
/// # Requirements
///
/// - [`check`](Self::check) changes nothing, whatever it finds.
/// - After the actions of a check were done, the next check is valid, unless the world moved.
/// - Blocking work is done on the blocking pool.
///
/// # Examples
///
/// ```
/// use crankcase_resources::{Action, BoxError, Check, CheckContext, Description, Resource, Stale};
/// use parking_lot::Mutex;
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Lamp { is_on: Arc<Mutex<bool>> }
///
/// #[async_trait::async_trait]
/// impl Resource for Lamp {
///     async fn check(&self, _: &CheckContext) -> Result<Check, BoxError> {
///         let is_on = *self.is_on.lock();
///         if is_on {
///             return Ok(Check::Valid(serde_json::json!({"is_on": true})));
///         }
///         let lamp = Arc::clone(&self.is_on);
///         let action = Action::new(Description::new("switch_on"), move |context| async move {
///             *lamp.lock() = true;
///             context.log("switched on");
///             Ok(())
///         });
///         Ok(Check::Stale(Stale::new(None).differs("is_on", false, true).action(action)))
///     }
/// }
/// ```
#[async_trait]
pub trait Resource: fmt::Debug + Send + Sync {
    /// Opens what check, actions and watch share.
    ///
    /// # Errors
    ///
    /// When it cannot be opened; the resource has then failed.
    async fn open(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Looks at the resource and says what would have to be done; changes nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether the resource is as declared, or when it is in a way that no
    /// action of its kind may mend.
    async fn check(&self, context: &CheckContext) -> Result<Check, BoxError>;

    /// Returns what is to be done because a resource that notifies this one has changed.
    ///
    /// `done` holds the actions that the resource has run, or in a plan would run, for its own
    /// sake just before: what has started afresh anyway need not start again. By default a
    /// notification means nothing.
    fn refresh(&self, done: &[Description]) -> Option<Action> {
        let _ = done;
        None
    }

    /// Returns how to learn that the state may have changed. By default it never does.
    fn watch(&self, context: &CheckContext) -> Watch {
        let _ = context;
        Watch::Never
    }

    /// Returns the program that `run` supervises for the resource, if it is one.
    ///
    /// Its name is set by who runs it. Its check is [`Check::RunOnly`], and its kind says that it
    /// [is supervised](Kind::is_supervised).
    fn program(&self) -> Option<&ProcessConfig> {
        None
    }

    /// Closes what [`open`](Self::open) has opened.
    async fn close(&self) {}
}

/// What a resource may use to look.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckContext {
    /// The folder in which relative paths of the config start; absolute.
    pub folder: PathBuf,
    /// Renders template files.
    pub scope: Arc<dyn Scope>,
    /// Told when the run is to end; a check that takes long ends itself then, with an error.
    pub stop: Stop,
    /// What dependents use of the state.
    pub wanted: Wanted,
    /// Where commands are put on record while they run, to be ended by the next agent if this one is
    /// killed. Default none.
    pub ledger: Option<Ledger>,
}

impl CheckContext {
    /// Returns the context of a resource that is declared in `folder`, and whose state is wanted as
    /// a whole.
    pub fn new(folder: PathBuf, scope: Arc<dyn Scope>, stop: Stop) -> Self {
        Self { folder, scope, stop, wanted: Wanted::Whole, ledger: None }
    }

    /// Returns whether dependents use an attribute of the state.
    ///
    /// An attribute that they do not use may be left out, if it is costly to know or changes more
    /// often than what the resource keeps: a change of the state has all dependents look again.
    pub fn wants(&self, attribute: &str) -> bool {
        self.wanted.has(attribute)
    }
}

/// What a check has found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Check {
    /// The resource is as declared; this is its state.
    Valid(Value),
    /// The resource is not as declared.
    Stale(Stale),
    /// What is declared is known only after these dependencies, by alias, were changed.
    Unknown(Vec<String>),
    /// The resource is kept by `run` alone: plan and apply neither look at it nor change it.
    ///
    /// The value is what dependents see of it.
    RunOnly(Value),
}

/// How a resource differs from its declaration, and what would mend it.
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
pub struct Stale {
    /// The state as it is; absent if the resource does not exist.
    pub current: Option<Value>,
    /// What differs, per attribute.
    pub differences: Vec<Difference>,
    /// What would mend it, to be run in this order.
    pub actions: Vec<Action>,
    /// What has to be done before the first action of any resource, such as stopping a server.
    pub shutdown: Option<Action>,
}

impl Stale {
    /// Returns a finding without differences or actions yet.
    pub fn new(current: Option<Value>) -> Self {
        Self { current, differences: Vec::new(), actions: Vec::new(), shutdown: None }
    }

    /// Adds an attribute that is `old` and should be `new`; null stands for absent.
    pub fn differs(self, attribute: &str, old: impl Into<Value>, new: impl Into<Value>) -> Self {
        self.difference(Difference::new(attribute, old.into(), new.into()))
    }

    /// Adds a difference.
    pub fn difference(mut self, difference: Difference) -> Self {
        self.differences.push(difference);
        self
    }

    /// Adds an action, to be run after those that were added before.
    pub fn action(mut self, action: Action) -> Self {
        self.actions.push(action);
        self
    }

    /// Sets the shutdown-first action; the kind's [`stops_first`](Kind::stops_first) must say so.
    pub fn shutdown(mut self, action: Action) -> Self {
        self.shutdown = Some(action);
        self
    }
}

/// One attribute that is not as declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Difference {
    /// The attribute's name.
    pub attribute: String,
    /// The value as it is; null if there is none.
    pub old: Value,
    /// The value as declared; null if there should be none.
    pub new: Value,
    /// The change of a text, line by line, as a unified diff of bounded length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Difference {
    /// Returns a difference without a text.
    pub fn new(attribute: &str, old: Value, new: Value) -> Self {
        Self { attribute: attribute.to_owned(), old, new, text: None }
    }

    /// Adds a unified diff.
    #[must_use]
    pub fn with_text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.attribute, Shown(&self.old), Shown(&self.new))
    }
}

/// Writes a value as JSON, or as `absent`.
struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("absent"),
            value => value.fmt(f),
        }
    }
}

/// How to learn that a resource's state may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Watch {
    /// It changes only by the resource's own actions.
    Never,
    /// By looking again after each such time.
    Poll(Duration),
    /// By watching these files and folders, whether they exist or not.
    Paths(Vec<PathBuf>),
}
