//! One call of a program: JSON in, JSON or lines out.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::BoxError;
use crankcase_resources::dynamic::cut_after;
use crankcase_workers::{
    Finished, Job, JobError, Limit, ProcessConfig, ProcessError, Told, printable, read_json,
};
use serde_json::Value;

use crate::calls::Caller;
use crate::containers::{Container, LABEL};
use crate::engine::ENVIRONMENT;
use crate::plugs::Mount;
use crate::type_name::Runner;

/// How many of its last lines the error of a look shows.
const LOOK_LINES: usize = 20;

/// How many of its last lines the error of an action shows. The account has the whole output.
const ACTION_LINES: usize = 1;

/// How many characters of each line an error shows.
const LAST_LINE: usize = 200;

/// How many bytes of the beginning and the end of each output of an action are kept: 1 MiB.
const ACTION_KEPT: (usize, usize) = (512 * 1024, 512 * 1024);

/// How many bytes of the lines of a look are passed on while it runs.
const LOOK_TOLD: usize = 64 * 1024;

/// How many bytes of the lines of an action or a watch are passed on while it runs.
const ACTION_TOLD: usize = 16 * 1024 * 1024;

/// A call of a program.
pub(crate) struct Call<'a> {
    /// The resource that the call is for.
    pub(crate) resource: &'a str,
    /// The purpose of the call, such as `init`.
    pub(crate) phase: &'a str,
    pub(crate) runner: &'a Runner,
    pub(crate) entrypoint: Option<&'a str>,
    pub(crate) args: &'a [String],
    pub(crate) input: &'a Value,
    /// The folder of the manifest.
    pub(crate) workspace: &'a Path,
    /// The private folder of the resource.
    pub(crate) work: Option<&'a Path>,
    pub(crate) mounts: &'a [Mount],
    pub(crate) has_network: bool,
    pub(crate) timeout: Duration,
}

/// Shows the resource and the phase, and not the input.
impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Call");
        shown.field("resource", &self.resource).field("phase", &self.phase).finish_non_exhaustive()
    }
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
    #[error("{what}: command provided invalid JSON: {error}; it begins with \"{begin}\"{last}")]
    Json { what: String, error: String, begin: String, last: String },
    #[error("{what}: command answered what is not UTF-8; it begins with \"{begin}\"{last}")]
    NoText { what: String, begin: String, last: String },
    #[error("{what}: command answered more than {most} bytes and was ended{last}")]
    TooMuch { what: String, most: usize, last: String },
}

/// The exit code of an engine that could not run a container.
const NOT_RUN: i32 = 125;

impl CallError {
    /// Returns whether the machine is at fault, because it cannot run the program.
    pub(crate) fn is_of_machine(&self, runner: &Runner) -> bool {
        match self {
            Self::Start { .. } => true,
            Self::Exit { code, last, .. } => {
                // The image is for another kind of machine, or exceeds the limits of this one.
                let is_unfit = || {
                    let last = last.to_lowercase();
                    last.contains("exec format error") || *code == 126 && last.contains("rlimit")
                };
                matches!(runner, Runner::Container { .. }) && (*code == NOT_RUN || is_unfit())
            }
            _ => false,
        }
    }
}

impl Caller<'_> {
    /// Calls a program that answers in JSON. Passes on each line of its stderr.
    pub(crate) async fn ask(&self, call: &Call<'_>) -> Result<Value, CallError> {
        let say = self.told.map(|told| bounded(told, LOOK_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        let run = self.run(call, Output::Answer(self.settings.most), (None, told)).await;
        let finished = run.map_err(|failed| failed.error)?;
        let (what, last) = (call.what(), last_lines(&finished.stderr, LOOK_LINES));
        let text = finished.stdout.trim();
        if text.is_empty() {
            return Err(CallError::Nothing { what, last });
        }
        // It is not escaped a second time: otherwise nobody would find a secret in it.
        let begin = || printable(&cut_after(text, 80));
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

    /// Calls a program that carries out an action. Returns its output, also if it fails: at most
    /// 1 MiB of stdout, and then at most 1 MiB of stderr. A longer output lacks its middle.
    pub(crate) async fn act(&self, call: &Call<'_>) -> (String, Result<(), CallError>) {
        let say = self.told.map(|told| bounded(told, ACTION_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        match self.run(call, Output::Log, (told, told)).await {
            Ok(finished) => (joined(&finished), Ok(())),
            Err(Failed { error, output }) => (output, Err(error)),
        }
    }

    /// Calls a program that runs until the caller stops it. Calls `event` with each line of its
    /// stdout. Returns the reason for its end.
    pub(crate) async fn follow(&self, call: &Call<'_>, event: Told<'_>) -> CallError {
        let say = self.told.map(|told| bounded(told, ACTION_TOLD));
        let told = say.as_ref().map(|say| say as Told<'_>);
        match self.run(call, Output::Events, (Some(event), told)).await {
            Ok(finished) => CallError::Ended {
                what: call.what(),
                how: finished.end(),
                last: last_lines(&finished.stderr, LOOK_LINES),
            },
            Err(failed) => failed.error,
        }
    }

    async fn run(
        &self,
        call: &Call<'_>,
        wanted: Output,
        told: (Option<Told<'_>>, Option<Told<'_>>),
    ) -> Result<Finished, Failed> {
        let start = |source: BoxError| CallError::Start { what: call.what(), source };
        if self.calls.is_over(self.stop) {
            return Err(CallError::Stopped { what: call.what(), last: String::new() }.into());
        }
        let _open = self.calls.begin(call.what());
        let container = match call.runner {
            Runner::Program(_) => None,
            Runner::Container { engine, .. } => {
                // The user of a plan may have no right to write there.
                let state = self.settings.record().filter(|_| self.ledger().is_some());
                let engine = (engine.as_slice(), self.settings.engine_timeout);
                let begun = Container::begin(engine, state, self.calls).await;
                Some(begun.map_err(|err| start(err.into()))?)
            }
        };
        let limit = self.calls.write_limit().filter(|_| matches!(wanted, Output::Log));
        let process = self.process(call, (container.as_ref(), limit));
        let process = process.map_err(|err| start(err.into()))?;
        let job = wanted.kept(Job::new(process, call.timeout).with_children());
        let (stopper, stop) = Stop::pair();
        let run = job.run(self.ledger(), &stop, told);
        let run = self.calls.stopping((&stopper, self.stop), run).await;
        if let Some(container) = container {
            if says_the_end(&run) {
                container.ended();
            } else {
                container.end().await;
            }
        }
        let finished = run.map_err(|error| Failed::of(call, wanted, error))?;
        if finished.status.success() {
            return Ok(finished);
        }
        let output = joined(&finished);
        let said = if matches!(wanted, Output::Log) { &output } else { &finished.stderr };
        let last = last_lines(said, wanted.last_lines());
        let what = call.what();
        let error = match finished.status.code() {
            Some(code) => CallError::Exit { what, code, last },
            None => CallError::Ended { what, how: finished.end(), last },
        };
        Err(Failed { error, output })
    }

    fn process(
        &self,
        call: &Call<'_>,
        (container, write_limit): (Option<&Container>, Option<u64>),
    ) -> Result<ProcessConfig, String> {
        let mut words: Vec<OsString> = Vec::new();
        match call.runner {
            Runner::Program(path) => {
                words.push(program(path, call.entrypoint).into());
            }
            Runner::Container { engine, image } => {
                words.extend(engine.iter().map(Into::into));
                words.extend(self.run_words(call, container)?.into_iter().map(Into::into));
                words.extend(
                    write_limit.map(|limit| format!("--ulimit=fsize={limit}:{limit}").into()),
                );
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
                process.limits.extend(write_limit.map(|limit| (Limit::FileSize, Some(limit))));
                process.environment.extend(call.mounts.iter().map(|mount| {
                    (variable(&mount.plug).into(), mount.from.clone().into_os_string())
                }));
            }
            // The environment of the agent says where the engine is.
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
        let conf = settings.conf.as_deref().filter(|conf| *conf != call.workspace);
        for (path, mode) in [(conf, "ro"), (call.work, "rw")] {
            words.extend(path.map(|path| own(path, mode)).transpose()?);
        }
        let state = settings.state.as_deref();
        // Otherwise podman copies the hidden files into the empty folder.
        let copy = if call.runner.is_podman() { ",notmpcopyup" } else { "" };
        // The state folder in these folders is hidden: it holds secrets of other types. An engine
        // refuses a path that it gets twice.
        let folders = [Some(call.workspace), conf].into_iter().flatten();
        let hidden: BTreeSet<_> = folders.filter_map(|folder| within(state?, folder)).collect();
        words
            .extend(hidden.iter().map(|path| format!("--tmpfs={}:size=64k{copy}", path.display())));
        words.extend(call.work.map(|work| format!("--env=CRANKCASE_FOLDER={}", work.display())));
        for Mount { from, to, is_writable, .. } in call.mounts {
            words.push(volume(from, to, if *is_writable { "rw" } else { "ro" })?);
        }
        words.extend(call.entrypoint.map(|entrypoint| format!("--entrypoint={entrypoint}")));
        words.extend(settings.run_options.iter().cloned());
        Ok(words)
    }
}

/// Returns whether the end of a client shows that its container has ended too. The end of a client
/// that was killed, or has lost its engine, does not show that.
fn says_the_end(client: &Result<Finished, JobError>) -> bool {
    match client {
        Ok(finished) => finished.status.code().is_some_and(|code| code != NOT_RUN),
        // There was no client.
        Err(JobError::Start(error)) => {
            matches!(error, ProcessError::Execute { .. } | ProcessError::Folder { .. })
        }
        Err(_) => false,
    }
}

/// The part of its output that a call needs.
#[derive(Debug, Clone, Copy)]
enum Output {
    /// All of stdout, which is an answer of at most this many bytes.
    Answer(usize),
    /// Both streams, for people.
    Log,
    /// Each line of stdout, when it comes.
    Events,
}

impl Output {
    fn kept(self, job: Job) -> Job {
        match self {
            Self::Answer(most) => job.at_most(most),
            Self::Log => job.kept(ACTION_KEPT.0, ACTION_KEPT.1),
            Self::Events => job,
        }
    }

    /// How many of the last lines an error shows.
    fn last_lines(self) -> usize {
        match self {
            Self::Log => ACTION_LINES,
            Self::Answer(_) | Self::Events => LOOK_LINES,
        }
    }
}

/// A failed call, and its output.
#[derive(Debug)]
struct Failed {
    error: CallError,
    output: String,
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Self {
        Self { error, output: String::new() }
    }
}

impl Failed {
    /// Returns the failure of a call that did not end by itself.
    fn of(call: &Call<'_>, wanted: Output, error: JobError) -> Self {
        let (what, lines) = (call.what(), wanted.last_lines());
        match error {
            JobError::TimedOut { limit, output } => {
                let last = last_lines(&output, lines);
                Self { error: CallError::TimedOut { what, limit, last }, output }
            }
            JobError::Stopped { output } => {
                let last = last_lines(&output, lines);
                Self { error: CallError::Stopped { what, last }, output }
            }
            JobError::TooMuch { most, stderr } => {
                let last = last_lines(&stderr, lines);
                CallError::TooMuch { what, most, last }.into()
            }
            error => CallError::Start { what, source: error.into() }.into(),
        }
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

/// Returns the path of the program to run. A relative entrypoint is in the folder of the type's
/// program.
fn program(path: &Path, entrypoint: Option<&str>) -> PathBuf {
    match (entrypoint, path.parent()) {
        (Some(entrypoint), Some(folder)) => folder.join(entrypoint),
        (Some(entrypoint), None) => entrypoint.into(),
        (None, _) => path.to_owned(),
    }
}

/// Returns the path of a folder within an outer folder, or `None` if it does not exist in there.
fn within(inner: &Path, outer: &Path) -> Option<PathBuf> {
    let (real, real_outer) = (inner.canonicalize().ok()?, outer.canonicalize().ok()?);
    Some(outer.join(real.strip_prefix(real_outer).ok()?))
}

fn volume(from: &Path, to: &str, mode: &str) -> Result<String, String> {
    let shown = from.display();
    match from.to_str().filter(|from| !from.contains(':') && !to.contains(':')) {
        Some(from) => Ok(format!("--volume={from}:{to}:{mode}")),
        None => Err(format!("{shown} at {to} cannot be handed to a container: it has a : in it")),
    }
}

/// Passes on lines of at most this many bytes in all, and then one line that says that there is
/// more.
fn bounded<'a>(told: Told<'a>, most: usize) -> impl Fn(&str) + Send + Sync + 'a {
    let (left, is_over) = (AtomicUsize::new(most), AtomicBool::new(false));
    move |line| {
        // After the first line without room no line is passed on, although a shorter one may have
        // room.
        if is_over.load(Relaxed) {
            return;
        }
        let less = |left: usize| left.checked_sub(line.len() + 1);
        if left.try_update(Relaxed, Relaxed, less).is_ok() {
            told(line);
        } else if !is_over.swap(true, Relaxed) {
            told(&format!("it says more than {most} bytes; the rest is not shown"));
        }
    }
}

/// Returns both outputs, one after the other.
fn joined(Finished { stdout, stderr, .. }: &Finished) -> String {
    let end = if stdout.is_empty() || stdout.ends_with('\n') { "" } else { "\n" };
    format!("{stdout}{end}{stderr}")
}

/// Returns the last lines of an output, for the end of an error.
fn last_lines(text: &str, most: usize) -> String {
    let lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(most);
    let mut last: Vec<_> = lines.map(|line| cut_after(line, LAST_LINE)).collect();
    last.reverse();
    if last.is_empty() { String::new() } else { format!("; it said last: {}", last.join(" / ")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::error::Error;
    use std::fs;
    use std::time::Duration;

    use crankcase_engine::Stop;
    use parking_lot::Mutex;
    use serde_json::Value;

    use super::{Call, bounded};
    use crate::call_record::CallRecord;
    use crate::calls::{Caller, Calls};
    use crate::settings::Settings;
    use crate::type_name::Runner;

    #[test]
    fn no_line_follows_the_one_that_says_that_there_is_more() {
        let lines = Mutex::new(Vec::new());
        let told = |line: &str| lines.lock().push(line.to_owned());
        let say = bounded(&told, 8);

        for line in ["one", "a longer line", "two", "a longer line"] {
            say(line);
        }

        let last = "it says more than 8 bytes; the rest is not shown";
        assert_eq!(*lines.lock(), ["one", last]);
    }

    #[test]
    fn a_container_is_given_no_place_twice() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let state = folder.path().join("conf/state");
        fs::create_dir_all(&state)?;
        let (calls, record, (_stopper, stop)) =
            (Calls::default(), CallRecord::new(None), Stop::pair());
        let runner = Runner::Container { engine: vec!["docker".to_owned()], image: "x".to_owned() };
        let call = Call {
            resource: "r1",
            phase: "init",
            runner: &runner,
            entrypoint: None,
            args: &[],
            input: &Value::Null,
            workspace: folder.path(),
            work: None,
            mounts: &[],
            has_network: true,
            timeout: Duration::from_secs(1),
        };
        for conf in [folder.path().to_owned(), folder.path().join("conf")] {
            let settings =
                Settings { conf: Some(conf), state: Some(state.clone()), ..Settings::default() };
            let caller = Caller {
                settings: &settings,
                calls: &calls,
                agent_ledger: None,
                record: &record,
                stop: &stop,
                told: None,
            };

            let words = caller.run_words(&call, None)?;

            let hidden = format!("--tmpfs={}:size=64k", state.display());
            assert!(words.contains(&hidden), "{words:?}");
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len(), "{words:?}");
        }
        Ok(())
    }
}
