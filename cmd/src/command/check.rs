//! The command `check`: validates manifests, and does no more.

use std::io::Write;

use crate::command::progress::loaded;
use crate::exit;
use crate::facts_store::find_or_none;
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::print::{self, Checked};
use crate::site_args::SiteArgs;

/// What is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let (mut interrupts, asked) = (Interrupts::listen()?, global.clone());
    // Also printed there: a signal ends what nobody reads.
    let check = move || -> anyhow::Result<()> {
        let site = args.site.load(&asked, &find_or_none(&asked)?)?;
        if asked.quiet && !asked.output.is_data() {
            return Ok(());
        }
        print::data(asked.output, &Checked::from(&site), |checked, out| {
            match checked.resources.unwrap_or_default() {
                1 => writeln!(out, "1 resource is valid"),
                count => writeln!(out, "{count} resources are valid"),
            }
        })
    };
    let checked = loaded(global, &mut interrupts, check).await.transpose()?;
    Ok(if checked.is_some() { exit::DONE } else { exit::INTERRUPTED })
}
