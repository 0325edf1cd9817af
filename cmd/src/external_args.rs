//! How types that are programs or containers are run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use clap::ValueEnum;
use crankcase_external::{External, Pull, Settings};
use crankcase_kinds::with_facts;
use crankcase_resources::Kinds;
use crankcase_resources::front::{KindRequest, KindSource, RequestError, WantedKind};
use serde::{Deserialize, Serialize};

use crate::calls::calls;
use crate::exit::{ExitError, FAILED, INVALID};
use crate::global::Global;

/// Where the options stand in the help.
const HEADING: &str = "External types";

/// How types that are programs or containers are run.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ExternalArgs {
    /// What runs the images of types that name no engine: a program, and words that come before its
    /// subcommands [default: docker]
    #[arg(help_heading = HEADING, long, value_name = "COMMAND")]
    engine: Option<String>,
    /// What comes after `run` of the engine, such as --ulimit=nofile=1024:1024; may be given again
    #[arg(help_heading = HEADING, long = "engine-option", value_name = "WORD", allow_hyphen_values = true)]
    engine_options: Vec<String>,
    /// When images are pulled [default: missing]
    #[arg(help_heading = HEADING, long, value_enum, value_name = "WHEN")]
    pull: Option<When>,
    /// The network of containers of protocol 0, such as none or host [default: the engine's own]
    #[arg(help_heading = HEADING, long, value_name = "NETWORK")]
    network: Option<String>,
    /// A folder that types of protocol 0 can read at its own path, and whose vars.*.auto.yaml set
    /// variables, as Deployster's conf [default: none]
    #[arg(help_heading = HEADING, long, value_name = "DIR")]
    conf: Option<PathBuf>,
    /// Ask each type again how it works, and use no answer that was kept
    #[arg(help_heading = HEADING, long)]
    #[serde(skip)]
    refresh_types: bool,
    /// The version that types of protocol 0 are told [default: 18.0.0]
    #[arg(help_heading = HEADING, long, value_name = "VERSION")]
    protocol_version: Option<String>,
}

/// Why external types are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To look. Nothing is on record where there is no state folder.
    Look,
    /// To make the machine as declared.
    Apply,
    /// To keep it as declared. A type that cannot be asked how it works concerns its resources alone.
    Keep,
}

/// When images are pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum When {
    /// When they are not there
    Missing,
    /// Each time that a manifest is loaded
    Always,
    /// Never
    Never,
}

impl ExternalArgs {
    /// Asks a type how it works. Returns the built-in kinds with it, and its name; nothing if it is none of
    /// a program.
    pub(crate) fn ask(
        &self,
        global: &Global,
        name: &str,
    ) -> anyhow::Result<Option<(Kinds, String)>> {
        let folder = std::env::current_dir().context("there is no working directory")?;
        let source = Arc::new(self.source((None, global.verbose > 0), Purpose::Look));
        let named = source.name(name, &folder).map_err(|wrong| ExitError::new(INVALID, wrong))?;
        let Some(name) = named else { return Ok(None) };
        let mut kinds = with_facts().from_source(source);
        let wanted = WantedKind::new(&name, "sample", folder);
        let errors = kinds.make(&KindRequest::new(vec![wanted], Vec::new()));
        if errors.is_empty() {
            return Ok(Some((kinds, name)));
        }
        let is_of_machine = errors.iter().all(|(at, _)| matches!(at, RequestError::Machine(_)));
        let wrong: Vec<_> = errors.into_iter().map(|(_, error)| error).collect();
        let code = if is_of_machine { FAILED } else { INVALID };
        Err(ExitError::new(code, wrong.join("\n")).into())
    }

    /// Returns the folder of Deployster's kind, if one is named.
    pub(crate) fn conf(&self) -> Option<&Path> {
        self.conf.as_deref()
    }

    /// Returns the version that types of protocol 0 are told.
    pub(crate) fn version(&self) -> String {
        self.protocol_version.clone().unwrap_or_else(|| Settings::default().version)
    }

    /// Returns the same with paths that hold in every folder.
    pub(crate) fn absolute(&self) -> io::Result<Self> {
        let conf = self.conf.as_ref().map(std::path::absolute).transpose()?;
        Ok(Self { conf, ..self.clone() })
    }

    /// Returns what makes kinds of them, for an agent with this state folder.
    ///
    pub(crate) fn source(
        &self,
        (state, is_verbose): (Option<&Path>, bool),
        purpose: Purpose,
    ) -> External {
        let mut settings = Settings::default();
        if let Some(engine) = &self.engine {
            settings.engine = engine.split_whitespace().map(str::to_owned).collect();
        }
        settings.run_options.clone_from(&self.engine_options);
        settings.pull = match self.pull {
            Some(When::Always) => Pull::Always,
            Some(When::Never) => Pull::Never,
            Some(When::Missing) | None => Pull::Missing,
        };
        settings.network.clone_from(&self.network);
        let conf = self.conf.as_ref();
        settings.conf = conf.and_then(|conf| std::path::absolute(conf).ok());
        settings.version = self.version();
        settings.is_verbose = is_verbose;
        settings.is_fresh = self.refresh_types;
        settings.is_lenient = purpose == Purpose::Keep;
        settings.makes_state = purpose != Purpose::Look;
        settings.state = state.and_then(|state| std::path::absolute(state).ok());
        settings.cache = settings.state.as_ref().map(|state| state.join("types"));
        External::new(settings).with_calls(calls())
    }
}
