//! The command `why`: shows the chain from a worker to the root cause.

use std::io::Write;

use crate::global::Global;
use crate::paths::worker_path;
use crate::{exit, print};

/// Which worker it is about.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The worker, such as /agent/resources/www
    path: String,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let answer = global.connect().await?.why(&worker_path(&args.path)).await?;
    print::data(global.output, &answer, |answer, out| {
        writeln!(out, "{}", print::indented(&answer.text, 2))
    })?;
    Ok(exit::DONE)
}
