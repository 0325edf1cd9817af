//! Kinds that are written in Rust: one struct, its config, and one implementation.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::path::PathBuf;

use crankcase_workers::ProcessConfig;
use serde_json::Value;

use crate::base::error::{AttributeError, BoxError};
use crate::declare::action::{Actions, Unfinished};
use crate::declare::declaration::Config;
use crate::declare::known::Claimed;
use crate::declare::params::{Params, written};
use crate::declare::surroundings::Surroundings;
use crate::kind::context::Context;
use crate::kind::part::Part;
use crate::kind::watch::Watch;
use crate::report::found::{self, Difference, Found};
use crate::state::world::FactSchema;

/// A kind of resource: the struct is the config of one resource, and nothing else.
///
/// [`kind`](crate::kind()) makes of it what a [`Kinds`](crate::Kinds) takes. The first paragraph of the struct's
/// documentation says what the kind is for. Blocking work is done on the
/// [blocking pool](crate::blocking()), with a clone of the config and the context. For what is
/// promised to a resource and asked of it see [`Unit`](crate::dynamic::Unit).
///
/// # Examples
///
/// ```
/// use crankcase_resources::{
///     AbsPath, Actions, BoxError, Check, Context, Kinds, Params, Resource, Stale, Unfinished,
///     kind,
/// };
///
/// /// keeps a lamp on
/// #[derive(Debug, Clone, PartialEq, Params)]
/// pub struct Lamp {
///     /// the file that says whether it is on
///     pub path: AbsPath,
/// }
///
/// /// The state of a lamp.
/// #[derive(Debug, Clone, PartialEq, Params)]
/// pub struct LampState {
///     /// whether it is on
///     pub is_on: bool,
/// }
///
/// #[derive(Debug, Actions)]
/// pub enum Do {
///     /// switches it on
///     SwitchOn,
/// }
///
/// impl Resource for Lamp {
///     const NAME: &'static str = "lamp";
///     type State = LampState;
///     type Action = Do;
///
///     async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
///         let path = self.path.clone();
///         let is_on = crankcase_resources::blocking(move || std::fs::read(&path)).await? == b"on";
///         if is_on {
///             return Ok(Check::valid(LampState { is_on }));
///         }
///         let stale = Stale::new(LampState { is_on }).differs("is_on", false, true);
///         Ok(stale.act(Do::SwitchOn).into())
///     }
///
///     async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
///         let Do::SwitchOn = action;
///         let path = self.path.clone();
///         crankcase_resources::blocking(move || std::fs::write(&path, "on")).await?;
///         context.log("it shines");
///         Ok(())
///     }
/// }
///
/// let kinds = Kinds::default().with(kind::<Lamp>());
/// assert_eq!(kinds.get("lamp")?.summary(), "keeps a lamp on");
/// # Ok::<(), crankcase_resources::front::UnknownKindError>(())
/// ```
pub trait Resource: Params + Clone + fmt::Debug {
    /// The name under which a manifest asks for the kind.
    const NAME: &'static str;

    /// Whether a check may ask for a shutdown-first action, whatever the config is. Apply looks at
    /// everything once more before its first action if a kind in use says so. A kind of which only
    /// some configs have such an action says so by their [claims](Claimed::stops_first).
    const STOPS_FIRST: bool = false;

    /// Whether resources can be put back as they were before they were changed; see
    /// [`reversal`](Self::reversal).
    const REVERSES: bool = false;

    /// Whether a resource reads the [host](Context::host). Under `run` it is looked at again when the
    /// host has changed; others are not, and see none.
    const READS_HOST: bool = false;

    /// Whether a resource keeps a fact. Then its parameter `path` is a JSON pointer, which it claims as `fact`, and its
    /// state has the fact as the attribute `value`: what uses the fact in a manifest depends on the resource, and sees
    /// that value.
    const KEEPS_FACTS: bool = false;

    /// What is known of a resource, for those that depend on it.
    type State: Params;

    /// What may be done to a resource.
    type Action: Actions;

    /// Normalises a config, and judges its parameters against each other; pure.
    ///
    /// A parameter that is not known yet may become anything that its type allows, nothing included:
    /// only what is known to be wrong is an error. What is wrong by itself was said before.
    fn rules(partial: &mut Self::Partial, errors: &mut Vec<AttributeError>) {
        let _ = (partial, errors);
    }

    /// Returns what a resource keeps, makes, needs and reads, as far as that is known; pure.
    ///
    /// What one resource keeps no other may, a resource comes after those that make what it needs, and
    /// what is read is looked for while a manifest is loaded. What becomes known later is compared
    /// then, and orders nothing any more. By default nothing is known.
    fn claims(partial: &Self::Partial) -> Claimed {
        let _ = partial;
        Claimed::unknown()
    }

    /// Returns the resources that this one is made of; pure. By default there are none.
    ///
    /// When the resource is declared, by a manifest or by [`Kinds::declare`](crate::Kinds::declare), they
    /// are too, each under the name `OWNER["PART"]`; they are planned, applied and kept like others. The
    /// resource itself comes after them, so its check finds them made, and what depends on it comes
    /// after all. Only what uses a fact that a part keeps depends on that part. What of the config is
    /// not known yet is passed on as such; the names of the parts must not depend on it.
    fn parts(partial: &Self::Partial) -> Vec<Part> {
        let _ = partial;
        Vec::new()
    }

    /// Opens what check, actions and watch share, such as a connection, and keeps it in the
    /// [memory](Context::memory).
    ///
    /// # Errors
    ///
    /// When it cannot be opened; the resource has then failed.
    fn open(&self, context: &Context) -> impl Future<Output = Result<(), BoxError>> + Send {
        let _ = context;
        std::future::ready(Ok(()))
    }

    /// Looks at the resource and says what would have to be done; changes nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether the resource is as declared, or when no action of its kind
    /// may repair it.
    fn check(
        &self,
        context: &Context,
    ) -> impl Future<Output = Result<Check<Self>, BoxError>> + Send;

    /// Does something that a check has asked for, or a [refresh](Self::refresh).
    ///
    /// # Errors
    ///
    /// When it failed or was interrupted. What it has logged until then is kept.
    ///
    /// # Cancel safety
    ///
    /// It need not be cancel safe: the context's stop is told instead.
    fn act(
        &self,
        action: &Self::Action,
        context: &Context,
    ) -> impl Future<Output = Result<(), Unfinished>> + Send;

    /// Returns the config that declares the resource away. By default there is none.
    fn absent(&self) -> Option<Self> {
        None
    }

    /// Returns the config that declares the resource as it is now, before anything is done to it.
    ///
    /// It is asked of a resource that is declared with `reverse`, before its first action, and kept
    /// in the state folder: when the resource leaves the manifest, it is planned and applied with that
    /// config. It may hold what a state does not, such as a content. By default what is not there is
    /// declared [absent](Self::absent), and of what is there nothing is known. The kind says by
    /// [`REVERSES`](Self::REVERSES) that it has an answer.
    ///
    /// # Errors
    ///
    /// When it cannot be told; nothing is done to the resource then.
    fn reversal(
        &self,
        context: &Context,
    ) -> impl Future<Output = Result<Option<Self>, BoxError>> + Send {
        async {
            let is_there = match self.check(context).await? {
                Check::Stale(stale) => stale.amiss.current.is_some(),
                Check::Valid(_) | Check::Unknown(_) => true,
            };
            Ok(if is_there { None } else { self.absent() })
        }
    }

    /// Returns the files that are executed for the resource and that its config names by their paths, which
    /// begin at the root. A saved plan is bound to what is in them. By default there are none.
    fn programs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Makes a config fit to be sent to another machine: what stands in files of this one is put into the
    /// config itself, and what means nothing there is dropped. By default it travels as it is. It may
    /// block for the disk.
    ///
    /// Attributes that are taken from states are not in the config.
    ///
    /// # Errors
    ///
    /// When it cannot travel.
    fn send(config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        let _ = (config, surroundings);
        Ok(())
    }

    /// Returns the schemas of the facts that the kind owns. An agent registers them before it loads its site. By
    /// default there are none.
    fn fact_schemas() -> Vec<FactSchema> {
        Vec::new()
    }

    /// Fills in what only the machine knows that a config was sent to. By default that is nothing.
    ///
    /// # Errors
    ///
    /// When the machine cannot have such a resource.
    fn receive(config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        let _ = (config, surroundings);
        Ok(())
    }

    /// Returns what is to be done because a resource that notifies this one has changed.
    ///
    /// `done` holds the actions that the resource has run, or in a plan would run, for its own
    /// sake just before: what has started afresh anyway need not start again. By default a
    /// notification means nothing.
    fn refresh(&self, done: &[Self::Action], context: &Context) -> Option<Self::Action> {
        let _ = (done, context);
        None
    }

    /// Returns why a run is not at its end yet although the resource is as declared, such as a
    /// database that still copies what it holds. By default nothing holds it up.
    ///
    /// `run` asks it each time the resource is as declared. A run that is to end when everything is
    /// [settled](crate::run::Activity) waits for it, and the report says why. Nothing else waits: those that
    /// depend on the resource go on, and `apply` ends. The [watch](Self::watch) is to tell when it is
    /// over.
    fn holds(&self, context: &Context) -> Option<String> {
        let _ = context;
        None
    }

    /// Returns how to learn that the state may have changed. By default it never does.
    ///
    /// It is asked after [`open`](Self::open), and again when the watch has failed or the manifest is
    /// in another folder.
    ///
    /// # Errors
    ///
    /// When the kind cannot listen to signals of its own; it is asked again after a backoff.
    fn watch(&self, context: &Context) -> impl Future<Output = Result<Watch, BoxError>> + Send {
        let _ = context;
        std::future::ready(Ok(Watch::never()))
    }

    /// Closes what [`open`](Self::open) has opened.
    fn close(&self, context: &Context) -> impl Future<Output = ()> + Send {
        let _ = context;
        std::future::ready(())
    }
}

/// A kind whose resources are programs that `run` supervises; see
/// [`KindOf::supervised`](crate::KindOf::supervised).
///
/// Plan and apply look at such a resource, and do not start its program.
pub trait Supervised: Resource {
    /// Returns the program. The caller sets its name, and the folder of its notify socket if its
    /// readiness comes by one. A file for its output that has no absolute path is `output/NAME.log`
    /// in the state folder, by the name of the resource.
    fn program(&self) -> ProcessConfig;
}

/// A kind that can act on several of its resources at once, such as packages that one command installs;
/// see [`KindOf::grouping`](crate::KindOf::grouping).
///
/// Each resource is checked alone, before and after. Those for which one action is to be done wait
/// for the others of their kind that come equally late in the graph. Then those with the same key
/// are acted on together, with the timeout of the one that was declared first. What is done is
/// accounted for with each. Under `run`, and when a notification is answered, each is acted on
/// alone.
pub trait Grouping: Resource {
    /// Returns the key of the resource, which may be acted on together with others of the same key.
    /// If there is none, it is acted on alone.
    fn group(&self) -> Option<String>;

    /// Does to several resources, at least two, what a check of each has asked for.
    ///
    /// # Errors
    ///
    /// When any of it failed or was interrupted. If it failed, each is acted on alone, so that one that
    /// is wrong does not fail the others.
    ///
    /// # Cancel safety
    ///
    /// As [`Resource::act`]: the stop of the contexts is told instead. It is one for all.
    fn act_together(
        members: &[Member<'_, Self>],
    ) -> impl Future<Output = Result<(), Unfinished>> + Send;
}

/// One of the resources that are acted on together.
#[derive(Debug)]
#[non_exhaustive]
pub struct Member<'a, R: Resource> {
    /// The resource.
    pub config: &'a R,
    /// What its check has asked for.
    pub action: R::Action,
    /// Its context; what is logged there is in its own account.
    pub context: &'a Context,
}

impl<'a, R: Resource> Member<'a, R> {
    pub(crate) fn new(config: &'a R, action: R::Action, context: &'a Context) -> Self {
        Self { config, action, context }
    }
}

/// A state as far as it is known.
pub type StateOf<R> = <<R as Resource>::State as Params>::Partial;

/// What a check has found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is returned and used up, never kept")]
pub enum Check<R: Resource> {
    /// The resource is as declared; this is its state, without the attributes that are left
    /// unknown.
    Valid(StateOf<R>),
    /// The resource is not as declared.
    Stale(Stale<R>),
    /// What is declared is known only after these dependencies, by alias, were changed.
    Unknown(Vec<String>),
}

impl<R: Resource> Check<R> {
    /// Returns that the resource is as declared, and has this state.
    pub fn valid(state: impl Into<StateOf<R>>) -> Self {
        Self::Valid(state.into())
    }

    pub(crate) fn erase(self) -> Found {
        match self {
            Self::Valid(state) => Found::Valid(written::<R::State>(&state)),
            Self::Stale(stale) => Found::Stale(stale.amiss),
            Self::Unknown(aliases) => Found::Unknown(aliases),
        }
    }
}

impl<R: Resource> From<Stale<R>> for Check<R> {
    fn from(stale: Stale<R>) -> Self {
        Self::Stale(stale)
    }
}

/// How a resource differs from its declaration, and what would repair it.
#[must_use]
pub struct Stale<R: Resource> {
    amiss: found::Stale,
    kind: PhantomData<fn() -> R>,
}

impl<R: Resource> Stale<R> {
    /// Returns a finding without differences or actions yet, of a resource that has this state.
    pub fn new(current: impl Into<StateOf<R>>) -> Self {
        Self::of(Some(written::<R::State>(&current.into())))
    }

    /// Returns a finding without differences or actions yet, of a resource that does not exist.
    pub fn absent() -> Self {
        Self::of(None)
    }

    fn of(current: Option<Value>) -> Self {
        Self { amiss: found::Stale::new(current), kind: PhantomData }
    }

    /// Adds an attribute that is `old` and should be `new`; null stands for absent. The values of a
    /// sensitive attribute are hidden.
    pub fn differs(self, attribute: &str, old: impl Into<Value>, new: impl Into<Value>) -> Self {
        Self { amiss: self.amiss.differs(attribute, old, new), ..self }
    }

    /// Adds a difference.
    pub fn difference(self, difference: Difference) -> Self {
        Self { amiss: self.amiss.difference(difference), ..self }
    }

    /// Adds an action, to be run after those that were added before. It changes the attributes that
    /// were added since the action before.
    pub fn act(self, action: R::Action) -> Self {
        Self { amiss: self.amiss.action(action.erase()), ..self }
    }

    /// Sets the shutdown-first action; [`Resource::STOPS_FIRST`], or the
    /// [claims](Claimed::stops_first), must say so. It is done before the other actions, and in apply
    /// before those of all resources, if it is known by then.
    pub fn shutdown(self, action: R::Action) -> Self {
        Self { amiss: self.amiss.shutdown(action.erase()), ..self }
    }

    /// Says that the resource differs at each apply, whatever the state of the machine, as with a
    /// command without a guard. The difference counts as no change for
    /// [`Account::has_changed`](crate::Account::has_changed).
    pub fn each_time(self) -> Self {
        Self { amiss: self.amiss.each_time(), ..self }
    }

    /// Sets the state after the actions, as far as it is known. In a plan, dependents see it. They
    /// know the attributes that are left unknown only after apply. By default all are left unknown.
    ///
    /// After apply the state must be as foreseen; otherwise the resource has failed.
    pub fn after(self, state: impl Into<StateOf<R>>) -> Self {
        Self { amiss: self.amiss.after(written::<R::State>(&state.into())), ..self }
    }

    /// Returns whether nothing differs so far.
    pub fn is_as_declared(&self) -> bool {
        self.amiss.differences.is_empty()
    }
}

impl<R: Resource> fmt::Debug for Stale<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.amiss.fmt(f)
    }
}
