use crate::cli::Global;
use crate::exit;
use crate::site_args::SiteArgs;

/// What is checked.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    site: SiteArgs,
}

pub(crate) fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let site = args.site.load()?;
    if !global.quiet {
        crate::print::text(&format!("{} resources are valid\n", site.declarations().len()))?;
    }
    Ok(exit::DONE)
}
