//! Nested engines, with their imports from the outer engine and their exports to it.

mod border;

use std::fmt;
use std::sync::Arc;

use tokio::task::JoinError;

use crate::change::{Change, Mode, Part};
use crate::engine::Engine;
use crate::engine::builder::EngineBuilder;
use crate::engine::input::EngineInput;
use crate::manifolds::Manifold;
use crate::manifolds::input::named::Selected;
use crate::manifolds::input::{Declared, Given, Inputs};
use crate::supervisor::applied::Applied;
use crate::vocabulary::exit::{Exit, Panicked};
use crate::vocabulary::name::{Name, Text};
use crate::vocabulary::policy::LONG;
use crate::vocabulary::settings::HandedBy;
use crate::vocabulary::spawned::Spawned;
use crate::vocabulary::value::Kind;
use crate::worker::context::Context;
use border::{Border, Crossing, Direction};

/// A nested engine with its imports and exports. It is installed, replaced and uninstalled as a
/// whole.
///
/// | | what it does | what a change of the value bounces |
/// | --- | --- | --- |
/// | [`require`](Self::require) | the value is an input of the whole nested engine | the whole nested engine |
/// | [`import`](Self::import) | the value is offered in the nested engine while the outer engine has it | the workers in the nested engine that require it |
/// | [`export`](Self::export) | a value of a worker in the nested engine is offered in the outer engine while the worker offers it | the workers in the outer engine that require it |
///
/// Types are compared at install, as for all names: those of outer names when the nested engine is
/// installed, those of inner names at each start of the nested engine. Cycles are checked too, even
/// if they lead out of the nested engine and back: its exports depend on it, and it depends on its
/// imports. Across a border, as within one engine, users stop before the worker that they use, and
/// learn at once when it ends by itself.
///
/// Any of them may pass a part of a value: `import(SETTINGS.select(..), LIMITS)`.
///
/// A new value of a changing output passes a border as a new value. Workers that require it are
/// bounced, workers that take it live see the next value, and nothing else happens.
///
/// Small workers carry the values across. Each import has one beside the nested engine. Its name is
/// made of the nested engine's name and the inner name: `site.facts` hands over the value that is
/// `facts` in the nested engine `site`. Each export has one in the nested engine. Its name is made
/// of the outer name: `out.site-page` hands over the value that is `site-page` in the outer engine.
/// These workers are installed and uninstalled with the nested engine. You cannot install a
/// manifold of your own under such a name. They are shown only on request; see
/// [`EngineBuilder::show_carriers`](crate::EngineBuilder::show_carriers).
///
/// A border has these limits:
///
/// - An import or an export that is still coming counts as absent. A worker with it as an optional
///   input starts without it, and is bounced when it comes.
/// - A preview looks at one engine only. So does the check that a worker does not wait for its own
///   end.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Change, Engine, Manifold, Name, Nested};
///
/// #[derive(Clone)]
/// struct Facts(u32);
/// #[derive(Clone)]
/// struct Page(String);
///
/// const FACTS: Name<Facts> = Name::new("facts");
/// const PAGE: Name<Page> = Name::new("page");
/// const SITE: Name<Engine> = Name::new("site");
/// const SITE_PAGE: Name<Page> = Name::new("site-page");
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let site = Nested::new(|| {
///     let page = Manifold::builder().inputs(FACTS).offers::<(Page,)>().run(
///         |facts, up| async move {
///             let stop = up.ready((Page(format!("{} visitors", facts.0)),));
///             stop.wait().await;
///             Ok(())
///         },
///     );
///     Change::new().install(PAGE, page)
/// })
/// .import(FACTS, FACTS)
/// .export(PAGE, SITE_PAGE);
///
/// let engine = Engine::builder().build()?;
/// engine.provide(FACTS, Facts(3)).await?;
/// engine.apply(Change::new().install_nested(SITE, site)).await?;
/// assert_eq!(engine.output(SITE_PAGE).await?.0, "3 visitors");
/// engine.stop().await?;
/// # Ok(()) }
/// ```
#[must_use = "a nested engine runs when it is installed"]
pub struct Nested {
    contents: Arc<dyn Fn() -> Change + Send + Sync>,
    engine: Arc<dyn Fn(EngineBuilder) -> EngineBuilder + Send + Sync>,
    manifold: Arc<dyn Fn(Manifold) -> Manifold + Send + Sync>,
    whole: Vec<Box<dyn WholeImport>>,
    borders: Vec<Arc<dyn Crossing>>,
}

impl Nested {
    /// Returns a nested engine with the manifolds of this change. The change is made and applied at
    /// each start.
    ///
    /// `contents` runs on the workers' runtime, and always to its end. If the nested engine is
    /// stopped meanwhile, it has not ended before `contents` has. After the engine's graces it is
    /// stuck.
    pub fn new(contents: impl Fn() -> Change + Send + Sync + 'static) -> Self {
        Self {
            contents: Arc::new(contents),
            engine: Arc::new(|builder| builder),
            manifold: Arc::new(|manifold| manifold),
            whole: Vec::new(),
            borders: Vec::new(),
        }
    }

    /// Sets the policy and all other settings of the nested engine. Default: the settings of
    /// [`Engine::builder`](Engine::builder).
    pub fn engine(
        mut self,
        set: impl Fn(EngineBuilder) -> EngineBuilder + Send + Sync + 'static,
    ) -> Self {
        self.engine = Arc::new(set);
        self
    }

    /// Sets how the outer engine treats the nested engine: its backoff, its filter and so on.
    /// Default: the outer engine's policy, except for the grace. The graces of the nested workers
    /// limit how long the nested engine takes to stop.
    pub fn manifold(mut self, set: impl Fn(Manifold) -> Manifold + Send + Sync + 'static) -> Self {
        self.manifold = Arc::new(set);
        self
    }

    /// Makes the value that the outer engine knows as `outer` an input of the whole nested engine.
    /// The nested engine runs only while the value is there, and is bounced when it changes.
    pub fn require<T>(mut self, outer: impl Into<Selected<T>>, inner: Name<T>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.whole.push(Box::new(Import { outer: outer.into(), inner }));
        self
    }

    /// Imports the value that the outer engine knows as `outer`, while the value is there. The
    /// workers inside declare it as they like: required, optional or live.
    pub fn import<T>(mut self, outer: impl Into<Selected<T>>, inner: Name<T>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.borders.push(Border::new(outer.into(), inner, Direction::In));
        self
    }

    /// Exports the value that the nested engine knows as `inner` to the outer engine, while the
    /// value is there.
    pub fn export<T>(mut self, inner: impl Into<Selected<T>>, outer: Name<T>) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        self.borders.push(Border::new(inner.into(), outer, Direction::Out));
        self
    }

    /// Returns the parts for the outer engine: the nested engine itself, and the workers beside it.
    pub(crate) fn parts(self, site: &Text) -> (Manifold, Vec<Part>) {
        let Self { contents, engine, manifold, whole, borders } = self;
        let beside: Vec<_> = borders.iter().map(|border| outside(border, site)).collect();
        let live = borders.iter().filter(|border| border.direction() == Direction::In);
        let name = |border| Name::<()>::from_text(name_of_import(site, border));
        let handed = live.map(|border| name(border.sink_text())).collect();
        let own = site.clone();
        let start = move |(seeds, outer): (Vec<AddImport>, Engine), ctx: Context| {
            let (engine, contents) = (Arc::clone(&engine), Arc::clone(&contents));
            let linger = ctx.stop().linger();
            // The long grace of the nested engine is for its workers, not for what lingers after
            // them.
            ctx.stop().set_linger_grace(ctx.identity().environment().policy.grace);
            // The nested engine's worker runs on the engine's runtime. User code does not.
            let workers = &ctx.identity().environment().workers;
            let built = Spawned::on(workers, async move {
                let change = seeds.into_iter().fold(contents(), |change, seed| seed(change));
                // `linger` comes last: the nested engine has not ended until the other values are
                // dropped.
                (engine(Engine::builder()), change, linger)
            });
            let (borders, own) = (borders.clone(), own.clone());
            async move {
                let (builder, change, _) = built.over().await.map_err(exit_of)?;
                let nested = builder.build_nested(&ctx)?;
                let change = borders.iter().fold(change, |change, border| {
                    change.add(inside(border, &own, &nested, &outer), Mode::Nothing)
                });
                nested.apply(change).await?;
                Ok::<_, Exit>(nested)
            }
        };
        let nested = Manifold::builder()
            .inputs(Imports { whole, handed })
            .start(start)
            .output(|nested| Engine::clone(nested))
            .report(|nested| nested.reporter())
            .build()
            .grace(LONG)
            .beside_engine();
        (manifold(nested).part_of(site.clone()), beside)
    }
}

impl fmt::Debug for Nested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let borders = |direction| self.borders.iter().filter(move |b| b.direction() == direction);
        let live: Vec<_> = borders(Direction::In).map(|border| border.source_text()).collect();
        let exports: Vec<_> = borders(Direction::Out).map(|border| border.source_text()).collect();
        f.debug_struct("Nested")
            .field("imports", &self.whole.len())
            .field("live", &live)
            .field("exports", &exports)
            .finish()
    }
}

/// Returns the name of the worker that hands over the import that the nested engine knows as
/// `sink`.
fn name_of_import(nested: &Text, sink: &Text) -> Text {
    Text::new(format!("{}.{}", nested.as_str(), sink.as_str()))
}

/// Returns the name of the worker that hands over the export that the outer engine knows as `sink`.
fn name_of_export(sink: &Text) -> Text {
    Text::new(format!("out.{}", sink.as_str()))
}

/// Returns the worker of a border in the outer engine.
fn outside(border: &Arc<dyn Crossing>, site: &Text) -> Part {
    let sink = border.sink_text();
    let part = match border.direction() {
        Direction::In => Part {
            name: name_of_import(site, sink),
            kind: Kind::of::<()>(),
            manifold: Arc::clone(border).source(),
        },
        Direction::Out => {
            let worker = name_of_export(sink);
            let handed_by = HandedBy::Nested { engine: site.clone(), worker };
            let manifold = Arc::clone(border).sink(vec![Name::from_text(site.clone())]);
            let kind = border.sink_kind();
            Part { name: sink.clone(), kind, manifold: manifold.handed_by(handed_by) }
        }
    };
    Part { manifold: part.manifold.part_of(site.clone()).carrier(), ..part }
}

/// Returns the worker of a border in the nested engine.
fn inside(border: &Arc<dyn Crossing>, site: &Text, nested: &Engine, outer: &Engine) -> Part {
    let sink = border.sink_text();
    let part = match border.direction() {
        Direction::In => {
            border.lead_to(nested.clone());
            let handed_by = HandedBy::Outer(name_of_import(site, sink));
            let manifold = Arc::clone(border).sink(Vec::new()).handed_by(handed_by);
            Part { name: sink.clone(), kind: border.sink_kind(), manifold }
        }
        Direction::Out => {
            border.lead_to(outer.clone());
            let manifold = Arc::clone(border).source();
            Part { name: name_of_export(sink), kind: Kind::of::<()>(), manifold }
        }
    };
    Part { manifold: part.manifold.carrier(), ..part }
}

impl Change {
    /// Installs a nested engine under a name that has no manifold, with its imports and exports.
    pub fn install_nested<T>(self, name: Name<T>, nested: Nested) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let (manifold, beside) = nested.parts(name.text());
        beside
            .into_iter()
            .fold(self.install(name, manifold), |change, part| change.add(part, Mode::Nothing))
    }

    /// Replaces a nested engine, or any manifold, with a nested engine. Imports and exports that
    /// only the old one had are uninstalled.
    pub fn replace_nested<T>(self, name: Name<T>, nested: Nested) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let (manifold, beside) = nested.parts(name.text());
        beside
            .into_iter()
            .fold(self.replace(name, manifold), |change, part| change.add(part, Mode::Part))
    }

    /// Installs a nested engine, or replaces the manifold that is installed under its name, as
    /// [`replace_nested`](Self::replace_nested) does.
    pub fn install_or_replace_nested<T>(self, name: Name<T>, nested: Nested) -> Self
    where
        T: Clone + Send + Sync + 'static,
    {
        let (manifold, beside) = nested.parts(name.text());
        let change = self.install_or_replace(name, manifold);
        beside.into_iter().fold(change, |change, part| change.add(part, Mode::Part))
    }
}

impl Engine {
    /// Installs a nested engine with its imports and exports. Complete when it is in the graph and,
    /// if possible, was told to start.
    ///
    /// # Errors
    ///
    /// The same as for [`install`](Self::install), for the nested engine and its exports.
    pub fn install_nested<T>(&self, name: Name<T>, nested: Nested) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply(Change::new().install_nested(name, nested))
    }

    /// Replaces a manifold with a nested engine. Complete when the new one is in force and the old
    /// one is gone.
    ///
    /// # Errors
    ///
    /// The same as for [`replace`](Self::replace), for the nested engine and its exports.
    pub fn replace_nested<T>(&self, name: Name<T>, nested: Nested) -> Applied
    where
        T: Clone + Send + Sync + 'static,
    {
        self.apply(Change::new().replace_nested(name, nested))
    }
}

/// Returns the exit for a task that panicked or was cancelled.
fn exit_of(error: JoinError) -> Exit {
    match error.try_into_panic() {
        Ok(payload) => Exit::failed(Panicked::from_payload(payload)),
        Err(error) => Exit::failed(error),
    }
}

/// Adds an imported value to the first change of a nested engine.
type AddImport = Box<dyn FnOnce(Change) -> Change + Send>;

/// An import of the whole nested engine, with its type erased.
trait WholeImport: Send + Sync {
    fn declare(&self, declared: &mut Declared);

    fn take(&self, given: &mut Given) -> AddImport;
}

struct Import<T> {
    outer: Selected<T>,
    inner: Name<T>,
}

impl<T: Clone + Send + Sync + 'static> WholeImport for Import<T> {
    fn declare(&self, declared: &mut Declared) {
        self.outer.declare(declared);
    }

    fn take(&self, given: &mut Given) -> AddImport {
        let (inner, outer, value) =
            (self.inner.clone(), self.outer.clone(), self.outer.take_whole(given));
        // This runs on the workers' runtime, as the clone and the selection of a value must.
        Box::new(move |change| {
            let (name, kind) = (inner.into_text(), Kind::of::<T>());
            let manifold = Manifold::provided(outer.read(&value)).carrier();
            change.add(Part { name, kind, manifold }, Mode::Provided)
        })
    }
}

/// The inputs of a nested engine. It follows the workers that hand over its live imports, so that
/// at shutdown it stops before them.
struct Imports {
    whole: Vec<Box<dyn WholeImport>>,
    handed: Vec<Name<()>>,
}

impl Inputs for Imports {
    type Values = (Vec<AddImport>, Engine);
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        self.whole.iter().for_each(|import| import.declare(declared));
        self.handed.iter().for_each(|source| source.live().declare(declared));
    }

    fn take(&self, given: &mut Given) -> Self::Values {
        let seeds = self.whole.iter().map(|import| import.take(given)).collect();
        self.handed.iter().for_each(|source| drop(source.live().take(given)));
        (seeds, EngineInput.take(given))
    }

    fn into_owned(self) -> Self {
        self
    }
}
