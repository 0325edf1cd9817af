use std::io::Write;

use crate::exit;
use crate::global::Global;
use crate::print::{self, Checked};
use crate::site_args::SiteArgs;

/// What is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let site = args.site.load(global)?;
    if !global.quiet || global.output.is_data() {
        print::data(global.output, &Checked::from(&site), |checked, out| {
            match checked.resources.unwrap_or_default() {
                1 => writeln!(out, "1 resource is valid"),
                count => writeln!(out, "{count} resources are valid"),
            }
        })?;
    }
    Ok(exit::DONE)
}
