//! The command `page`: serves the page on which the running agent is seen live.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crankcase_engine::{Stop, Worker};
use crankcase_resources::front::resource_name;
use crankcase_status::{Page, PageAddress, PageConfig};

use super::control::user;
use crate::exit;
use crate::global::{Format, Global};
use crate::interrupts::Interrupts;
use crate::print;

/// Where the page is served, and what it allows.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port on 127.0.0.1 [default: one that the system picks]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Serve on a Unix socket instead of a port, for a proxy that asks for the host `localhost`
    #[arg(long, value_name = "PATH", conflicts_with_all = ["port", "page_insecure_address"])]
    socket: Option<PathBuf>,
    /// Let the page bounce, park, unpark, pause and resume workers, in your name
    #[arg(long)]
    allow_changes: bool,
    /// Serve on this address instead of 127.0.0.1, without encryption: whoever can read the traffic sees the token,
    /// all that the page shows, and may do what it allows
    #[arg(long, value_name = "ADDRESS")]
    page_insecure_address: Option<IpAddr>,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    let mut interrupts = Interrupts::listen()?;
    let mut config = PageConfig::new(global.state_dir()?.path());
    config = config.allows_changes(args.allow_changes).who(user()).name(resource_name);
    let address = match args.socket {
        Some(path) => PageAddress::Unix(path),
        None => {
            let address = args.page_insecure_address.unwrap_or(Ipv4Addr::LOCALHOST.into());
            PageAddress::Tcp(SocketAddr::new(address, args.port))
        }
    };
    let page = Page::listen(address, config).await?;
    // The address is what was asked for; without a reader there is nobody to open it.
    print::line(Format::Human, &(), |(), out| writeln!(out, "{}", page.url()))?;
    let (stopper, stop) = Stop::pair();
    let mut serving = std::pin::pin!(page.run(stop));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = interrupts.next() => {
            stopper.stop();
            serving.await
        }
    };
    ended.map_err(|exit| anyhow::anyhow!("the page has ended: {exit}"))?;
    Ok(exit::DONE)
}
