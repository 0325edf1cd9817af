//! A running watcher and a folder to watch.

use std::fs;
use std::future::ready;
use std::path::{Path, PathBuf};

use crankcase_workers::{Condition, Subscription, Watcher, WatcherConfig, Watches};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::running::{Running, TestResult, guarded};

/// A running watcher and a folder to watch.
pub(crate) struct Watching {
    folder: TempDir,
    pub(crate) watches: Watches,
    marker: Subscription,
    told: UnboundedReceiver<Option<String>>,
    pub(crate) worker: Running,
}

impl Watching {
    pub(crate) fn start(config: WatcherConfig) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = TempDir::new()?;
        let watcher = Watcher::new(config)?;
        let watches = watcher.handle();
        fs::create_dir(folder.path().join("marker"))?;
        let marker = watches.watch(&folder.path().join("marker/file"))?;
        let (tx, told) = unbounded_channel();
        let tell = move |reason: Option<&str>| drop(tx.send(reason.map(str::to_owned)));
        let worker = Running::start(watcher.telling(Condition::told_to(tell)));
        Ok(Self { folder, watches, marker, told, worker })
    }

    pub(crate) fn new() -> Result<Self, Box<dyn std::error::Error>> {
        Self::start(WatcherConfig::default())
    }

    /// Waits for the next reason for which the worker is degraded, or `None` when it is well again.
    pub(crate) async fn told(&mut self) -> Result<Option<String>, Box<dyn std::error::Error>> {
        Ok(guarded(self.told.recv()).await.ok_or("the worker has ended")?)
    }

    /// Returns how many paths the kernel does not watch.
    pub(crate) fn problems(&self) -> usize {
        self.watches.status().problems
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn watch(&self, name: &str) -> Result<Subscription, Box<dyn std::error::Error>> {
        Ok(self.watches.watch(&self.path(name))?)
    }

    /// Waits until everything that was done before has been told: the kernel keeps the order.
    pub(crate) async fn settle(&mut self) -> TestResult {
        while is_told(&mut self.marker).await {}
        fs::write(self.path("marker/file"), "")?;
        Ok(guarded(self.marker.changed()).await?)
    }

    /// Does `change`, and returns whether `subscription` is told because of it.
    pub(crate) async fn tells(
        &mut self,
        subscription: &mut Subscription,
        change: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<bool, Box<dyn std::error::Error>> {
        self.settle().await?;
        while is_told(subscription).await {}
        change(self.folder.path())?;
        self.settle().await?;
        Ok(is_told(subscription).await)
    }

    pub(crate) async fn end(self) -> TestResult {
        Ok(guarded(self.worker.clean_kill()).await.map_err(|exit| exit.to_string())?)
    }
}

/// Returns whether `subscription` has been told, and takes it.
pub(crate) async fn is_told(subscription: &mut Subscription) -> bool {
    tokio::select! {
        biased;
        told = subscription.changed() => told.is_ok(),
        () = ready(()) => false,
    }
}
