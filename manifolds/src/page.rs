//! The status page.

use std::path::PathBuf;

use crankcase_engine::Manifold;
use crankcase_status::{Page, PageAddress, PageConfig};
use crankcase_workers::replace_file;

/// What the page shows, and where it is.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the page is served.
    pub address: PageAddress,
    /// What it shows and allows.
    pub page: PageConfig,
    /// The file that the page's address with its token is written to, with mode 0600.
    pub url: PathBuf,
}

/// Returns a manifold that serves the status page of an agent.
///
/// The address has a token, which is a secret: it is written to a file for its owner, and not to the log.
pub fn manifold(config: Config) -> Manifold {
    Manifold::builder()
        .start_with(config, |Config { address, page, url }, (), _ctx| async move {
            let page = Page::listen(address, page).await?;
            replace_file(&url, format!("{}\n", page.url()).as_bytes(), 0o600)?;
            tracing::info!(file = %url.display(), "the status page is served; its address is in a file");
            Ok(page)
        })
        .build()
}
