//! One run of a command or a guard of the kind `exec`, to its end.

use crankcase_resources::Context;
use crankcase_workers::{Finished, Job, Told};

use crate::command::Command;
use crate::command::ended::{LOGGED, RunError};
use crate::exec::config::Exec;

/// Runs a command to its end; see [`Job::run`]. Passes each line of its output to the observer at once, unless the
/// command is a guard.
pub(super) async fn run(
    command: &Command,
    config: &Exec,
    (context, is_guard): (&Context, bool),
) -> Result<Finished, RunError> {
    let mut process = config.process(command);
    // The record of a command that runs has its name.
    process.name = context.secrets().redact(&process.name).into_owned();
    process.grace = config.grace.0;
    let program = process.command[0].to_string_lossy().into_owned();
    let say = |line: &str| context.said(line);
    let told = (!is_guard).then_some(&say as Told<'_>);
    let kept = config.max_output.0.div_ceil(2).max(LOGGED);
    let job = Job::new(process, config.timeout).kept(kept, kept);
    let run = job.run(context.ledger(), context.stop(), (told, told)).await;
    run.map_err(|error| RunError::new(&program, error))
}
