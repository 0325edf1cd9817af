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
        let text = match site.declarations().len() {
            1 => "1 resource is valid\n".to_owned(),
            count => format!("{count} resources are valid\n"),
        };
        crate::print::text(&text)?;
    }
    Ok(exit::DONE)
}
