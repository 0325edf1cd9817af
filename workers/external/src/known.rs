//! What is known of a type once it has said how it works.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::{Stop, WithCauses};
use crankcase_workers::Ledger;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cache::{identity, keep, recall};
use crate::call::{Call, Caller};
use crate::containers::end_leftovers;
use crate::messages::{Init, Wanted};
use crate::plugs::{Mount, Plugs};
use crate::schema::ConfigSchema;
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::unknown::Unknown;
use crate::v0;

/// What a type has said of a resource.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) init: Init,
    pub(crate) schema: Option<Arc<ConfigSchema>>,
    pub(crate) mounts: Vec<Mount>,
}

/// What all kinds of a manifest share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) plugs: Plugs,
    /// Set once what a killed agent has left was ended.
    leftovers: OnceCell<()>,
    /// What types of protocol 1 have said, by their names: it is the same for all of their resources.
    answers: Mutex<HashMap<String, Value>>,
    /// Their schemas, read.
    schemas: Mutex<HashMap<String, Arc<ConfigSchema>>>,
    /// The programs and images beside the types that are known to be there.
    others: Mutex<BTreeSet<Runner>>,
}

/// Who asks a type how it works.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) resource: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) runner: &'a Runner,
    pub(crate) folder: &'a Path,
    /// The aliases of what the resource depends on, each with its type, if that is known.
    pub(crate) dependencies: Option<&'a [(String, String)]>,
    pub(crate) ledger: Option<&'a Ledger>,
    pub(crate) stop: &'a Stop,
}

impl Shared {
    pub(crate) fn new(settings: Arc<Settings>, plugs: Plugs) -> Self {
        Self {
            settings,
            plugs,
            leftovers: OnceCell::new(),
            answers: Mutex::default(),
            schemas: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Ends what an agent has left that was killed. Only one that holds the state folder may.
    pub(crate) async fn end_leftovers(&self) {
        let Some(state) = &self.settings.state else { return };
        let end = || async {
            for container in end_leftovers(state).await {
                tracing::warn!(container, "container was left behind");
            }
        };
        self.leftovers.get_or_init(end).await;
    }

    /// Asks a type how it works, unless that is known.
    pub(crate) async fn ask(&self, asking: Asking<'_>) -> Result<Known, Unknown> {
        let Asking { resource, kind, dependencies, .. } = asking;
        let answer = self.answer(asking).await?;
        let init = Init::read(answer).map_err(|wrong| {
            Unknown::Type(vec![format!(
                "protocol error: '{resource}' initialization result failed validation: {wrong}"
            )])
        })?;
        let mut errors = match (&init.dependencies, dependencies) {
            (Some(wanted), Some(given)) => judge_dependencies(resource, wanted, given),
            _ => Vec::new(),
        };
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
            true => Ok(Known { init, schema, mounts }),
            false => Err(Unknown::Type(errors)),
        }
    }

    /// Reads the schema of a type; of one of protocol 1 once for all of its resources.
    fn schema(
        &self,
        (resource, kind): (&str, &str),
        init: &Init,
    ) -> Result<Option<Arc<ConfigSchema>>, String> {
        let Some(schema) = &init.config_schema else { return Ok(None) };
        let read = init.is_v1.then(|| self.schemas.lock().get(kind).cloned()).flatten();
        if read.is_some() {
            return Ok(read);
        }
        let schema = Arc::new(ConfigSchema::read(schema)?);
        if let Some(warning) = &schema.warning {
            tracing::warn!(resource, kind, "its config_schema: {warning}");
        }
        if init.is_v1 {
            self.schemas.lock().insert(kind.to_owned(), Arc::clone(&schema));
        }
        Ok(Some(schema))
    }

    /// Requires that a program or an image is there that is called beside a type, which is looked for once.
    pub(crate) async fn require(&self, runner: &Runner, stop: &Stop) -> Result<(), Unknown> {
        if !self.others.lock().contains(runner) {
            identity(runner, (&self.settings, stop)).await?;
            self.others.lock().insert(runner.clone());
        }
        Ok(())
    }

    async fn answer(&self, asking: Asking<'_>) -> Result<Value, Unknown> {
        let Asking { resource, kind, runner, folder, ledger, stop, .. } = asking;
        let said = self.answers.lock().get(kind).cloned();
        if let Some(answer) = said {
            return Ok(answer);
        }
        let settings = &*self.settings;
        let (input, of_all) =
            (self.input((resource, kind), folder), self.input(("", kind), folder));
        let identity = identity(runner, (settings, stop)).await?;
        let cache = settings.cache.as_deref();
        if let Some(answer) = recall(cache, &identity, &of_all) {
            self.answers.lock().insert(kind.to_owned(), answer.clone());
            return Ok(answer);
        }
        if let Some(answer) = recall(cache, &identity, &input) {
            return Ok(answer);
        }
        let say = |line: &str| tracing::info!(resource, line, "a type said");
        let caller = Caller { settings, ledger, stop, told: Some(&say) };
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
            timeout: settings.look_timeout,
        };
        let answer = caller.ask(&call).await.map_err(|error| {
            let text = WithCauses(&error).to_string();
            if error.is_of_machine(runner) {
                Unknown::Machine(text)
            } else {
                Unknown::Type(vec![text])
            }
        })?;
        // An answer that is wrong may be another one next time.
        match Init::read(answer.clone()) {
            Ok(init) if init.is_v1 => {
                keep(cache, (&identity, &of_all), &answer);
                self.answers.lock().insert(kind.to_owned(), answer.clone());
            }
            Ok(_) => keep(cache, (&identity, &input), &answer),
            Err(_) => {}
        }
        Ok(answer)
    }

    /// Returns what every call of a type is told of its resource by protocol 0.
    pub(crate) fn input(&self, who: (&str, &str), folder: &Path) -> Value {
        let Settings { version, is_verbose, .. } = &*self.settings;
        v0::input(who, (version, *is_verbose), &folder.to_string_lossy())
    }
}

/// Says which dependencies a type does not want, or lacks.
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
