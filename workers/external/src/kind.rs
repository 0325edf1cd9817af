//! A type as a kind, and one resource of it.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::Stop;
use crankcase_resources::{
    Action, Amiss, AttributeError, BoxError, Claimed, Config, Context, DependencyState, Difference,
    Found, Judged, Kind, KnownConfig, Unfinished, Unit, Watch, add_secret, blocking,
};
use crankcase_workers::{Ledger, Secrets};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::Sender;

use crate::cache::identity;
use crate::call::{Call, CallError, Caller};
use crate::known::{Asking, Known, Shared};
use crate::messages::{ActionSpec, Answer, CallSpec, Stale, State};
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::waking::{Memory, Signal};

/// How long a watch may go on.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The arguments of an action that say how it is called.
const CALL: [&str; 3] = ["image", "entrypoint", "args"];

/// A type that is a program.
#[derive(Debug, Clone)]
pub(crate) struct ExternalKind(Arc<Inner>);

struct Inner {
    name: String,
    /// What it is for, once it has said so.
    summary: OnceLock<String>,
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

impl ExternalKind {
    pub(crate) fn new(name: &str, runner: Runner, shared: Arc<Shared>) -> Self {
        let (name, summary) = (name.to_owned(), OnceLock::new());
        Self(Arc::new(Inner { name, summary, runner, shared, known: RwLock::default() }))
    }

    pub(crate) fn runner(&self) -> &Runner {
        &self.0.runner
    }

    /// Notes what the type has said of a resource.
    pub(crate) fn learn(&self, resource: &str, known: Known) {
        if let Some(summary) = &known.init.summary {
            self.0.summary.get_or_init(|| summary.clone());
        }
        self.0.known.write().insert(resource.to_owned(), Arc::new(known));
    }
}

impl Kind for ExternalKind {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn summary(&self) -> &str {
        self.0.summary.get().map_or(
            match self.0.runner {
                Runner::Program(_) => "an external type: a program of this machine",
                Runner::Container { .. } => "an external type: a container",
            },
            String::as_str,
        )
    }

    fn config_schema(&self) -> Option<Value> {
        let known = self.0.known.read();
        known.values().find_map(|known| known.init.config_schema.clone())
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

    fn can_reverse(&self) -> bool {
        self.0.known.read().values().any(|known| known.init.calls.reverse.is_some())
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

/// The attribute that declares that a resource is not there. No person writes it: it comes of a reversal.
const DELETED: &str = "$deleted";

#[async_trait]
impl Unit for External {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let known = self.known(context).await?;
        self.judge(&known, context)?;
        let input = self.input("check", &known, context);
        let say = |line: &str| context.log(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(&known.init.calls.check, context).await?;
        let phase = if known.init.is_v1 { "check" } else { "state" };
        let how = (&known.init.calls.check, phase, self.look_timeout(&known));
        let call = self.call(how, (&known, &input), (context, &prepared));
        let answer = caller.ask(&call).await?;
        let resource = context.name();
        let answer = Answer::read(answer, known.init.is_v1).map_err(|wrong| {
            format!("protocol error: '{resource}' state result failed validation: {wrong}")
        })?;
        for warning in &answer.warnings {
            tracing::warn!(resource, "{}", context.secrets().redact(warning));
        }
        let memory = context.memory::<Memory>();
        memory.wake_after(answer.requeue_after);
        self.hide(&known, &answer.state, context);
        let amiss = match (answer.state, self.is_deleted()) {
            (State::Stale(Stale { now: None, .. }), true) => {
                return Ok(Found::Valid(Map::new().into()));
            }
            (State::Valid(state), false) => return Ok(Found::Valid(Value::Object(state))),
            (State::Valid(now) | State::Stale(Stale { now: Some(now), .. }), true) => {
                *memory.stale.lock() = now.clone();
                let amiss = Amiss::new(Some(now.into())).differs("state", "exists", "absent");
                amiss.action(delete(&known)?)
            }
            (State::Stale(stale), false) => {
                *memory.stale.lock() = stale.now.clone().unwrap_or_default();
                self.amiss(stale, &known)?
            }
        };
        memory.wanted.lock().clone_from(&amiss.actions);
        Ok(Found::Stale(amiss))
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        let known = self.known(context).await?;
        let mut input = self.input(&action.name, &known, context);
        let memory = context.memory::<Memory>();
        if !memory.wanted.lock().contains(action) {
            return Err(format!("no check has asked for the action \"{}\"", action.name).into());
        }
        let stale = memory.stale.lock().clone();
        input["staleState"] = Value::Object(stale);
        let spec = action.arguments.iter().filter(|(name, _)| CALL.contains(&name.as_str()));
        let spec = spec.map(|(name, value)| (name.clone(), value.clone())).collect();
        let spec: CallSpec = serde_json::from_value(Value::Object(spec))?;
        let say = |line: &str| context.said(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(&spec, context).await?;
        let timeout = known.init.timeouts.1.unwrap_or(self.settings().action_timeout);
        let how = (&spec, action.name.as_str(), timeout);
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

    async fn reversal(&self, context: &Context) -> Result<Option<Config>, BoxError> {
        let known = self.known(context).await?;
        let Some(spec) = &known.init.calls.reverse else { return Ok(None) };
        let input = self.input("reverse", &known, context);
        let say = |line: &str| context.log(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(spec, context).await?;
        let how = (spec, "reverse", self.look_timeout(&known));
        let call = self.call(how, (&known, &input), (context, &prepared));
        let answer = caller.ask(&call).await?;
        let resource = context.name();
        match answer.get("config") {
            Some(Value::Object(config)) => Ok(Some(config.clone())),
            Some(Value::Null) => {
                let mut config = self.config.clone();
                config.insert(DELETED.to_owned(), true.into());
                Ok(Some(config))
            }
            _ => Err(format!(
                "protocol error: '{resource}' reverse result has no 'config' that is an object or null"
            )
            .into()),
        }
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let known = self.known(context).await?;
        if !known.init.is_v1 {
            return Ok(Watch::never());
        }
        let (sender, receiver) = context.memory::<Memory>().listen();
        if let Some(spec) = known.init.calls.watch.clone() {
            let prepared = self.prepare(&spec, context).await?;
            let watch = Watched {
                resource: context.name().to_owned(),
                folder: context.folder().to_owned(),
                input: self.input("watch", &known, context),
                settings: Arc::clone(&self.kind.shared.settings),
                ledger: context.ledger().cloned(),
                stop: context.stop().clone(),
                secrets: context.secrets().clone(),
                known,
                prepared,
                spec,
            };
            context.memory::<Memory>().follow(watch.follow(sender));
        }
        Ok(Watch::never().signals(receiver))
    }
}

/// A watch that is followed.
struct Watched {
    resource: String,
    folder: PathBuf,
    input: Value,
    settings: Arc<Settings>,
    ledger: Option<Ledger>,
    stop: Stop,
    secrets: Secrets,
    known: Arc<Known>,
    prepared: Prepared,
    spec: CallSpec,
}

impl Watched {
    /// Follows it to its end, or until nobody wants its signals any more.
    async fn follow(self, signals: Sender<Signal>) {
        let Self { resource, secrets, .. } = &self;
        let say = |line: &str| {
            let line = secrets.redact(line);
            tracing::debug!(resource, %line, "a watch said");
        };
        // If there is no room, a signal is there already.
        let event = |_: &str| drop(signals.try_send(Ok(())));
        let caller = Caller {
            settings: &self.settings,
            ledger: self.ledger.as_ref(),
            stop: &self.stop,
            told: Some(&say),
        };
        let call = Call {
            resource,
            phase: "watch",
            runner: &self.prepared.runner,
            entrypoint: self.spec.entrypoint.as_deref(),
            args: &self.spec.args,
            input: &self.input,
            workspace: &self.folder,
            work: self.prepared.work.as_deref(),
            mounts: &self.known.mounts,
            has_network: self.known.init.has_network,
            timeout: FOR_EVER,
        };
        let ended = tokio::select! {
            biased;
            () = signals.closed() => return,
            ended = caller.follow(&call, &event) => ended,
        };
        drop(signals.send(Err(ended.into())).await);
    }
}

/// Returns the action that deletes a resource.
fn delete(known: &Known) -> Result<Action, String> {
    let spec = known.init.calls.delete.clone().ok_or(
        "protocol error: it is to be deleted, and its type does not say how (calls.delete)",
    )?;
    let (name, description) = ("delete".to_owned(), Some("Delete it".to_owned()));
    Ok(action(&ActionSpec { name, description, call: spec, changes: vec!["state".to_owned()] }))
}

/// What a call needs beside what it says itself.
#[derive(Debug)]
struct Prepared {
    runner: Runner,
    work: Option<PathBuf>,
}

impl External {
    fn input(&self, call: &str, known: &Known, context: &Context) -> Value {
        let who = (context.name(), &*self.kind.name);
        let mut input = self.kind.shared.input(who, context.folder());
        let mut config = self.config.clone();
        config.remove(DELETED);
        input["config"] = Value::Object(config);
        if known.init.is_v1 {
            let used = context.dependencies().iter().map(|used| {
                let state = match &used.state {
                    DependencyState::Known(state) | DependencyState::Foreseen(state) => &**state,
                    _ => &Value::Null,
                };
                (used.alias.clone(), json!({"name": used.resource, "state": state}))
            });
            input["protocol"] = 1.into();
            input["call"] = call.into();
            input["dependencies"] = Value::Object(used.collect());
        }
        input
    }

    fn is_deleted(&self) -> bool {
        self.config.contains_key(DELETED)
    }

    fn look_timeout(&self, known: &Known) -> Duration {
        known.init.timeouts.0.unwrap_or(self.settings().look_timeout)
    }

    /// Takes what the type says is secret for secrets.
    fn hide(&self, known: &Known, state: &State, context: &Context) {
        let (of_configs, of_states) = &known.init.sensitive;
        let hide = |values: &Map<String, Value>, pointers: &[String]| {
            let values = Value::Object(values.clone());
            for value in pointers.iter().filter_map(|pointer| values.pointer(pointer)) {
                add_secret(value, context.secrets());
            }
        };
        hide(&self.config, of_configs);
        match state {
            State::Valid(state) => hide(state, of_states),
            State::Stale(Stale { now, planned, .. }) => {
                now.iter().chain(planned).for_each(|state| hide(state, of_states));
            }
        }
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
            dependencies: None,
            ledger: context.ledger(),
            stop: context.stop(),
        };
        let said = shared.ask(asking).await?;
        let said = Arc::new(said);
        known.write().insert(context.name().to_owned(), Arc::clone(&said));
        Ok(said)
    }

    /// Judges the config as a whole.
    fn judge(&self, known: &Known, context: &Context) -> Result<(), BoxError> {
        let Some(schema) = known.schema.as_ref().filter(|_| !self.is_deleted()) else {
            return Ok(());
        };
        let config = Value::Object(self.config.clone());
        let errors = schema.errors(context.name(), (&config, &BTreeSet::new()));
        let errors: Vec<_> = errors.into_iter().map(|error| error.message).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ").into()) }
    }

    /// Returns what a call needs beside what it says itself.
    async fn prepare(&self, spec: &CallSpec, context: &Context) -> Result<Prepared, String> {
        let runner = self.runner(spec, context.folder()).await?;
        let work = match runner {
            Runner::Program(_) => None,
            Runner::Container { .. } => work(context).await,
        };
        Ok(Prepared { runner, work })
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
            has_network: known.init.has_network,
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
            identity(&runner, settings).await.map_err(|error| error.to_string())?;
        }
        Ok(runner)
    }

    /// Returns what differs, as far as the type has told it, and what would mend it.
    fn amiss(&self, stale: Stale, known: &Known) -> Result<Amiss, String> {
        let Stale { now, mut differences, planned, is_replaced, actions } = stale;
        if differences.is_empty() {
            differences = match &now {
                None => vec![Difference::new("state", "absent".into(), "exists".into())],
                Some(now) => self.differences(now),
            };
        }
        let amiss = Amiss::new(now.map(Value::Object));
        let mut amiss = differences.into_iter().fold(amiss, Amiss::difference);
        if let Some(planned) = planned {
            amiss = amiss.after(Value::Object(planned));
        }
        let first = is_replaced.then(|| delete(known)).transpose()?;
        let actions = first.into_iter().chain(actions.iter().map(action));
        Ok(actions.fold(amiss, Amiss::action))
    }

    /// Returns the attributes of the config that a state has with another value.
    fn differences(&self, now: &Map<String, Value>) -> Vec<Difference> {
        let differing = self.config.iter().filter_map(|(name, wanted)| {
            let is = now.get(name).filter(|is| *is != wanted)?;
            Some(Difference::new(name, is.clone(), wanted.clone()))
        });
        differing.collect()
    }
}

/// Returns an action as it is shown and saved.
fn action(spec: &ActionSpec) -> Action {
    let mut action = Action::new(&spec.name);
    if let Some(description) = &spec.description {
        action = action.with("description", description.as_str());
    }
    action = spec.changes.iter().fold(action, |action, attribute| action.changing(attribute));
    let call = serde_json::to_value(&spec.call).unwrap_or_default();
    let Value::Object(call) = call else { return action };
    call.into_iter().fold(action, |action, (name, value)| action.with(&name, value))
}

/// Returns the folder of a resource's own, if it has one. A plan makes none.
async fn work(context: &Context) -> Option<PathBuf> {
    let context = context.clone();
    let folder = blocking(move || -> Result<_, BoxError> {
        // An engine takes a relative path for the name of a volume.
        let folder = std::path::absolute(context.private_folder()?)?;
        Ok(folder.is_dir().then_some(folder))
    });
    folder.await.ok().flatten()
}
