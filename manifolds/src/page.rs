//! The status page.

use std::path::{Path, PathBuf};

use crankcase_engine::Manifold;
use crankcase_status::{Page, PageAddress, PageConfig};
use crankcase_workers::{Folder, replace_file};

/// The largest address that is read, in bytes.
const LARGEST: u64 = 4096;

/// The content of the page, and its places.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the page is served.
    pub address: PageAddress,
    /// The content of the page, and the requests that it allows.
    pub page: PageConfig,
    /// The file for the page's address with its token. Its mode is 0600.
    pub url: PathBuf,
}

/// Returns a manifold that serves the status page of an agent.
///
/// The token in the address is a secret. So the worker writes the address to a file for its owner,
/// and not to the log. If the file has a token already, the worker keeps it. Remove the file to get
/// a new token.
pub fn manifold(config: Config) -> Manifold {
    Manifold::builder()
        .start_with(config, |Config { address, page, url }, (), _ctx| async move {
            // The token stays the same, so that open pages go on.
            let page = match token_of(&url) {
                Some(token) => page.token(token),
                None => page,
            };
            let page = Page::listen(address, page).await?;
            replace_file(&url, format!("{}\n", page.url()).as_bytes(), 0o600)?;
            let file = url.display();
            tracing::info!(%file, "the status page is served; its address is in a file");
            Ok(page)
        })
        .build()
}

/// Returns the token of the address that was written last.
fn token_of(url: &Path) -> Option<String> {
    let folder = Folder::open(url.parent()?).ok()?;
    let text = String::from_utf8(folder.read(url.file_name()?, LARGEST).ok()?).ok()?;
    let token = text.trim_end().split_once("#token=")?.1;
    let is_whole = token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| token.to_owned())
}
