//! The command that validates new content before the new file takes the place of the old one.
//!
//! Invariants:
//! 1. The thread that has written the new file waits until the command has ended, and then places or removes the file.
//! 2. If nobody waits for the file any more, the thread removes it, and the command is killed.
//! 3. Fewer threads wait for commands than the runtime has for blocking work: a command needs one
//!    to begin and to end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_resources::{BoxError, Claim, Context, Partial, blocking};
use crankcase_workers::{Job, ProcessConfig};
use tokio::sync::{Semaphore, oneshot};

use crate::command::ended::{RunError, ends, last_lines};
use crate::command::{self, Argv, Setting};
use crate::file::error::EntryError;

/// The placeholder for the path of the new file in an argument.
const PLACE: &str = "%s";

/// What is wrong with a command that cannot know the new file.
pub(super) const NAMES_NO_FILE: &str = "none of its arguments has %s, which stands for the path \
    of the new file; write [nginx, -t, -c, \"%s\"] for example";

/// The time between TERM and KILL, after the timeout or a stop.
const GRACE: Duration = Duration::from_secs(5);

/// How many new files are validated at a time (invariant 3). The runtime of `apply` has four
/// threads for blocking work.
const AT_ONCE: usize = 2;

static FREE: Semaphore = Semaphore::const_new(AT_ONCE);

/// How many characters of a program are in the name of the process, which has at most 255 bytes.
const MAX_NAME: usize = 60;

/// Returns whether an argument has the path of the new file.
pub(super) fn names_file(argv: &Argv) -> bool {
    argv.0.iter().skip(1).any(|word| word.contains(PLACE))
}

/// Returns what the command needs. What it makes is nobody's concern.
pub(super) fn claims(argv: &Argv) -> Vec<Claim> {
    command::claims(&[Partial::Given(argv.0.clone())], &Setting::new().into()).claims
}

/// Returns the file of the program, if it is named by its path.
pub(super) fn named_programs(argv: &Argv) -> Vec<PathBuf> {
    match argv.0.first() {
        Some(program) if program.contains('/') => process(argv, Path::new("")).programs(),
        _ => Vec::new(),
    }
}

/// Returns how the command is run for a new file.
fn process(argv: &Argv, file: &Path) -> ProcessConfig {
    let file = file.to_string_lossy();
    let words = argv.0.iter().enumerate().map(|(index, word)| match index {
        0 => word.clone(),
        _ => word.replace(PLACE, &file),
    });
    // A person sees this name if a killed agent has left the command.
    let name = |program: &String| program.chars().take(MAX_NAME).collect::<String>();
    let name = argv.0.first().map(name).unwrap_or_default();
    let words: Vec<_> = words.collect();
    Setting::new().process(&format!("validate {name}"), &words).grace(GRACE)
}

/// A new file that is to be validated.
struct Request {
    path: PathBuf,
    result: oneshot::Sender<Result<(), EntryError>>,
}

/// Has one new file validated, from the thread that has written it.
pub(super) struct Validation(Option<oneshot::Sender<Request>>);

impl Validation {
    /// Returns the validation of a file that has no command: every content is valid.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Waits for the result of the command. Blocks.
    ///
    /// # Errors
    ///
    /// When the command refuses the file, could not be run to its end, or was told to stop.
    pub(super) fn require(self, path: PathBuf) -> Result<(), EntryError> {
        let Some(requests) = self.0 else { return Ok(()) };
        let (result, validated) = oneshot::channel();
        // Invariant 2: without a receiver nobody waits for the file.
        requests.send(Request { path, result }).map_err(|_unsent| EntryError::Stopped)?;
        validated.blocking_recv().unwrap_or(Err(EntryError::Stopped))
    }
}

/// Does blocking work that writes a file, and runs the command for the new file meanwhile. Waits
/// until few others do the same.
///
/// # Errors
///
/// Those of the work, which has the error of the validation, and [`EntryError::Stopped`] if the
/// stop is told before.
///
/// # Cancel safety
///
/// When it is dropped, the command is killed and the new file removed. Work that waits for no validation goes on.
pub(super) async fn validated(
    (argv, timeout): (&Argv, Duration),
    context: &Context,
    work: impl FnOnce(Validation) -> Result<(), EntryError> + Send + 'static,
) -> Result<(), BoxError> {
    let _turn = tokio::select! {
        biased;
        () = context.stop().wait() => return Err(EntryError::Stopped.into()),
        turn = FREE.acquire() => turn.expect("the semaphore is never closed"),
    };
    let (requests, requested) = oneshot::channel();
    let working = blocking(move || work(Validation(Some(requests))));
    let validating = async {
        // Work that ends without a new file drops its end of the channel.
        let Ok(Request { path, result }) = requested.await else { return };
        let validated = run((argv, timeout), &path, context).await;
        // Nobody needs the result of a thread that has panicked.
        drop(result.send(validated));
    };
    let (worked, ()) = tokio::join!(working, validating);
    worked
}

/// Runs the command for a new file to its end.
async fn run(
    (argv, timeout): (&Argv, Duration),
    path: &Path,
    context: &Context,
) -> Result<(), EntryError> {
    let program = argv.0.first().cloned().unwrap_or_default();
    let mut process = process(argv, path);
    process.name = context.secrets().redact(&process.name).into_owned();
    let job = Job::new(process, timeout).with_children();
    let ran = job.run(context.ledger(), context.stop(), (None, None)).await;
    let finished = match ran.map_err(|error| RunError::new(&program, error)) {
        Ok(finished) => finished,
        Err(RunError::Stopped { output }) => {
            context.log(&ends(&output));
            return Err(EntryError::Stopped);
        }
        Err(error) => {
            if let RunError::TimedOut { output, .. } = &error {
                context.log(&ends(output));
            }
            return Err(EntryError::NotValidated(error));
        }
    };
    context.log(&ends(&finished.stdout));
    context.log(&ends(&finished.stderr));
    if finished.status.success() {
        return Ok(());
    }
    let said = [&finished.stderr, &finished.stdout].map(|output| last_lines(output));
    let said = said.into_iter().find(|said| !said.is_empty()).unwrap_or_default();
    Err(EntryError::Refused { program, end: finished.end(), said })
}
