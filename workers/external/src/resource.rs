//! One resource of a type.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, Found, Shape, Stale, Unit};
use crankcase_resources::front::{DependencyState, is_fact_alias};
use crankcase_resources::{Action, BoxError, Context, Difference, Unfinished, Watch, blocking};
use crankcase_workers::Told;
use serde_json::{Map, Value, json};

use crate::call::CallError;
use crate::calls::Caller;
use crate::external_type::ExternalType;
use crate::known::Known;
use crate::messages::{self, ActionSpec, Answer, CallSpec, State};
use crate::prepared::{Prepared, Watched};
use crate::type_name::Runner;
use crate::waking::Memory;

/// The arguments of an action that describe its call.
const CALL: [&str; 3] = ["image", "entrypoint", "args"];

/// One resource.
pub(crate) struct External {
    kind: Arc<ExternalType>,
    config: Config,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("External");
        shown.field("kind", &self.kind).field("config", &Shape::of_map(&self.config)).finish()
    }
}

/// The attribute that declares that a resource is not there. No person writes it: it comes of a reversal.
const DELETED: &str = "$deleted";

#[async_trait]
impl Unit for External {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let known = self.known(context).await?;
        self.look(&known, context).await.map_err(|error| known.explained(error))
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
        let prepared = self.prepare(&spec, &known, context).await?;
        let timeout = known.init.timeouts.1.unwrap_or(self.kind.settings().action_timeout);
        let call = prepared.call(context.name(), (&action.name, &input), timeout);
        let (output, ended) = caller.act(&call).await;
        context.log(&output);
        match ended {
            Ok(()) => Ok(()),
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
        let prepared = self.prepare(spec, &known, context).await?;
        let call = prepared.call(context.name(), ("reverse", &input), self.look_timeout(&known));
        let answer = caller.ask(&call).await.map_err(|error| known.explained(error.into()))?;
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

    fn programs(&self) -> Vec<PathBuf> {
        match &self.kind.runner {
            Runner::Program(path) => vec![path.clone()],
            Runner::Container { .. } => Vec::new(),
        }
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let known = self.known(context).await?;
        if !known.init.is_v1 {
            return Ok(Watch::never());
        }
        let (sender, receiver) = context.memory::<Memory>().listen();
        if let Some(spec) = &known.init.calls.watch {
            let watch = Watched {
                resource: context.name().to_owned(),
                input: self.input("watch", &known, context),
                shared: Arc::clone(&self.kind.shared),
                ledger: context.ledger().cloned(),
                stop: context.stop().clone(),
                secrets: context.secrets().clone(),
                prepared: self.prepare(spec, &known, context).await?,
            };
            context.memory::<Memory>().follow(watch.follow(sender));
        }
        Ok(Watch::never().signals(receiver))
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

impl External {
    pub(crate) fn new(kind: Arc<ExternalType>, config: Config) -> Self {
        Self { kind, config }
    }

    /// Returns how the type works for the resource. From here on the values of the config that the
    /// type calls secret are hidden: before anything is sent to it, or said of it.
    async fn known(&self, context: &Context) -> Result<Arc<Known>, BoxError> {
        let known = self.kind.ask(context).await?;
        known.init.hide(&self.config, context.secrets());
        Ok(known)
    }

    /// Looks at the resource.
    async fn look(&self, known: &Arc<Known>, context: &Context) -> Result<Found, BoxError> {
        self.judge(known, context)?;
        let input = self.input("check", known, context);
        let say = |line: &str| context.log(line);
        let caller = self.caller(context, Some(&say));
        let prepared = self.prepare(&known.init.calls.check, known, context).await?;
        let phase = if known.init.is_v1 { "check" } else { "state" };
        let call = prepared.call(context.name(), (phase, &input), self.look_timeout(known));
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
        answer.state.hide(&known.init, context.secrets());
        let amiss = if self.is_deleted() {
            let (State::Valid(now) | State::Stale(messages::Stale { now: Some(now), .. })) =
                answer.state
            else {
                return Ok(Found::Valid(Map::new().into()));
            };
            *memory.stale.lock() = now.clone();
            let amiss = Stale::new(Some(now.into())).differs("state", "exists", "absent");
            amiss.action(delete(known)?)
        } else {
            match answer.state {
                State::Valid(state) => return Ok(Found::Valid(Value::Object(state))),
                State::Stale(stale) => {
                    *memory.stale.lock() = stale.now.clone().unwrap_or_default();
                    self.amiss(stale, known, context)?
                }
            }
        };
        memory.wanted.lock().clone_from(&amiss.actions);
        Ok(Found::Stale(amiss))
    }

    fn input(&self, call: &str, known: &Known, context: &Context) -> Value {
        let who = (context.name(), &*self.kind.name);
        let mut input = self.kind.shared.input(who, context.folder());
        let mut config = self.config.clone();
        config.remove(DELETED);
        input["config"] = Value::Object(config);
        if known.init.is_v1 {
            let used = context.dependencies().iter().filter(|used| !is_fact_alias(&used.alias));
            let used = used.map(|used| {
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
        known.init.timeouts.0.unwrap_or(self.kind.settings().look_timeout)
    }

    fn caller<'a>(&'a self, context: &'a Context, told: Option<Told<'a>>) -> Caller<'a> {
        Caller { told, ..self.kind.shared.caller(context.ledger(), context.stop()) }
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

    /// Prepares a call, except for its input.
    async fn prepare(
        &self,
        spec: &CallSpec,
        known: &Arc<Known>,
        context: &Context,
    ) -> Result<Prepared, String> {
        let runner = self.runner(spec, context).await?;
        let work = match runner {
            Runner::Program(_) => None,
            Runner::Container { .. } => work(context).await,
        };
        let (spec, known) = (spec.clone(), Arc::clone(known));
        Ok(Prepared { runner, spec, known, workspace: context.folder().to_owned(), work })
    }

    async fn runner(&self, spec: &CallSpec, context: &Context) -> Result<Runner, String> {
        let Some(image) = &spec.image else { return Ok(self.kind.runner.clone()) };
        let runner = self.called(image, context)?;
        if runner != self.kind.runner {
            let who = (context.ledger(), context.stop());
            let found = self.kind.shared.require(&runner, who).await;
            found.map_err(|error| error.to_string())?;
        }
        Ok(runner)
    }

    /// Returns the runner of an image that a call names.
    fn called(&self, image: &str, context: &Context) -> Result<Runner, String> {
        let runner = self.kind.runner.of_call(image, context.folder(), self.kind.settings());
        runner.map_err(|wrong| format!("protocol error: the image \"{image}\": {wrong}"))
    }

    /// Returns the differences, as far as the type has told them, and the actions that would remove
    /// them.
    fn amiss(
        &self,
        stale: messages::Stale,
        known: &Known,
        context: &Context,
    ) -> Result<Stale, String> {
        let messages::Stale { now, mut differences, planned, is_replaced, actions } = stale;
        // Checked before the first of them is done.
        for image in actions.iter().filter_map(|action| action.call.image.as_deref()) {
            self.called(image, context)?;
        }
        if differences.is_empty() {
            differences = match &now {
                None => vec![Difference::new("state", "absent".into(), "exists".into())],
                Some(now) => self.differences(now),
            };
        }
        let amiss = Stale::new(now.map(Value::Object));
        let mut amiss = differences.into_iter().fold(amiss, Stale::difference);
        if let Some(planned) = planned {
            amiss = amiss.after(Value::Object(planned));
        }
        let first = is_replaced.then(|| delete(known)).transpose()?;
        let actions = first.into_iter().chain(actions.iter().map(action));
        Ok(actions.fold(amiss, Stale::action))
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

/// Returns the resource's own folder, if it has one. A plan makes none.
async fn work(context: &Context) -> Option<PathBuf> {
    let context = context.clone();
    let folder = blocking(move || -> Result<_, BoxError> {
        // An engine takes a relative path for the name of a volume.
        let folder = std::path::absolute(context.private_folder()?)?;
        Ok(folder.is_dir().then_some(folder))
    });
    folder.await.ok().flatten()
}
