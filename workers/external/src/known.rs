//! What is known of a type once it has said how it works.

use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_workers::Ledger;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cache::{identity, keep, recall};
use crate::call::{Call, Caller};
use crate::containers::end_leftovers;
use crate::plugs::{Mount, Plugs};
use crate::schema::ConfigSchema;
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::v0::{CallSpec, InitResult, init_input};

/// How the resources of a type are looked at.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) state: CallSpec,
    pub(crate) schema: Option<ConfigSchema>,
    pub(crate) mounts: Vec<Mount>,
}

/// What all kinds of a manifest share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) plugs: Plugs,
    /// Set once what a killed agent has left was ended.
    leftovers: OnceCell<()>,
}

/// Who asks a type how it works.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) resource: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) runner: &'a Runner,
    pub(crate) folder: &'a Path,
    pub(crate) ledger: Option<&'a Ledger>,
    pub(crate) stop: &'a Stop,
}

impl Shared {
    pub(crate) fn new(settings: Arc<Settings>, plugs: Plugs) -> Self {
        Self { settings, plugs, leftovers: OnceCell::new() }
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
    ///
    /// # Errors
    ///
    /// All that is wrong with its answer, or with what it asks for.
    pub(crate) async fn ask(&self, asking: Asking<'_>) -> Result<Known, Vec<String>> {
        let Asking { resource, kind, .. } = asking;
        let answer = self.answer(asking).await.map_err(|error| vec![error])?;
        let init = InitResult::read(answer).map_err(|wrong| {
            vec![format!(
                "protocol error: '{resource}' initialization result failed validation: {wrong}"
            )]
        })?;
        let mounts = self.plugs.give((resource, kind), &init.plugs)?;
        let schema = init.config_schema.map(|schema| ConfigSchema::read(&Value::Object(schema)));
        let schema = schema.transpose().map_err(|wrong| {
            vec![format!("protocol error: the config_schema of '{resource}' is no schema: {wrong}")]
        })?;
        if let Some(warning) = schema.as_ref().and_then(|schema| schema.warning.as_ref()) {
            tracing::warn!(resource, kind, "its config_schema: {warning}");
        }
        Ok(Known { state: init.state_action, schema, mounts })
    }

    async fn answer(&self, asking: Asking<'_>) -> Result<Value, String> {
        let Asking { resource, kind, runner, folder, ledger, stop } = asking;
        let settings = &*self.settings;
        let input = self.input((resource, kind), folder);
        let identity = identity(runner, settings).await?;
        let cache = settings.cache.as_deref();
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
            timeout: settings.look_timeout,
        };
        let answer = caller.ask(&call).await.map_err(|error| crate::kind::text(&error))?;
        // An answer that is wrong may be another one next time.
        if InitResult::read(answer.clone()).is_ok() {
            keep(cache, (&identity, &input), &answer);
        }
        Ok(answer)
    }

    /// Returns what every call of a type is told of its resource.
    pub(crate) fn input(&self, who: (&str, &str), folder: &Path) -> Value {
        let Settings { version, is_verbose, .. } = &*self.settings;
        init_input(who, (version, *is_verbose), &folder.to_string_lossy())
    }
}
