//! A type as a kind, and one resource of it.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::WithCauses;
use crankcase_resources::{
    Action, Amiss, AttributeError, BoxError, Claimed, Config, Context, Found, Judged, Kind,
    KnownConfig, Unfinished, Unit, blocking,
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};

use crate::cache::identity;
use crate::call::{Call, CallError, Caller};
use crate::known::{Asking, Known, Shared};
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::v0::{ActionSpec, CallSpec, State};

/// The arguments of an action that say how it is called.
const CALL: [&str; 3] = ["image", "entrypoint", "args"];

/// A type that is a program.
#[derive(Debug, Clone)]
pub(crate) struct ExternalKind(Arc<Inner>);

struct Inner {
    name: String,
    summary: String,
    runner: Runner,
    shared: Arc<Shared>,
    /// What the type has said of its resources, by their names.
    known: RwLock<HashMap<String, Arc<Known>>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("External").field(&self.name).finish()
    }
}

/// Writes an error with its causes on one line.
pub(crate) fn text(error: &(dyn Error + 'static)) -> String {
    WithCauses(error).to_string()
}

impl ExternalKind {
    pub(crate) fn new(name: &str, runner: Runner, shared: Arc<Shared>) -> Self {
        let summary = match &runner {
            Runner::Program(_) => "an external type: a program of this machine",
            Runner::Container { .. } => "an external type: a container",
        };
        let (name, summary) = (name.to_owned(), summary.to_owned());
        Self(Arc::new(Inner { name, summary, runner, shared, known: RwLock::default() }))
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    /// Notes what the type has said of a resource.
    pub(crate) fn learn(&self, resource: &str, known: Known) {
        self.0.known.write().insert(resource.to_owned(), Arc::new(known));
    }
}

impl Kind for ExternalKind {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn summary(&self) -> &str {
        &self.0.summary
    }

    fn judge(&self, _: &KnownConfig<'_>) -> Judged {
        let mut claimed = Claimed::default();
        claimed.may_make_any = true;
        Judged { claimed, ..Judged::default() }
    }

    fn judge_of(&self, resource: &str, known: &KnownConfig<'_>) -> Judged {
        let said = self.0.known.read().get(resource).cloned();
        let said = said.as_ref().and_then(|said| said.schema.as_ref());
        let config = Value::Object(known.config.clone());
        let errors = said.map(|schema| schema.errors(resource, (&config, known.unknown)));
        Judged { errors: errors.unwrap_or_default(), ..self.judge(known) }
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(External { kind: Arc::clone(&self.0), config: config.clone() }))
    }
}

/// One resource.
#[derive(Debug)]
struct External {
    kind: Arc<Inner>,
    config: Config,
}

/// What a resource was when it was looked at last, as its actions are told.
type Stale = Mutex<Map<String, Value>>;

#[async_trait]
impl Unit for External {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let known = self.known(context).await?;
        self.judge(&known, context)?;
        let input = self.input(context);
        let say = |line: &str| context.log(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(&known.state, context).await?;
        let how = (&known.state, "state", self.settings().look_timeout);
        let call = self.call(how, (&known, &input), (context, &prepared));
        let answer = caller.ask(&call).await?;
        let state = State::read(answer).map_err(|wrong| {
            let resource = context.name();
            format!("protocol error: '{resource}' state result failed validation: {wrong}")
        })?;
        match state {
            State::Valid(state) => Ok(Found::Valid(Value::Object(state))),
            State::Stale { now, actions } => {
                *context.memory::<Stale>().lock() = now.clone().unwrap_or_default();
                Ok(Found::Stale(self.amiss(now, &actions)))
            }
        }
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        let known = self.known(context).await?;
        let mut input = self.input(context);
        let stale = context.memory::<Stale>().lock().clone();
        input["staleState"] = Value::Object(stale);
        let spec = action.arguments.iter().filter(|(name, _)| CALL.contains(&name.as_str()));
        let spec = spec.map(|(name, value)| (name.clone(), value.clone())).collect();
        let spec: CallSpec = serde_json::from_value(Value::Object(spec))?;
        let say = |line: &str| context.said(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(&spec, context).await?;
        let how = (&spec, action.name.as_str(), self.settings().action_timeout);
        let call = self.call(how, (&known, &input), (context, &prepared));
        match caller.act(&call).await {
            Ok(finished) => {
                context.log(&finished.stdout);
                context.log(&finished.stderr);
                Ok(())
            }
            Err(CallError::Stopped { .. }) => Err(Unfinished::Interrupted),
            Err(error) => Err(error.into()),
        }
    }
}

/// What a call needs beside what it says itself.
#[derive(Debug)]
struct Prepared {
    runner: Runner,
    work: Option<PathBuf>,
}

impl External {
    fn input(&self, context: &Context) -> Value {
        let who = (context.name(), &*self.kind.name);
        let mut input = self.kind.shared.input(who, context.folder());
        input["config"] = Value::Object(self.config.clone());
        input
    }

    fn settings(&self) -> &Settings {
        &self.kind.shared.settings
    }

    fn caller<'a>(
        &'a self,
        context: &'a Context,
        told: Option<crankcase_workers::Told<'a>>,
    ) -> Caller<'a> {
        let settings = self.settings();
        Caller { settings, ledger: context.ledger(), stop: context.stop(), told }
    }

    /// Returns how the type works, which it is asked now if that has failed before.
    async fn known(&self, context: &Context) -> Result<Arc<Known>, BoxError> {
        let Inner { name, runner, shared, known, .. } = &*self.kind;
        if context.ledger().is_some() {
            shared.end_leftovers().await;
        }
        let said = known.read().get(context.name()).cloned();
        if let Some(said) = said {
            return Ok(said);
        }
        let asking = Asking {
            resource: context.name(),
            kind: name,
            runner,
            folder: context.folder(),
            ledger: context.ledger(),
            stop: context.stop(),
        };
        let said = shared.ask(asking).await.map_err(|errors| errors.join("; "))?;
        let said = Arc::new(said);
        known.write().insert(context.name().to_owned(), Arc::clone(&said));
        Ok(said)
    }

    /// Judges the config as a whole.
    fn judge(&self, known: &Known, context: &Context) -> Result<(), BoxError> {
        let Some(schema) = &known.schema else { return Ok(()) };
        let config = Value::Object(self.config.clone());
        let errors = schema.errors(context.name(), (&config, &BTreeSet::new()));
        let errors: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ").into()) }
    }

    /// Returns what a call needs beside what it says itself.
    async fn prepare(&self, spec: &CallSpec, context: &Context) -> Result<Prepared, String> {
        let runner = self.runner(spec, context.folder()).await?;
        Ok(Prepared { runner, work: work(context).await })
    }

    fn call<'a>(
        &'a self,
        (spec, phase, timeout): (&'a CallSpec, &'a str, Duration),
        (known, input): (&'a Known, &'a Value),
        (context, prepared): (&'a Context, &'a Prepared),
    ) -> Call<'a> {
        Call {
            resource: context.name(),
            phase,
            runner: &prepared.runner,
            entrypoint: spec.entrypoint.as_deref(),
            args: &spec.args,
            input,
            workspace: context.folder(),
            work: prepared.work.as_deref(),
            mounts: &known.mounts,
            timeout,
        }
    }

    async fn runner(&self, spec: &CallSpec, folder: &Path) -> Result<Runner, String> {
        let Some(image) = &spec.image else { return Ok(self.kind.runner.clone()) };
        let settings = self.settings();
        let named = |wrong| format!("protocol error: the image \"{image}\": {wrong}");
        let runner = match Runner::parse(image, folder, settings).map_err(named)? {
            Some(runner) => runner,
            // A bare name is that of an image here, and not of a kind.
            None => Runner::image(image, settings).map_err(named)?,
        };
        if runner != self.kind.runner {
            identity(&runner, settings).await?;
        }
        Ok(runner)
    }

    /// Returns what differs, as far as the type has told it.
    fn amiss(&self, now: Option<Map<String, Value>>, actions: &[ActionSpec]) -> Amiss {
        let mut amiss = Amiss::new(now.clone().map(Value::Object));
        match &now {
            None => amiss = amiss.differs("state", "absent", "exists"),
            Some(now) => {
                let differing = self
                    .config
                    .iter()
                    .filter(|(name, wanted)| now.get(*name).is_some_and(|is| is != *wanted));
                for (name, wanted) in differing {
                    amiss = amiss.differs(name, now[name].clone(), wanted.clone());
                }
            }
        }
        actions.iter().fold(amiss, |amiss, spec| amiss.action(action(spec)))
    }
}

/// Returns an action as it is shown and saved.
fn action(spec: &ActionSpec) -> Action {
    let mut action = Action::new(&spec.name);
    if let Some(description) = &spec.description {
        action = action.with("description", description.as_str());
    }
    let call = serde_json::to_value(spec.call()).unwrap_or_default();
    let Value::Object(call) = call else { return action };
    call.into_iter().fold(action, |action, (name, value)| action.with(&name, value))
}

/// Returns the folder of a resource's own, if it has one. A plan makes none.
async fn work(context: &Context) -> Option<PathBuf> {
    let context = context.clone();
    let folder = blocking(move || -> Result<_, BoxError> {
        let folder = context.private_folder()?;
        Ok(folder.is_dir().then_some(folder))
    });
    folder.await.ok().flatten()
}
