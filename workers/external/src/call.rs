//! One call of a program: JSON in, JSON or lines out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::{BoxError, cut_after};
use crankcase_workers::{Finished, Job, JobError, Ledger, ProcessConfig, Told, read_json};
use serde_json::Value;

use crate::containers::{Container, LABEL};
use crate::engine::ENVIRONMENT;
use crate::plugs::Mount;
use crate::settings::Settings;
use crate::type_name::Runner;

/// How many of the last lines of stderr an error shows, and how many characters of each.
const LAST_LINES: usize = 20;
const LAST_LINE: usize = 200;

/// How much of what is told line by line is told, in bytes: of a look, and of an action or a watch.
const LOOK_TOLD: usize = 64 * 1024;
const ACTION_TOLD: usize = 16 * 1024 * 1024;

/// What is called.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// The resource that it is for.
    pub(crate) resource: &'a str,
    /// What it does, such as `init`.
    pub(crate) phase: &'a str,
    pub(crate) runner: &'a Runner,
    pub(crate) entrypoint: Option<&'a str>,
    pub(crate) args: &'a [String],
    pub(crate) input: &'a Value,
    /// The folder of the manifest.
    pub(crate) workspace: &'a Path,
    /// A folder of the resource's own.
    pub(crate) work: Option<&'a Path>,
    pub(crate) mounts: &'a [Mount],
    pub(crate) has_network: bool,
    pub(crate) timeout: Duration,
}

/// Who calls.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) ledger: Option<&'a Ledger>,
    pub(crate) stop: &'a Stop,
    pub(crate) told: Option<Told<'a>>,
}

/// Why a call has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("cannot run {what}")]
    Start { what: String, source: BoxError },
    #[error("{what}: command terminated with exit code #{code}!{last}")]
    Exit { what: String, code: i32, last: String },
    #[error("{what}: command {how}{last}")]
    Ended { what: String, how: String, last: String },
    #[error("{what} took longer than {} and was ended{last}", humantime::format_duration(*limit))]
    TimedOut { what: String, limit: Duration, last: String },
    #[error("{what} was told to stop{last}")]
    Stopped { what: String, last: String },
    #[error("{what}: command did not provide any JSON back!{last}")]
    Nothing { what: String, last: String },
    #[error("{what}: command provided invalid JSON: {error}; it begins with {begin:?}{last}")]
    Json { what: String, error: String, begin: String, last: String },
    #[error("{what}: command answered what is not UTF-8; it begins with {begin:?}{last}")]
    NoText { what: String, begin: String, last: String },
    #[error("{what}: command answered more than {most} bytes and was ended{last}")]
    TooMuch { what: String, most: usize, last: String },
}

/// What an engine exits with when it could not run a container.
const NOT_RUN: i32 = 125;

impl CallError {
    /// Returns whether the machine cannot run it, and not the program is at fault.
    pub(crate) fn is_of_machine(&self, runner: &Runner) -> bool {
        match self {
            Self::Start { .. } => true,
            Self::Exit { code, last, .. } => {
                let is_foreign = || last.to_lowercase().contains("exec format error");
                matches!(runner, Runner::Container { .. }) && (*code == NOT_RUN || is_foreign())
            }
            _ => false,
        }
    }
}

impl Caller<'_> {
    /// Calls a program that answers in JSON. What it writes to stderr is told line by line.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<Value, CallError> {
        let say = self.told.map(|told| bounded(told, LOOK_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        let finished = self.run(call, Some(self.settings.most), (None, told)).await?;
        let (what, last) = (call.what(), last_lines(&finished.stderr));
        let text = finished.stdout.trim();
        if text.is_empty() {
            return Err(CallError::Nothing { what, last });
        }
        let begin = || cut_after(text, 80);
        if !finished.is_text {
            return Err(CallError::NoText { what, begin: begin(), last });
        }
        read_json(&finished.stdout).map_err(|error| CallError::Json {
            what,
            error,
            begin: begin(),
            last,
        })
    }

    /// Calls a program for what it does. Returns what it has written.
    pub(crate) async fn act(&self, call: &Call<'_>) -> Result<Finished, CallError> {
        let say = self.told.map(|told| bounded(told, ACTION_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        self.run(call, None, (told, told)).await
    }

    /// Calls a program that goes on until it is told to stop; `event` is told of each line of its stdout.
    /// Returns why it has ended.
    pub(crate) async fn follow(&self, call: &Call<'_>, event: Told<'_>) -> CallError {
        let say = self.told.map(|told| bounded(told, ACTION_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        match self.run(call, None, (Some(event), told)).await {
            Ok(finished) => CallError::Ended {
                what: call.what(),
                how: finished.end(),
                last: last_lines(&finished.stderr),
            },
            Err(error) => error,
        }
    }

    async fn run(
        &self,
        call: &Call<'_>,
        most: Option<usize>,
        told: (Option<Told<'_>>, Option<Told<'_>>),
    ) -> Result<Finished, CallError> {
        let what = call.what();
        let start = |source: BoxError| CallError::Start { what: call.what(), source };
        let container = match call.runner {
            Runner::Program(_) => None,
            Runner::Container { engine, .. } => {
                // A plan makes no state folder.
                let state = self.settings.state.as_deref().filter(|state| state.is_dir());
                Some(Container::begin(engine, state).await.map_err(|err| start(err.into()))?)
            }
        };
        let process = self.process(call, container.as_ref()).map_err(|err| start(err.into()))?;
        let job = Job::new(process, call.timeout).with_children();
        let job = match most {
            Some(most) => job.at_most(most),
            None => job,
        };
        let finished = match job.run(self.ledger, self.stop, told).await {
            Ok(finished) => finished,
            Err(error) => {
                if let Some(container) = container {
                    container.end().await;
                }
                return Err(match error {
                    JobError::TimedOut { limit, output } => {
                        CallError::TimedOut { what, limit, last: last_lines(&output) }
                    }
                    JobError::TooMuch { most, stderr } => {
                        CallError::TooMuch { what, most, last: last_lines(&stderr) }
                    }
                    JobError::Stopped { output } => {
                        CallError::Stopped { what, last: last_lines(&output) }
                    }
                    error => start(error.into()),
                });
            }
        };
        if let Some(container) = container {
            container.ended();
        }
        let last = || last_lines(&finished.stderr);
        match finished.status.code() {
            Some(0) => Ok(finished),
            Some(code) => Err(CallError::Exit { what, code, last: last() }),
            None => Err(CallError::Ended { what, how: finished.end(), last: last() }),
        }
    }

    fn process(
        &self,
        call: &Call<'_>,
        container: Option<&Container>,
    ) -> Result<ProcessConfig, String> {
        let mut words: Vec<OsString> = Vec::new();
        match call.runner {
            Runner::Program(path) => {
                words.push(program(path, call.entrypoint).into());
            }
            Runner::Container { engine, image } => {
                words.extend(engine.iter().map(Into::into));
                words.extend(self.run_words(call, container)?.into_iter().map(Into::into));
                words.push(image.into());
            }
        }
        words.extend(call.args.iter().map(Into::into));
        let name = format!("{} of {}", call.phase, call.resource);
        let name: String = name.chars().take(60).collect();
        let mut process = ProcessConfig::new(&name, words).folder(call.workspace.to_owned());
        process.input = serde_json::to_vec_pretty(call.input).map_err(|err| err.to_string())?;
        match call.runner {
            Runner::Program(_) => {
                process.environment.extend(call.mounts.iter().map(|mount| {
                    (variable(&mount.plug).into(), mount.from.clone().into_os_string())
                }));
            }
            // How the engine is found is the business of whoever runs the agent.
            Runner::Container { .. } => {
                process.inherit = ENVIRONMENT.map(OsString::from).to_vec();
            }
        }
        Ok(process)
    }

    /// Returns the words from `run` to the image.
    fn run_words(
        &self,
        call: &Call<'_>,
        container: Option<&Container>,
    ) -> Result<Vec<String>, String> {
        let settings = self.settings;
        let mut words: Vec<String> =
            ["run", "--rm", "--interactive", "--pull=never"].map(Into::into).to_vec();
        if let Some(container) = container {
            words.extend(["--name".to_owned(), container.name.clone()]);
        }
        let state = settings.state.as_deref().map(Path::display);
        let state = state.map(|state| state.to_string()).unwrap_or_default();
        words.extend(["--label".to_owned(), format!("{LABEL}={state}")]);
        let network = match call.has_network {
            true => settings.network.as_deref(),
            false => Some("none"),
        };
        words.extend(network.map(|network| format!("--network={network}")));
        words.push(format!("--workdir={}", call.workspace.display()));
        let own = |path: &Path, mode| volume(path, &path.to_string_lossy(), mode);
        words.push(own(call.workspace, "ro")?);
        for (path, mode) in [(settings.conf.as_deref(), "ro"), (call.work, "rw")] {
            words.extend(path.map(|path| own(path, mode)).transpose()?);
        }
        for Mount { from, to, is_writable, .. } in call.mounts {
            words.push(volume(from, to, if *is_writable { "rw" } else { "ro" })?);
        }
        words.extend(call.entrypoint.map(|entrypoint| format!("--entrypoint={entrypoint}")));
        words.extend(settings.run_options.iter().cloned());
        Ok(words)
    }
}

impl Call<'_> {
    fn what(&self) -> String {
        let Self { resource, phase, .. } = self;
        match self.runner {
            Runner::Program(path) => format!("{phase} of '{resource}' ({})", path.display()),
            Runner::Container { image, .. } => format!("{phase} of '{resource}' ({image})"),
        }
    }
}

/// Returns the variable by which a program finds a plug.
fn variable(plug: &str) -> String {
    let name =
        plug.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    format!("CRANKCASE_PLUG_{}", name.collect::<String>())
}

/// Returns what is executed: an entrypoint stands beside the program, unless it is absolute.
fn program(path: &Path, entrypoint: Option<&str>) -> PathBuf {
    match (entrypoint, path.parent()) {
        (Some(entrypoint), Some(folder)) => folder.join(entrypoint),
        (Some(entrypoint), None) => entrypoint.into(),
        (None, _) => path.to_owned(),
    }
}

fn volume(from: &Path, to: &str, mode: &str) -> Result<String, String> {
    let shown = from.display();
    match from.to_str().filter(|from| !from.contains(':') && !to.contains(':')) {
        Some(from) => Ok(format!("--volume={from}:{to}:{mode}")),
        None => Err(format!("{shown} at {to} cannot be handed to a container: it has a : in it")),
    }
}

/// Tells what it is told, up to this many bytes, and then once that there is more.
fn bounded<'a>(told: Told<'a>, most: usize) -> impl Fn(&str) + Send + Sync + 'a {
    let (left, is_over) = (AtomicUsize::new(most), AtomicBool::new(false));
    move |line| {
        let less = |left: usize| left.checked_sub(line.len() + 1);
        if left.try_update(Relaxed, Relaxed, less).is_ok() {
            told(line);
        } else if !is_over.swap(true, Relaxed) {
            told(&format!("it says more than {most} bytes; the rest is not shown"));
        }
    }
}

/// Says what a program wrote last to stderr, for the end of an error.
fn last_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.map(|line| cut_after(line, LAST_LINE)).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    if last.is_empty() { String::new() } else { format!("; it said last: {}", last.join(" / ")) }
}
