//! The take-over of a state folder from an agent that runs.
//!
//! Invariants, beside those of [`take_over_file`]:
//! 1. An agent that has handed over ends only if it finds the file empty, if a signal asks it to, or if its workers run
//!    on and hold the state folder until it ends. Otherwise it starts again: as the same process, and from the program
//!    that it runs, also if another one has its path by now.
//! 2. The agent that hands over opens the file when it is asked: what has the name later may be of another take-over.

use std::env;
use std::fmt;
use std::fs::{File, read_to_string, remove_file};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use crankcase_engine::{Engine, EngineInput, Manifold, Name};
use crankcase_facts::{Facts, StoreError};
use crankcase_resources::Site;
use crankcase_state::{SqliteError, SqliteStoreError, reading};
use crankcase_status::Extension;
use crankcase_workers::SignalHandle;
use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::command::control::user;
use crate::command::runtime;
use crate::exit::{self, ExitError};
use crate::facts_store::{self, Begun, Held};
use crate::global::Global;
use crate::take_over_file;

/// The target of the request on the control socket.
const TARGET: &str = "/v1/take-over";

/// The largest request, in bytes.
const MAX_REQUEST: usize = 4096;

/// How long the agent that hands over may take to end: longer than its stop deadline.
const END_WITHIN: Duration = Duration::from_secs(90);

/// The request to hand over.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The pid of the next agent.
    pid: i32,
    /// The person who has started it.
    who: String,
    /// How long it may take to be ready, in milliseconds, from when it has the state folder.
    within_ms: u64,
}

/// The answer to a [`Request`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
enum Answer {
    /// The agent ends.
    Ends,
    /// The agent goes on, for this reason.
    Refused { reason: String },
}

/// The duty of an agent that takes over to say when it is ready.
#[derive(Debug)]
pub(crate) struct TakeOver {
    /// The locked file of the take-over, with its path, until the agent is ready.
    file: Mutex<Option<(File, PathBuf)>>,
}

impl TakeOver {
    /// Asks the agent of the state folder to hand over, and holds the folder when that agent has ended. `None` if no
    /// agent runs.
    ///
    /// # Errors
    ///
    /// If the agent refuses, does not end in time, or is asked by another process too.
    pub(super) async fn of_agent(
        global: &Global,
        within: Duration,
    ) -> anyhow::Result<Option<(Held, Self)>> {
        let Some(client) = facts_store::agent(global).await? else { return Ok(None) };
        let path = take_over_file::path(global.state_dir()?.path());
        let file = take_over_file::lock(&path)?;
        let within_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let pid = rustix::process::getpid().as_raw_pid();
        let request = Request { pid, who: user(), within_ms };
        match client.extension(TARGET, &request).await? {
            Answer::Ends => {}
            Answer::Refused { reason } => {
                let text = format!("the agent does not hand over: {reason}");
                return Err(ExitError::new(exit::CONFLICT, text).into());
            }
        }
        tracing::info!("the agent that runs hands over, and ends");
        let held = facts_store::hold_within(global, END_WITHIN).await?;
        Ok(Some((held, Self { file: Mutex::new(Some((file, path))) })))
    }

    /// Returns a manifold that tells the agent before that this one is ready, as soon as there is an engine of the
    /// resources: the site and the records were read, and programs that run were found. Each is adopted at the first
    /// look at its resource, which may have to wait for others.
    pub(super) fn manifold(self, resources: Name<Engine>) -> Manifold {
        Manifold::builder().inputs(resources).run_with(
            Arc::new(self),
            |this, _resources, up| async move {
                let _stop = up.ready(());
                // It is there at the first run only.
                let file = this.file.lock().take();
                if let Some((file, path)) = file {
                    // The name is for the next take-over. Without it this agent is ready all the same.
                    let removed = remove_file(path);
                    file.set_len(0)?;
                    tracing::info!("this agent has taken over");
                    removed?;
                }
                Ok(())
            },
        )
    }
}

/// Reads what is on record in the state folder of an agent that runs, and returns the facts. Fails if this program
/// would bring a file to a newer format, because the agent could not read that file if it had to start again. Blocks.
pub(super) fn read_state(global: &Global) -> anyhow::Result<Facts> {
    let read = || -> anyhow::Result<Facts> {
        let state_dir = global.state_dir()?;
        let facts = facts_store::find_or_none(global)?;
        if state_dir.path().exists() {
            reading(state_dir.path())?.load()?;
        }
        Ok(facts)
    };
    read().map_err(|error| match has_older_format(&error) {
        true => {
            let text = format!(
                "{error}, and the agent that runs could not start again from that; stop that agent first, and start this one without --take-over"
            );
            ExitError::new(exit::CONFLICT, text).into()
        }
        false => error,
    })
}

/// Returns whether an error says that an earlier version of the program has made a file.
fn has_older_format(error: &anyhow::Error) -> bool {
    let facts = error.downcast_ref::<StoreError>();
    let records = error.downcast_ref::<SqliteStoreError>();
    matches!(facts, Some(StoreError::Older { .. }))
        || matches!(records, Some(SqliteStoreError::File(SqliteError::Older { .. })))
}

/// Holds the state folder of an agent if there is one. An agent that starts again after a take-over waits until the
/// folder is free, because nobody else would start the agent. Any other one fails if another process holds the folder.
/// Blocks.
pub(super) fn begin(global: &Global) -> anyhow::Result<Begun> {
    let state_dir = global.state_dir()?;
    let state = state_dir.path();
    if take_over_file::pid(state) != Some(std::process::id()) {
        return facts_store::begin(global);
    }
    tracing::info!("this agent starts again as soon as the state folder is free");
    let held = runtime::ask(facts_store::hold_within(global, END_WITHIN))?;
    // Another process may have the same pid one day.
    drop(remove_file(take_over_file::path(state)));
    Ok(Begun::Held(held))
}

/// The side of the agent that may be asked to hand over.
#[derive(Clone)]
pub(super) struct HandOver {
    // Nothing that could panic is done while it is locked.
    asked: Arc<AssertUnwindSafe<watch::Sender<Option<Next>>>>,
    /// The file of a take-over.
    path: PathBuf,
    /// The reason why this agent hands over to nobody, if there is one.
    refusal: Option<&'static str>,
}

/// An agent that is about to take over.
#[derive(Debug, Clone)]
pub(super) struct Next {
    who: String,
    pid: i32,
    /// The descriptor of its process: the pid may be another's one day.
    process: Arc<OwnedFd>,
    /// The file that it holds until it is ready.
    file: Arc<File>,
    within: Duration,
}

impl fmt::Debug for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandOver").field("path", &self.path).finish_non_exhaustive()
    }
}

impl HandOver {
    /// Returns the side of the agent that keeps a site in this state folder. An agent that ends when all is settled
    /// hands over to nobody.
    pub(super) fn new(state: &Path, site: &Site, until_settled: Option<Duration>) -> Self {
        let is_stdin_used = env::args_os().any(|it| it.to_str().is_some_and(is_stdin));
        let refusal = match until_settled {
            Some(_) => Some("it ends by itself, when every resource is settled"),
            None if site.is_piped() || is_stdin_used => {
                Some("it has read standard input or a pipe, and so could not start again")
            }
            None => refusal_of_looked_after(),
        };
        let asked = Arc::new(AssertUnwindSafe(watch::Sender::new(None)));
        Self { asked, path: take_over_file::path(state), refusal }
    }

    /// Returns the answers to the requests of the next agent.
    pub(super) fn extension(&self) -> Arc<dyn Extension> {
        Arc::new(self.clone())
    }

    /// Returns a manifold that ends the agent when it is asked to hand over.
    pub(super) fn manifold(&self) -> Manifold {
        let asked = Arc::clone(&self.asked);
        Manifold::builder().inputs(EngineInput).run_with(asked, |asked, agent, up| async move {
            // It listens only while it runs, so that nobody is promised an end that does not come.
            let mut listener = asked.subscribe();
            let stop = up.ready(());
            let next = async {
                let next = listener.wait_for(Option::is_some).await;
                next.ok().and_then(|next| next.clone())
            };
            let next = tokio::select! {
                biased;
                () = stop.wait() => None,
                next = next => next,
            };
            if let Some(Next { who, pid, .. }) = next {
                let why = format!("the agent with pid {pid} takes over, and programs run on");
                agent.asked_by(who, why).kill();
                stop.wait().await;
            }
            Ok(())
        })
    }

    /// Returns the agent that takes over, if there is one.
    pub(super) fn next(&self) -> Option<Next> {
        self.asked.borrow().clone()
    }

    /// Answers a request of a user, from the process that has the pid `seen` where this agent runs.
    fn ask(&self, request: Request, user: u32, seen: Option<i32>) -> Result<Answer, String> {
        if let Some(refusal) = self.refusal {
            return Ok(Answer::Refused { reason: refusal.to_owned() });
        }
        let Request { pid, who, within_ms } = request;
        if seen != Some(pid) {
            let text = format!(
                "it does not know the process that asks as pid {pid}: both must be in one PID namespace, such as that of one container"
            );
            return Ok(Answer::Refused { reason: text });
        }
        if self.asked.receiver_count() == 0 {
            let text = "its worker \"hand_over\" does not run, such as because it is parked";
            return Ok(Answer::Refused { reason: text.to_owned() });
        }
        let of_pid = |error: io::Error| format!("pid {pid}: {error}");
        let id = Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw);
        let id = id.ok_or("pid: expected one above 0")?;
        let process = pidfd_open(id, PidfdFlags::empty()).map_err(|error| of_pid(error.into()))?;
        let held_by = read_to_string(&self.path).map_err(of_pid)?;
        if held_by.trim() != pid.to_string() {
            return Err(format!("pid {pid} does not hold {}", self.path.display()));
        }
        let file = take_over_file::options().open(&self.path).map_err(of_pid)?;
        let next = Next {
            who: format!("{who} (uid {user})"),
            pid,
            process: Arc::new(process),
            file: Arc::new(file),
            within: Duration::from_millis(within_ms),
        };
        let is_first = self.asked.send_if_modified(|asked| {
            let is_first = asked.is_none();
            if is_first {
                *asked = Some(next);
            }
            is_first
        });
        Ok(match is_first {
            true => Answer::Ends,
            false => Answer::Refused { reason: "it hands over to another one".to_owned() },
        })
    }
}

#[async_trait]
impl Extension for HandOver {
    fn target(&self) -> &'static str {
        TARGET
    }

    fn max_body(&self) -> usize {
        MAX_REQUEST
    }

    async fn answer(&self, request: Value, user: u32) -> Result<Value, String> {
        self.answer_process(request, user, None).await
    }

    async fn answer_process(
        &self,
        request: Value,
        user: u32,
        pid: Option<i32>,
    ) -> Result<Value, String> {
        let request = serde_json::from_value(request).map_err(|error| error.to_string())?;
        let answer = self.ask(request, user, pid)?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

/// The end of a wait for the next agent.
enum Outcome {
    /// The next agent is ready.
    Ready,
    /// The next agent has ended before it was ready.
    NotReady,
    /// A signal has asked this process to end.
    Interrupted,
}

impl Next {
    /// Waits until the next agent is ready, or a signal asks this process to end. Starts this process again if the next
    /// agent ends before it is ready, or is not ready in time. Blocks.
    pub(super) fn until_ready(
        &self,
        global: &Global,
        signals: &SignalHandle,
    ) -> anyhow::Result<()> {
        let pid = self.pid;
        match runtime::work(self.outcome(global, signals))? {
            Outcome::Interrupted => Ok(()),
            Outcome::Ready => {
                tracing::info!(pid, "the next agent has taken over");
                Ok(())
            }
            Outcome::NotReady => {
                tracing::error!(
                    pid,
                    "the next agent has ended before it was ready: this one starts again"
                );
                if let Err(error) = take_over_file::note_pid(&self.file) {
                    tracing::warn!(%error, "this process cannot note that it starts again");
                }
                let mut arguments = env::args_os();
                let mut again = Command::new("/proc/self/exe");
                if let Some(name) = arguments.next() {
                    again.arg0(name);
                }
                Err(again.args(arguments).exec()).context("cannot start again")
            }
        }
    }

    async fn outcome(&self, global: &Global, signals: &SignalHandle) -> anyhow::Result<Outcome> {
        tokio::select! {
            biased;
            // It may have come while the agent ended.
            Ok(_) = signals.next_end(0) => Ok(Outcome::Interrupted),
            outcome = self.ready_or_ended(global) => outcome,
        }
    }

    async fn ready_or_ended(&self, global: &Global) -> anyhow::Result<Outcome> {
        let file = Arc::clone(&self.file);
        let mut ready = spawn_blocking(move || take_over_file::is_ready(&file));
        let is_ready = tokio::select! {
            biased;
            is_ready = &mut ready => is_ready,
            () = sleep(self.within) => {
                let within = humantime::format_duration(self.within);
                tracing::error!(pid = self.pid, %within, "the next agent is not ready in time, and is killed");
                // It may have ended by now. One that becomes ready at this moment is killed nevertheless.
                let killed = pidfd_send_signal(&self.process, Signal::KILL);
                ready.await.map(|is_ready| is_ready.map(|is_ready| is_ready && killed.is_err()))
            }
        };
        if is_ready?.context("cannot look at the file of the take-over")? {
            return Ok(Outcome::Ready);
        }
        // The next agent may hold the folder for a moment yet. If it is not free after that, this process waits again
        // when it has started again; it may hold the folder itself, by a worker that runs on.
        drop(facts_store::hold_within(global, END_WITHIN).await);
        Ok(Outcome::NotReady)
    }
}

/// Returns why this agent hands over to nobody, if something else has started it and ends or starts with it. The next
/// agent would be out of its reach.
fn refusal_of_looked_after() -> Option<&'static str> {
    let pid = std::process::id();
    if pid == 1 {
        return Some(
            "it is the first process of its container, which ends with it; start another container instead",
        );
    }
    // Other processes of the service inherit the variable, but not the pid.
    let is_of_systemd = env::var("SYSTEMD_EXEC_PID").is_ok_and(|it| it == pid.to_string());
    let is_told_to = env::var_os("NOTIFY_SOCKET").is_some_and(|it| !it.is_empty());
    let text = "a service manager has started it, and would not know the next one; restart the service instead";
    (is_of_systemd || is_told_to).then_some(text)
}

/// Returns whether an argument names standard input, also as the value of an option.
fn is_stdin(argument: &str) -> bool {
    let value = argument.strip_prefix("-f").or(argument.split_once('=').map(|(_, value)| value));
    [Some(argument), value].into_iter().flatten().any(|it| matches!(it, "-" | "/dev/stdin"))
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use crankcase_facts::StoreError;
    use crankcase_state::{SqliteError, SqliteStoreError};
    use rustix::process::getpid;
    use tokio::sync::watch;

    use super::{Answer, HandOver, Request, has_older_format, is_stdin};
    use crate::take_over_file;

    /// Returns the side of an agent that has this state folder and refuses nobody by itself.
    fn hand_over(state: &Path) -> HandOver {
        let asked = Arc::new(AssertUnwindSafe(watch::Sender::new(None)));
        HandOver { asked, path: take_over_file::path(state), refusal: None }
    }

    /// Returns the reason of a refusal.
    fn refused(answer: Result<Answer, String>) -> Option<String> {
        match answer {
            Ok(Answer::Refused { reason }) => Some(reason),
            Ok(Answer::Ends) | Err(_) => None,
        }
    }

    #[test]
    fn a_process_that_the_agent_knows_by_another_pid_is_refused() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let hand_over = hand_over(folder.path());
        let _listener = hand_over.asked.subscribe();
        let _file = take_over_file::lock(&take_over_file::path(folder.path()))?;
        let pid = getpid().as_raw_pid();

        for seen in [None, Some(0), Some(pid + 1)] {
            let request = Request { pid, who: "ada".to_owned(), within_ms: 1 };
            let reason = refused(hand_over.ask(request, 0, seen)).unwrap_or_default();
            assert!(reason.contains("PID namespace"), "{seen:?}: {reason}");
        }
        assert!(hand_over.next().is_none());
        Ok(())
    }

    #[test]
    fn files_of_an_earlier_format_are_told_from_those_of_a_later_one() {
        let (path, content) = (PathBuf::from("it.db"), "records");
        let facts = StoreError::Older { path: path.clone(), format: 1, newest: 2 };
        let later = StoreError::Format { path: path.clone(), format: 2, known: 1 };
        let records = SqliteError::Older { content, path, version: 1, newest: 2 };

        assert!(has_older_format(&facts.into()));
        assert!(has_older_format(&SqliteStoreError::from(records).into()));
        assert!(!has_older_format(&later.into()));
    }

    #[test]
    fn standard_input_is_known_in_each_form() {
        for argument in ["-", "/dev/stdin", "-f-", "--facts=-", "-f/dev/stdin"] {
            assert!(is_stdin(argument), "{argument}");
        }
        for argument in ["run", "--var", "mark=a-", "-f", "site-.yaml", "--", "-v"] {
            assert!(!is_stdin(argument), "{argument}");
        }
    }
}
