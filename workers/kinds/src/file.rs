use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::{
    AttributeError, BoxError, Check, CheckContext, Claimed, Config, Kind, KnownConfig, Params,
    Resource, Table, Watch, judge, read,
};

use crate::blocking::blocking;
use crate::file::config::{FileConfig, FileState};

mod change;
mod check;
mod config;
mod content;
mod diff;
mod error;
mod observe;
mod owner;

/// The `file` kind: a file with its content, or a folder, with mode, owner and group.
///
/// A file is written under a temporary name in its folder, with its final owner and mode, synced,
/// and renamed; so it is the old or the new one at every instant. Attributes that are not given
/// are left as they are; a new file gets mode 0644, a new folder 0755.
///
/// The path is followed through symlinks only where nobody but root and the agent's user could
/// have put them, and a target that is a symlink, a device or the like is never touched. An absent
/// folder is removed only when it is empty.
#[derive(Debug)]
pub(crate) struct File;

impl Kind for File {
    fn name(&self) -> &'static str {
        "file"
    }

    fn summary(&self) -> &'static str {
        "keeps a file with its content, or a folder, with mode, owner and group"
    }

    fn table(&self) -> &Table {
        FileConfig::table()
    }

    fn states(&self) -> &Table {
        FileState::table()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        judge::<FileConfig>(known)
    }

    fn claims(&self, known: &KnownConfig<'_>) -> Claimed {
        config::claims(known)
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        Ok(Arc::new(Entry { config: Arc::new(read::<FileConfig>(config)?) }))
    }
}

/// A file or folder as declared.
#[derive(Debug)]
struct Entry {
    config: Arc<FileConfig>,
}

#[async_trait]
impl Resource for Entry {
    async fn check(&self, context: &CheckContext) -> Result<Check, BoxError> {
        let (config, context) = (Arc::clone(&self.config), context.clone());
        blocking(move || check::check(&config, &context)).await
    }

    fn watch(&self, context: &CheckContext) -> Watch {
        let source = self.config.content().and_then(|content| content.path(context));
        Watch::Paths([self.config.path.full()].into_iter().chain(source).collect())
    }
}
