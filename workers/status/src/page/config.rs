//! What the status page shows, and which changes it allows.

use std::path::PathBuf;

/// What a [`Page`](super::Page) shows and allows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PageConfig {
    /// The state folder of the agent.
    pub state_dir: PathBuf,
    /// Whether workers may be bounced, parked, unparked, paused and resumed. Default false.
    pub allows_changes: bool,
    /// The name under which the agent's journal has the changes that are made on the page. Default `the page`.
    pub who: String,
    /// The token that requests need, in hexadecimal digits; for a page that was served before, so that those that are
    /// open go on. Default: a new one of 128 random bits.
    pub token: Option<String>,
    /// Returns what is shown for the name or the path of a worker. Default the name itself.
    pub name: fn(&str) -> String,
}

crankcase_engine::setters! {
    PageConfig {
        state_dir: PathBuf,
        allows_changes: bool,
        who: String,
        name: fn(&str) -> String,
    }
    optional { token: String, }
}

impl PageConfig {
    /// Returns the default configuration for the agent of a state folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            allows_changes: false,
            who: "the page".to_owned(),
            token: None,
            name: str::to_owned,
        }
    }
}
