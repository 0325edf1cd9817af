//! The manifold: its inputs, its start, its outputs and its settings.

mod admission;
pub(crate) mod builder;
pub(crate) mod closure;
pub(crate) mod input;
pub(crate) mod provided;
pub(crate) mod publisher;
pub(crate) mod staged;

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::task::AbortHandle;

use crate::manifolds::input::{Declared, Inputs};
use crate::vocabulary::backoff::{Backoff, Intensity};
use crate::vocabulary::exit::{Exit, Outcome};
use crate::vocabulary::name::Text;
use crate::vocabulary::settings::{HandedBy, Settings, Severity};
use crate::vocabulary::value::Kind;
use crate::worker::launch::{Blueprint, Declaration, Launch};

/// How to get a worker: its inputs, its start and its outputs.
///
/// A manifold has no name of its own. It gets a name when it is installed in an
/// [`Engine`](crate::Engine). It is cheap to clone, and may be installed under several names.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
///
/// #[derive(Clone)]
/// struct Config {
///     store: Name<String>,
///     depth: usize,
/// }
///
/// struct Poller {
///     store: String,
///     depth: usize,
/// }
///
/// impl Worker for Poller {
///     async fn run(self, stop: Stop) -> Outcome {
///         stop.wait().await;
///         Ok(())
///     }
/// }
///
/// /// Returns a manifold that polls the store and offers how deep it goes.
/// fn manifold(config: Config) -> Manifold {
///     Manifold::builder()
///         .inputs(&config.store)
///         .start_with(config, |config, store, _ctx| async move {
///             Ok(Poller { store, depth: config.depth })
///         })
///         .output(|poller| poller.depth)
///         .build()
/// }
/// # let _ = manifold(Config { store: Name::new("store"), depth: 3 });
/// ```
#[derive(Clone)]
pub struct Manifold {
    pub(crate) blueprint: Arc<dyn Blueprint>,
    pub(crate) settings: Option<Arc<Settings>>,
}

/// The settings of a manifold that is essential, and has no other settings.
static ESSENTIAL: LazyLock<Arc<Settings>> =
    LazyLock::new(|| Arc::new(Settings { is_essential: true, ..Settings::default() }));

/// The types of a manifold's outputs. Most manifolds have at most one.
type Kinds = SmallVec<[&'static Kind; 1]>;

/// The inputs and outputs of a manifold, and the part that starts its workers.
struct Definition<B> {
    declared: Box<[Declaration]>,
    offers: Kinds,
    body: B,
}

/// The part of a manifold that starts its workers. Each kind of manifold has its own.
trait Body: Sized + Send + Sync + 'static {
    type Inputs: Inputs;

    fn inputs(&self) -> &Self::Inputs;

    /// Starts a worker in a task or on a thread of its own; see [`Blueprint::launch`].
    fn launch(definition: Arc<Definition<Self>>, launch: Launch) -> Option<AbortHandle>;
}

impl<B: Body> Blueprint for Definition<B> {
    fn inputs(&self) -> &[Declaration] {
        &self.declared
    }

    fn offers(&self) -> &[&'static Kind] {
        &self.offers
    }

    fn launch(self: Arc<Self>, launch: Launch) -> Option<AbortHandle> {
        B::launch(self, launch)
    }
}

impl Manifold {
    #[inline]
    fn new<B: Body>(offers: Kinds, body: B) -> Self {
        let mut declared = Declared::default();
        body.inputs().declare(&mut declared);
        let definition = Definition { declared: declared.inputs.into_boxed_slice(), offers, body };
        Self { blueprint: Arc::new(definition), settings: None }
    }

    fn set(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(self.settings.get_or_insert_default()));
        self
    }

    /// Sets the nested engine that the manifold belongs to.
    pub(crate) fn part_of(self, nested: Text) -> Self {
        self.set(|settings| settings.part_of = Some(nested))
    }

    /// Returns the name of the nested engine that the manifold belongs to. For a nested engine
    /// itself, this is its own name.
    pub(crate) fn owner(&self) -> Option<&Text> {
        self.settings.as_ref()?.part_of.as_ref()
    }

    /// Whether the manifold belongs to the nested engine of this name, or is that engine.
    pub(crate) fn belongs_to(&self, nested: &Text) -> bool {
        self.owner().is_some_and(|owner| owner.as_str() == nested.as_str())
    }

    /// Returns a nested engine and the worker that passes a value across its border, if the
    /// manifold is one of the border's workers. An import is passed by this manifold, an export by
    /// a worker in the nested engine.
    pub(crate) fn border<'a>(&'a self, name: &'a Text) -> Option<(&'a Text, &'a Text)> {
        let settings = self.settings.as_ref()?;
        let nested = settings.part_of.as_ref()?;
        match &settings.handed_by {
            Some(HandedBy::Nested { worker, .. }) => Some((nested, worker)),
            Some(HandedBy::Outer(_)) => None,
            None => (nested.as_str() != name.as_str()).then_some((nested, name)),
        }
    }

    /// Marks the worker as one that passes a value across a border.
    pub(crate) fn carrier(self) -> Self {
        self.set(|settings| settings.is_carrier = true)
    }

    pub(crate) fn is_carrier(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.is_carrier)
    }

    /// Whether the worker takes a value out of its engine. It offers nothing there.
    pub(crate) fn is_source(&self) -> bool {
        self.is_carrier() && self.blueprint.offers().is_empty()
    }

    /// Sets the worker of another engine that passes the output to this one.
    pub(crate) fn handed_by(self, worker: HandedBy) -> Self {
        self.set(|settings| settings.handed_by = Some(worker))
    }

    /// Sets the wait after a failure. Default: the engine's backoff.
    #[must_use]
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.set(|settings| settings.backoff = Some(backoff))
    }

    /// Sets the wait before a restart that is not a failure. Default: the engine's bounce delay.
    #[must_use]
    pub fn bounce_delay(self, delay: Duration) -> Self {
        self.set(|settings| settings.bounce_delay = Some(delay))
    }

    /// Sets up to which wait the bounce delay grows with each bounce in a row. Default: the engine's,
    /// which is no growth unless it is set.
    ///
    /// Use it for a worker whose required input may flap, and whose start costs much.
    #[must_use]
    pub fn max_bounce_delay(self, max: Duration) -> Self {
        self.set(|settings| settings.max_bounce_delay = Some(max))
    }

    /// Sets how long a start may take. Default: the engine's start timeout.
    #[must_use]
    pub fn start_timeout(self, timeout: Duration) -> Self {
        self.set(|settings| settings.start_timeout = Some(timeout))
    }

    /// Sets how long a worker has to end after it was told to stop. Default: the engine's grace.
    #[must_use]
    pub fn grace(self, grace: Duration) -> Self {
        self.set(|settings| settings.grace = Some(grace))
    }

    /// Sets how long the engine waits for a worker after it has dropped the worker's future.
    /// Default: the engine's second grace.
    #[must_use]
    pub fn abort_grace(self, grace: Duration) -> Self {
        self.set(|settings| settings.abort_grace = Some(grace))
    }

    /// Sets how long the reporter has to answer. Default: the engine's report deadline.
    #[must_use]
    pub fn report_deadline(self, deadline: Duration) -> Self {
        self.set(|settings| settings.report_deadline = Some(deadline))
    }

    /// Sets how many failures, within which time, park the worker. Default: the engine's intensity.
    #[must_use]
    pub fn intensity(self, intensity: Intensity) -> Self {
        self.set(|settings| settings.intensity = Some(intensity))
    }

    /// Marks the worker as essential: the engine is not healthy while this worker does not run
    /// well.
    #[must_use]
    pub fn essential(self) -> Self {
        if self.settings.is_none() {
            // Many manifolds are essential and no more: they share 300 bytes of settings.
            return Self { settings: Some(Arc::clone(&ESSENTIAL)), ..self };
        }
        self.set(|settings| settings.is_essential = true)
    }

    /// Runs the worker and its reporter on the engine's own runtime instead of the workers'
    /// runtime.
    ///
    /// Use it for a worker that must go on when other workers block every thread of their runtime,
    /// such as a nested engine. If such a worker does not yield, it delays the engine itself.
    #[must_use]
    pub fn beside_engine(self) -> Self {
        self.set(|settings| settings.is_beside_engine = true)
    }

    /// Maps the errors of the worker to what they mean. Runs before the engine's own filter.
    ///
    /// Runs in the worker's task, before the engine learns of the end. Called for errors only: not
    /// for `Missing`, `Bounce` or `Uninstall`, and not for a worker that ends well. If the filter
    /// panics, the worker has panicked. If two filters are set, both run, in the order in which
    /// they were set.
    #[must_use]
    pub fn filter(self, filter: impl Fn(Exit) -> Outcome + Send + Sync + 'static) -> Self {
        self.set(|settings| {
            settings.filter = Some(match settings.filter.take() {
                None => Arc::new(filter),
                Some(first) => Arc::new(move |exit| match first(exit) {
                    Err(exit) if exit.error().is_some() => filter(exit),
                    other => other,
                }),
            });
        })
    }

    /// Sets which errors of the worker stop the engine. Replaces the engine's classifier for this
    /// worker.
    ///
    /// Runs in the worker's task, for errors that remain after the filters.
    #[must_use]
    pub fn classifier(self, classify: impl Fn(&Exit) -> Severity + Send + Sync + 'static) -> Self {
        self.set(|settings| settings.classifier = Some(Arc::new(classify)))
    }
}

impl fmt::Debug for Manifold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs: Vec<_> = self.blueprint.inputs().iter().map(|input| &input.name).collect();
        f.debug_struct("Manifold")
            .field("inputs", &inputs)
            .field("offers", &self.blueprint.offers())
            .finish()
    }
}
