//! The answers of types to the question how they work.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crankcase_engine::{Stop, WithCauses};
use crankcase_resources::BoxError;
use crankcase_workers::Ledger;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cache::{Kept, Question, identity};
use crate::call::{Call, CallError};
use crate::call_record::{CallRecord, end_left};
use crate::calls::{Caller, Calls};
use crate::containers::end_leftovers;
use crate::messages::{Init, Wanted};
use crate::plugs::{Mount, Plugs};
use crate::schema::ConfigSchema;
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::unknown::Unknown;
use crate::v0;

/// The answer of a type about a resource.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) init: Init,
    pub(crate) schema: Option<Arc<ConfigSchema>>,
    pub(crate) mounts: Vec<Mount>,
    /// Whether the answer is an earlier one: the type may have changed since then.
    pub(crate) is_kept: bool,
}

impl Known {
    /// Returns an error with that hint.
    pub(crate) fn explained(&self, error: BoxError) -> BoxError {
        match self.hint() {
            "" => error,
            hint => format!("{}{hint}", WithCauses(&*error)).into(),
        }
    }

    /// Returns the hint after an error that may be due to an earlier answer; empty if the answer is new.
    pub(crate) fn hint(&self) -> &'static str {
        hint(self.is_kept)
    }
}

fn hint(is_kept: bool) -> &'static str {
    if is_kept {
        "; how its type works was answered before, and is asked again with --refresh-types"
    } else {
        ""
    }
}

/// The state that all kinds of a manifest share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) calls: Calls,
    pub(crate) plugs: Plugs,
    /// The record of the calls that no agent makes.
    pub(crate) record: CallRecord,
    /// The answers of types to earlier loads.
    kept: Arc<Kept>,
    /// Set when the leftovers of a killed agent have ended.
    leftovers: OnceCell<()>,
    /// The answers of types of protocol 1, by the names of the types: all resources of a type share one.
    answers: Mutex<HashMap<String, Answered>>,
    /// The schemas of all types that were read, by their texts.
    schemas: Mutex<HashMap<String, Arc<ConfigSchema>>>,
    /// The programs and images beside the types that are known to be there.
    others: Mutex<BTreeSet<Runner>>,
}

/// The answer of a type to the question how it works.
#[derive(Debug, Clone)]
struct Answered {
    answer: Value,
    /// Whether it is the answer to an earlier load.
    is_kept: bool,
}

/// The question how a type works.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) resource: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) runner: &'a Runner,
    pub(crate) folder: &'a Path,
    /// The aliases of what the resource depends on, each with its type, if that is known.
    pub(crate) dependencies: Option<&'a [(String, String)]>,
    /// The ledger of the agent that asks, if there is one.
    pub(crate) ledger: Option<&'a Ledger>,
    pub(crate) stop: &'a Stop,
    /// How long the answer may take, if the resource says so.
    pub(crate) timeout: Option<Duration>,
}

impl Shared {
    pub(crate) fn new(
        settings: Arc<Settings>,
        (calls, kept): (Calls, Arc<Kept>),
        plugs: Plugs,
    ) -> Self {
        let record = CallRecord::new(settings.record());
        Self {
            settings,
            calls,
            plugs,
            record,
            kept,
            leftovers: OnceCell::new(),
            answers: Mutex::default(),
            schemas: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Ends the leftovers of a killed agent. Only the holder of the state folder may do this.
    pub(crate) async fn end_leftovers(&self) {
        let Some(state) = &self.settings.state else { return };
        let end = || async {
            end_left(state).await;
            for container in end_leftovers(state, self.settings.engine_timeout).await {
                tracing::warn!(container, "container was left behind");
            }
        };
        self.leftovers.get_or_init(end).await;
    }

    /// Asks a type how it works, unless its answer is known.
    pub(crate) async fn ask(&self, asking: Asking<'_>) -> Result<Known, Unknown> {
        let Asking { resource, kind, runner, folder, dependencies, .. } = asking;
        let Answered { answer, is_kept } = self.answer(asking).await?;
        let init = Init::read(answer).map_err(|wrong| {
            Unknown::Type(vec![format!(
                "protocol error: '{resource}' initialization result failed validation: {wrong}"
            )])
        })?;
        let mut errors = match (&init.dependencies, dependencies) {
            (Some(wanted), Some(given)) => judge_dependencies(resource, wanted, given),
            _ => Vec::new(),
        };
        let wrong = wrong_references(&init, runner, (folder, &self.settings));
        errors.extend(wrong.into_iter().map(|wrong| {
            format!("protocol error: '{resource}' initialization result failed validation: {wrong}")
        }));
        let mounts = self.plugs.give((resource, kind), &init.plugs);
        let mounts = mounts.unwrap_or_else(|wrong| {
            errors.extend(wrong);
            Vec::new()
        });
        let schema = self.schema((resource, kind), &init);
        let schema = schema.unwrap_or_else(|wrong| {
            errors.push(format!(
                "protocol error: the config_schema of '{resource}' is no schema: {wrong}"
            ));
            None
        });
        match errors.is_empty() {
            true => Ok(Known { init, schema, mounts, is_kept }),
            false => {
                let hint = hint(is_kept);
                Err(Unknown::Type(errors.into_iter().map(|error| error + hint).collect()))
            }
        }
    }

    /// Reads the schema of a type, once for all resources that have the same.
    fn schema(
        &self,
        (resource, kind): (&str, &str),
        init: &Init,
    ) -> Result<Option<Arc<ConfigSchema>>, String> {
        let Some(schema) = &init.config_schema else { return Ok(None) };
        let text = schema.to_string();
        let read = self.schemas.lock().get(&text).cloned();
        if read.is_some() {
            return Ok(read);
        }
        let schema = Arc::new(ConfigSchema::read(schema)?);
        if let Some(warning) = &schema.warning {
            tracing::warn!(resource, kind, "its config_schema: {warning}");
        }
        self.schemas.lock().insert(text, Arc::clone(&schema));
        Ok(Some(schema))
    }

    /// Requires that a program or an image beside a type is there. Looks for each of them once.
    pub(crate) async fn require(
        &self,
        runner: &Runner,
        (ledger, stop): (Option<&Ledger>, &Stop),
    ) -> Result<(), Unknown> {
        if !self.others.lock().contains(runner) {
            identity(runner, &self.caller(ledger, stop)).await?;
            self.others.lock().insert(runner.clone());
        }
        Ok(())
    }

    /// Returns a caller that gets no lines of the program.
    pub(crate) fn caller<'a>(
        &'a self,
        agent_ledger: Option<&'a Ledger>,
        stop: &'a Stop,
    ) -> Caller<'a> {
        let Self { settings, calls, record, .. } = self;
        Caller { settings, calls, agent_ledger, record, stop, told: None }
    }

    async fn answer(&self, asking: Asking<'_>) -> Result<Answered, Unknown> {
        let Asking { resource, kind, runner, folder, ledger, stop, timeout, .. } = asking;
        let said = self.answers.lock().get(kind).cloned();
        if let Some(said) = said {
            return Ok(said);
        }
        let settings = &*self.settings;
        let (input, of_all) =
            (self.input((resource, kind), folder), self.input(("", kind), folder));
        let caller = self.caller(ledger, stop);
        let identity = identity(runner, &caller).await?;
        let of_all = Question { runner, identity: &identity, input: &of_all };
        let of_one = Question { input: &input, ..of_all };
        if let Some(answer) = self.kept.recall(&caller, of_all).await {
            let said = Answered { answer, is_kept: true };
            self.answers.lock().insert(kind.to_owned(), said.clone());
            return Ok(said);
        }
        if let Some(answer) = self.kept.recall(&caller, of_one).await {
            return Ok(Answered { answer, is_kept: true });
        }
        #[expect(clippy::disallowed_methods, reason = "it is compared with the times of files")]
        let began = SystemTime::now();
        let say = |line: &str| tracing::info!(resource, line, "a type said");
        let caller = Caller { told: Some(&say), ..caller };
        let call = Call {
            resource,
            phase: "init",
            runner,
            entrypoint: None,
            args: &[],
            input: &input,
            workspace: folder,
            work: None,
            mounts: &[],
            has_network: true,
            timeout: timeout.map_or(settings.look_timeout, |it| it.min(settings.look_timeout)),
        };
        let answer = caller.ask(&call).await.map_err(|error| {
            let text = WithCauses(&error).to_string();
            match error {
                CallError::TimedOut { .. } => Unknown::Late(text),
                error if error.is_of_machine(runner) => Unknown::Machine(text),
                _ => Unknown::Type(vec![text]),
            }
        })?;
        let said = Answered { answer, is_kept: false };
        // A wrong answer may be followed by another one next time.
        match Init::read(said.answer.clone()) {
            Ok(init) if init.is_v1 => {
                self.kept.keep(&caller, (of_all, began), &said.answer).await;
                self.answers.lock().insert(kind.to_owned(), said.clone());
            }
            Ok(_) => self.kept.keep(&caller, (of_one, began), &said.answer).await,
            Err(_) => {}
        }
        Ok(said)
    }

    /// Returns the input that every call of a type gets by protocol 0, about its resource.
    pub(crate) fn input(&self, who: (&str, &str), folder: &Path) -> Value {
        let Settings { version, is_verbose, .. } = &*self.settings;
        v0::input(who, (version, *is_verbose), &folder.to_string_lossy())
    }
}

/// Returns the errors about images, and about places in a container, that an answer names.
fn wrong_references(
    init: &Init,
    runner: &Runner,
    (folder, settings): (&Path, &Settings),
) -> Vec<String> {
    let calls = init.named_calls().filter_map(|(name, call)| {
        let image = call.image.as_deref()?;
        let wrong = runner.of_call(image, folder, settings).err()?;
        Some(format!("{name}: the image \"{image}\": {wrong}"))
    });
    let is_container = matches!(runner, Runner::Container { .. });
    let plugs = init.plugs.iter().filter(|(_, plug)| {
        is_container && (!plug.path.starts_with('/') || plug.path.contains(':'))
    });
    let plugs = plugs.map(|(name, plug)| {
        let path = &plug.path;
        format!("plug '{name}': \"{path}\" is no absolute path without a : in it")
    });
    calls.chain(plugs).collect()
}

/// Returns the errors about dependencies that a type does not want, or lacks.
fn judge_dependencies(
    resource: &str,
    wanted: &BTreeMap<String, Wanted>,
    given: &[(String, String)],
) -> Vec<String> {
    let mut errors = Vec::new();
    for (alias, kind) in given {
        match wanted.get(alias) {
            None => errors.push(format!("'{resource}' does not accept dependencies: '{alias}'")),
            Some(Wanted { kind: Some(right), .. }) if untagged(kind) != untagged(right) => {
                errors.push(format!(
                    "the dependency '{alias}' of '{resource}' is of type {kind}, and has to be of \
                     type {right}"
                ));
            }
            Some(_) => {}
        }
    }
    let is_given = |alias: &str| given.iter().any(|(given, _)| given == alias);
    let missing = wanted.iter().filter(|(alias, wanted)| !wanted.optional && !is_given(alias));
    errors.extend(missing.map(|(alias, _)| format!("'{resource}' lacks the dependency '{alias}'")));
    errors
}

/// Returns a type without its tag and digest.
fn untagged(kind: &str) -> &str {
    let name = kind.split('@').next().unwrap_or(kind);
    match name.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') && name.contains('/') => name,
        _ => name,
    }
}
