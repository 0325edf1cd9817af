use std::io::Write;

use crate::command::progress::loaded;
use crate::exit;
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
    let mut interrupts = Interrupts::listen()?;
    let asked = global.clone();
    let load = move || args.site.load(&asked);
    let Some(site) = loaded(global, &mut interrupts, load).await.transpose()? else {
        return Ok(exit::INTERRUPTED);
    };
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
