//! The check that kinds behave as plan, apply and run need it, by samples of their configs.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Stop, Stopper};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::declare::automatic::connect;
use crate::declare::declaration::{Config, Declaration, Inputs, Rendered};
use crate::declare::known::KnownConfig;
use crate::declare::literal::Literal;
use crate::kind::context::Context;
use crate::kind::contract::{Kind, Unit};
use crate::kind::kinds::Kinds;
use crate::testing::sample::Sample;
use crate::testing::world::{Snapshot, World};
use crate::testing::{beside, configs, cuts, runs};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What a resource is called that is tried alone.
pub(super) const NAME: &str = "sample";

/// Checks that kinds are as plan, apply and run need them, whatever they keep.
///
/// Each claim is checked with every [`Sample`], in a folder that is empty but for what the sample
/// puts there:
///
/// - tables and actions survive JSON, and the table takes what the kind takes;
/// - hostile values are errors and no panics, of the attribute at fault, and the same at load as
///   later;
/// - errors and claims of a half-known config are also those of the whole config;
/// - a check changes nothing, two checks are equal, and so are a plan and an apply of what is to be
///   left alone;
/// - what a plan shows is what apply does, it is as declared afterwards, and a second apply does
///   nothing;
/// - nothing is changed but what is claimed;
/// - a drift is seen, and its paths are watched, if paths are what is watched;
/// - nothing but what a sample says is [volatile](Sample::volatile) differs from one time to the next;
/// - dropped or told to stop at any await, it leaves what was there before or after one of its
///   actions, and the next apply brings it to its end;
/// - if it can be put back as it was, that is so;
/// - the values of sensitive parameters are in no plan, no account and no error;
/// - all of this is so in random graphs of all samples, with notifications and with attributes that
///   become known only after apply.
///
/// What is outside of the folder is not looked at. It runs on runtimes of its own, so it must not be
/// called in one.
///
/// # Examples
///
/// ```
/// # use crankcase_resources::{
/// #     AbsPath, Actions, BoxError, Check, Claim, Claimed, Context, Partial, PATH, Params, Resource,
/// #     Stale, Unfinished,
/// # };
/// # /// keeps a lamp on
/// # #[derive(Debug, Clone, PartialEq, Params)]
/// # struct Lamp {
/// #     /// the file that says whether it is on
/// #     path: AbsPath,
/// # }
/// # /// The state of a lamp.
/// # #[derive(Debug, Clone, PartialEq, Params)]
/// # struct LampState {
/// #     /// whether it is on
/// #     is_on: bool,
/// # }
/// # #[derive(Debug, Actions)]
/// # enum Do {
/// #     /// switches it on
/// #     SwitchOn,
/// # }
/// # impl Resource for Lamp {
/// #     const NAME: &'static str = "lamp";
/// #     type State = LampState;
/// #     type Action = Do;
/// #     fn claims(half: &LampPartial) -> Claimed {
/// #         let path = half.path.as_given().map(|path| path.as_ref().display().to_string());
/// #         let mut claimed = Claimed::of(path.map(|path| Claim::keeps(PATH, path)).into_iter().collect());
/// #         claimed.is_open = half.path.is_unknown();
/// #         claimed
/// #     }
/// #     async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
/// #         let is_on = std::fs::read(&self.path).is_ok_and(|lamp| lamp == b"on");
/// #         if is_on {
/// #             return Ok(Check::valid(LampState { is_on }));
/// #         }
/// #         Ok(Stale::new(LampState { is_on }).differs("is_on", false, true).act(Do::SwitchOn).into())
/// #     }
/// #     async fn act(&self, _: &Do, _: &Context) -> Result<(), Unfinished> {
/// #         Ok(std::fs::write(&self.path, "on")?)
/// #     }
/// # }
/// use crankcase_resources::testing::{Conformance, Sample};
/// use crankcase_resources::{Kinds, kind};
/// use serde_json::json;
///
/// let lamp = Sample::new("lamp", "a new lamp", |folder| json!({"path": folder.join("lamp")}))
///     .drift("it burnt out", |folder| std::fs::remove_file(folder.join("lamp")));
/// Conformance::new(Kinds::default().with(kind::<Lamp>())).sample(lamp).check()?;
/// # Ok::<(), crankcase_resources::testing::Violations>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is checked until `check`"]
pub struct Conformance {
    kinds: Kinds,
    samples: Vec<Sample>,
    graphs: u64,
}

impl Conformance {
    /// Returns the checks of these kinds. Only a kind with a sample is checked.
    pub fn new(kinds: Kinds) -> Self {
        Self { kinds, samples: Vec::new(), graphs: 20 }
    }

    /// Adds a sample.
    pub fn sample(mut self, sample: Sample) -> Self {
        self.samples.push(sample);
        self
    }

    /// Sets how many random graphs are tried. Default 20.
    pub fn graphs(self, graphs: u64) -> Self {
        Self { graphs, ..self }
    }

    /// Checks everything.
    ///
    /// # Errors
    ///
    /// All that is not as it should be, with the sample, or the seed of the graph.
    pub fn check(self) -> Result<(), Violations> {
        let Self { kinds, samples, graphs } = self;
        let mut wrong = Vec::new();
        if samples.is_empty() {
            wrong.push("there is no sample".to_owned());
        }
        for sample in &samples {
            let tried = Trial::new(&kinds, sample).and_then(|mut trial| {
                trial.check()?;
                Ok(trial.wrong)
            });
            let found = tried.unwrap_or_else(|err| vec![format!("it cannot be tried: {err}")]);
            wrong.extend(found.into_iter().map(|found| format!("{sample}: {found}")));
        }
        // A kind that is wrong alone is wrong among others too, and the cause is harder to see
        // there.
        if wrong.is_empty() {
            for seed in 0..graphs {
                let found = beside::check(&kinds, &samples, seed);
                let found = found.unwrap_or_else(|err| vec![format!("cannot be tried: {err}")]);
                wrong.extend(found.into_iter().map(|found| format!("graph {seed}: {found}")));
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Violations(wrong)) }
    }
}

/// What kinds do and must not do; at least one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations(Vec<String>);

impl Violations {
    /// Returns them, in words.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Violations {}

/// One sample in a world of its own, and what is wrong with it.
pub(super) struct Trial<'a> {
    pub(super) kinds: &'a Kinds,
    pub(super) kind: &'a Arc<dyn Kind>,
    pub(super) sample: &'a Sample,
    pub(super) world: World,
    pub(super) config: Config,
    wrong: Vec<String>,
}

impl<'a> Trial<'a> {
    fn new(kinds: &'a Kinds, sample: &'a Sample) -> io::Result<Self> {
        let kind = kinds.get(&sample.kind).map_err(io::Error::other)?;
        let world = World::new()?;
        allow(&world, sample, world.folder());
        let Value::Object(config) = (sample.config)(world.folder()) else {
            return Err(io::Error::other("its config is not a map"));
        };
        Ok(Self { kinds, kind, sample, world, config, wrong: Vec::new() })
    }

    fn check(&mut self) -> io::Result<()> {
        configs::check(self);
        if self.wrong.is_empty() {
            let steps = runs::check(self)?;
            // One that does not even get to its end would be said to fail at every cut.
            if !steps.is_empty() && self.wrong.is_empty() {
                cuts::check(self, &steps)?;
            }
        }
        Ok(())
    }

    /// Notes what is wrong if something does not hold.
    pub(super) fn require(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        if !holds {
            let wrong = wrong();
            if !self.wrong.contains(&wrong) {
                self.wrong.push(wrong);
            }
        }
    }

    /// Notes that a secret is in a text that people see.
    pub(super) fn require_no_secret(&mut self, what: &str, shown: &str) {
        for secret in secrets(&**self.kind, &self.config) {
            self.require(!shown.contains(&secret), || format!("{what} shows a secret: {shown}"));
        }
    }

    /// Returns what a result holds, or notes why it holds nothing.
    pub(super) fn take<T>(&mut self, what: &str, result: Result<T, String>) -> Option<T> {
        result.map_err(|error| self.wrong.push(format!("{what}: {error}"))).ok()
    }

    /// Makes the world as it is at first.
    pub(super) fn begin(&self) -> io::Result<Snapshot> {
        self.world.clear()?;
        (self.sample.prepare)(self.world.folder())?;
        self.world.look()
    }

    pub(super) fn declaration(&self) -> Declaration {
        let config = Literal::new(self.config.clone());
        config.declare(self.world.folder(), NAME, &self.sample.kind)
    }

    /// Returns the declarations of the resource and of its parts.
    pub(super) fn declarations(&self) -> Vec<Declaration> {
        let unknown = BTreeSet::new();
        let known = KnownConfig { config: &self.config, unknown: &unknown };
        whole(self.kinds, self.declaration(), &known)
    }

    /// Returns the resource, as apply would make it.
    pub(super) fn unit(&self) -> Result<(Arc<dyn Unit>, Context, Stopper), String> {
        let declaration = self.declaration();
        let rendered = declaration.config.render(&Inputs::default());
        let Ok(Rendered::Known { config, scope }) = rendered else {
            return Err("it cannot be rendered".to_owned());
        };
        let unit = self.kind.make(&config).map_err(|errors| listed(&errors))?;
        let (stopper, stop) = Stop::pair();
        Ok((unit, Context::new(&declaration, scope, stop), stopper))
    }
}

/// Returns the declarations of a resource and of its parts. What is wrong with them was said.
pub(super) fn whole(
    kinds: &Kinds,
    mut owner: Declaration,
    known: &KnownConfig<'_>,
) -> Vec<Declaration> {
    let parts = kinds.declare(&mut owner, known).parts;
    let mut declarations: Vec<_> = parts.into_iter().map(|part| part.declaration).collect();
    declarations.push(owner);
    connect(&mut declarations);
    declarations
}

/// Runs something to its end, in a runtime that ends with all that was begun in it.
pub(super) fn run<T>(work: impl Future<Output = T>) -> Result<T, String> {
    let limited = async { tokio::time::timeout(LIMIT, work).await };
    let ended = runtime().map_err(|err| err.to_string())?.block_on(limited);
    ended.map_err(|_| format!("it has not ended after {}", humantime::format_duration(LIMIT)))
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Lets the paths that a sample says are volatile differ in its folder.
pub(super) fn allow(world: &World, sample: &Sample, folder: &Path) {
    sample.volatile.iter().for_each(|name| world.allow(folder.join(name)));
}

/// Returns the texts of sensitive parameters.
pub(super) fn secrets(kind: &dyn Kind, config: &Config) -> Vec<String> {
    let sensitive = kind.table().parameters.iter().filter(|parameter| parameter.is_sensitive);
    let mut secrets = Vec::new();
    let mut left: Vec<&Value> = sensitive.filter_map(|it| config.get(&it.name)).collect();
    while let Some(value) = left.pop() {
        match value {
            Value::String(text) if !text.is_empty() => secrets.push(text.clone()),
            Value::Array(items) => left.extend(items),
            Value::Object(map) => left.extend(map.values()),
            _ => {}
        }
    }
    secrets
}

/// Writes several things on one line.
pub(super) fn listed<T: fmt::Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join("; ")
}

/// Writes the paths that differ.
pub(super) fn paths(one: &Snapshot, other: &Snapshot) -> String {
    listed(one.differing(other).into_iter().map(|path| path.display().to_string()))
}
