//! What plan and apply do alike: gather what is known, make the resource, look at it.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_workers::ProcessConfig;
use serde_json::Value;

use crate::action::{Action, Unfinished};
use crate::caught::{PanickedError, caught, caught_async};
use crate::claims::Claims;
use crate::context::{Context, Notice, Used};
use crate::deadline::{Deadline, too_late};
use crate::declaration::{self, Config, Declaration, DependencyState, Rendered};
use crate::error::BoxError;
use crate::facilities::{Due, Facilities, Notices};
use crate::found::Found;
use crate::graph::Graph;
use crate::kind::{Kind, Unit};
use crate::kinds::Kinds;
use crate::known::KnownConfig;
use crate::text::chain;
use crate::watch::Watch;

/// What every visit of one run shares.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) kinds: Kinds,
    pub(crate) stop: Stop,
    pub(crate) claims: Claims,
    pub(crate) facilities: Facilities,
}

impl Setting {
    /// Returns what the visits of some declarations share.
    pub(crate) fn new(
        kinds: &Kinds,
        stop: Stop,
        declarations: &[Declaration],
        facilities: &Facilities,
    ) -> Self {
        let claims = Claims::default();
        claims.connect(declarations);
        Self { kinds: kinds.clone(), stop, claims, facilities: facilities.clone() }
    }
}

/// What a resource that was visited is to those that come after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The state, as far as dependents may see it.
    pub(crate) state: SeenState,
    /// The resource because of which dependents cannot go on: this one, or one before it.
    pub(crate) blocked_by: Option<String>,
    /// Whether the resource has changed or will.
    pub(crate) changes: Changes,
    /// The attributes in which it was not as declared.
    pub(crate) differing: Vec<String>,
    /// What was done to it, or would be.
    pub(crate) actions: Arc<[Action]>,
}

/// Whether dependents can know a state.
#[derive(Debug, Clone, Default)]
pub(crate) enum SeenState {
    /// Now.
    Known(Arc<Value>),
    /// After apply.
    Later,
    /// Not in this run.
    #[default]
    Never,
}

/// Whether a resource has changed or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Changes {
    #[default]
    No,
    Maybe,
    Yes,
}

/// What is known before a resource is visited.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The failed resource because of which this one is skipped.
    pub(crate) blocked_by: Option<String>,
    /// What the config's expressions see.
    pub(crate) known: declaration::Inputs,
    /// The dependencies that change first, or may.
    pub(crate) unsure: Vec<String>,
    /// The dependencies whose state will not be known in this run, by alias.
    pub(crate) never: BTreeMap<String, String>,
    /// What is known of the dependencies, for the kind.
    pub(crate) used: Vec<Used>,
    /// Who notifies this resource for certain.
    pub(crate) notices: Vec<Notice>,
    /// Those notifications that are on disk.
    pub(crate) due: Due,
    /// Who perhaps does.
    pub(crate) perhaps_by: Vec<String>,
}

impl Inputs {
    /// Gathers what the visited resources are to `node`.
    pub(crate) fn gather<'a>(
        graph: &Graph,
        declarations: &[Declaration],
        (node, notices): (usize, &Notices),
        seen: impl Fn(usize) -> &'a Seen,
    ) -> Self {
        let due = notices.due(&declarations[node].name);
        let mut inputs = Self { due, ..Self::default() };
        let before: BTreeMap<&str, usize> = graph
            .inputs(node)
            .iter()
            .map(|node| (declarations[*node].name.as_str(), *node))
            .collect();
        for (name, _) in declarations[node].needs() {
            inputs.need(name, seen(before[name]));
        }
        for dependency in &declarations[node].dependencies {
            let used = seen(before[dependency.resource.as_str()]);
            inputs.add(&dependency.alias, &dependency.resource, used);
        }
        for notifier in graph.notifiers(node) {
            let (name, seen) = (&declarations[*notifier].name, seen(*notifier));
            match seen.changes {
                Changes::Yes => inputs.notices.push(Notice::new(name, seen.differing.clone())),
                Changes::Maybe => inputs.perhaps_by.push(name.clone()),
                // What it may have changed in an earlier run is answered when it is as declared.
                Changes::No if seen.blocked_by.is_some() => inputs.due.leave_out(name),
                Changes::No => {}
            }
        }
        for by in inputs.due.by() {
            if inputs.notices.iter().all(|notice| notice.by != by) {
                inputs.notices.push(Notice::new(by, Vec::new()));
            }
        }
        inputs
    }

    /// Returns who notifies the resource for certain.
    pub(crate) fn notified_by(&self) -> Vec<String> {
        self.notices.iter().map(|notice| notice.by.clone()).collect()
    }

    fn need(&mut self, name: &str, used: &Seen) {
        if self.blocked_by.is_none() {
            self.blocked_by.clone_from(&used.blocked_by);
        }
        if used.changes != Changes::No && !self.unsure.iter().any(|unsure| unsure == name) {
            self.unsure.push(name.to_owned());
        }
    }

    fn add(&mut self, alias: &str, name: &str, used: &Seen) {
        let state = match &used.state {
            SeenState::Known(state) => DependencyState::Known(Arc::clone(state)),
            SeenState::Later => DependencyState::Unknown,
            SeenState::Never => {
                self.never.insert(alias.to_owned(), name.to_owned());
                DependencyState::Unknown
            }
        };
        let (alias, actions) = (alias.to_owned(), Arc::clone(&used.actions));
        let resource = name.to_owned();
        self.used.push(Used { alias: alias.clone(), resource, state: state.clone(), actions });
        self.known.deps.insert(alias, state);
    }
}

/// A declaration whose config was rendered.
#[derive(Debug)]
pub(crate) enum Made {
    /// It has become a resource.
    Unit(Arc<dyn Unit>, Context),
    /// It needs the states of the dependencies with these aliases.
    Unknown(Vec<String>),
}

/// Renders a config and validates it.
pub(crate) fn make(
    declaration: &Declaration,
    setting: &Setting,
    inputs: &Inputs,
) -> Result<Made, String> {
    let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
    let (config, scope) = match render(declaration, &inputs.known)? {
        Rendered::Known { config, scope } => (config, scope),
        Rendered::Unknown { because } => return Ok(Made::Unknown(because)),
    };
    let unit = make_of(declaration, kind, &config)?;
    claim(declaration, kind, &config, &setting.claims)?;
    let context = Context::new(declaration, scope, setting.stop.clone());
    let context = context.with(&setting.facilities);
    Ok(Made::Unit(unit, context.knowing(inputs.used.clone(), inputs.notices.clone())))
}

/// Renders a config.
pub(crate) fn render(
    declaration: &Declaration,
    inputs: &declaration::Inputs,
) -> Result<Rendered, String> {
    let rendered = caught(|| declaration.config.render(inputs)).map_err(|err| err.to_string())?;
    rendered.map_err(|err| chain(&err))
}

/// Makes a resource of a config; the error names each attribute with its place.
pub(crate) fn make_of(
    declaration: &Declaration,
    kind: &Arc<dyn Kind>,
    config: &Config,
) -> Result<Arc<dyn Unit>, String> {
    let made = caught(|| kind.make(config)).map_err(|err| err.to_string())?;
    made.map_err(|errors| {
        let errors: Vec<_> = errors
            .iter()
            .map(|error| match declaration.config.place_of(&error.attribute) {
                Some(place) => format!("{place}: {error}"),
                None => error.to_string(),
            })
            .collect();
        format!("the config is not valid: {}", errors.join("; "))
    })
}

/// Claims what a resource keeps, which no other may.
pub(crate) fn claim(
    declaration: &Declaration,
    kind: &Arc<dyn Kind>,
    config: &Config,
    claims: &Claims,
) -> Result<(), String> {
    if !declaration.may_find() {
        return Ok(());
    }
    let unknown = BTreeSet::new();
    let judged = caught(|| kind.judge(&KnownConfig { config, unknown: &unknown }));
    claims.claim(declaration, judged.map_err(|err| err.to_string())?.claimed.claims)
}

/// A resource between its open and its close; its panics are caught.
#[derive(Debug)]
pub(crate) struct Opened {
    unit: Arc<dyn Unit>,
    context: Context,
    /// How long a look, and each action, may take.
    pub(crate) timeout: Option<Duration>,
}

/// How an action has ended.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) ended: Result<Result<(), Unfinished>, PanickedError>,
    /// Whether it was told to stop because it took too long.
    pub(crate) is_late: bool,
    /// What it has logged.
    pub(crate) log: Vec<String>,
}

impl Opened {
    pub(crate) async fn new(
        unit: Arc<dyn Unit>,
        context: Context,
        timeout: Option<Duration>,
    ) -> Result<Self, String> {
        let this = Self { unit, context, timeout };
        let opened = this.open().await;
        match opened {
            Ok(()) => Ok(this),
            Err(err) => match this.close().await {
                Ok(()) => Err(format!("cannot open it: {err}")),
                Err(closing) => Err(format!("cannot open it: {err}; {closing}")),
            },
        }
    }

    async fn open(&self) -> Result<(), String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (opened, is_late) = deadline.tell(caught_async(self.unit.open(&call))).await;
        call.trace();
        flatten(opened)
            .map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    /// Takes over what further calls get. What the resource remembers stays.
    pub(crate) fn see(&mut self, context: Context) {
        self.context = context.remembering(&self.context);
    }

    pub(crate) async fn watch(&self) -> Result<Watch, String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (watch, is_late) = deadline.tell(caught_async(self.unit.watch(&call))).await;
        call.trace();
        flatten(watch).map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    /// Returns the folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.context.folder()
    }

    pub(crate) fn program(&self) -> Option<&ProcessConfig> {
        self.unit.program()
    }

    pub(crate) async fn check(&self) -> Result<Found, String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (found, is_late) = deadline.tell(caught_async(self.unit.check(&call))).await;
        call.trace();
        flatten(found).map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    pub(crate) async fn act(&self, action: &Action) -> Acted {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (ended, is_late) = deadline.tell(caught_async(self.unit.act(action, &call))).await;
        Acted { ended, is_late, log: call.lines() }
    }

    pub(crate) fn refresh(&self, done: &[Action]) -> Result<Option<Action>, String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let refresh = caught(|| self.unit.refresh(done, &call));
        call.trace();
        refresh.map_err(|err| err.to_string())
    }

    pub(crate) fn holds(&self) -> Result<Option<String>, String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let holds = caught(|| self.unit.holds(&call));
        call.trace();
        holds.map_err(|err| err.to_string())
    }

    pub(crate) async fn close(self) -> Result<(), String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let closed = caught_async(self.unit.close(&call)).await;
        call.trace();
        closed.map_err(|err| format!("closing it {err}"))
    }

    fn call(&self, deadline: &Deadline<'_>) -> Context {
        self.context.of_call(deadline)
    }
}

fn flatten<T>(result: Result<Result<T, BoxError>, PanickedError>) -> Result<T, String> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) => Err(chain(&*err)),
        Err(err) => Err(chain(&err)),
    }
}
