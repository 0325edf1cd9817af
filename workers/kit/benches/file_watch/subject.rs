//! The watcher and 10,000 workers that depend on it, in an engine.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Change, Engine, Manifold, Name};
use crankcase_workers::{Watcher, WatcherConfig, Watches};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::files::{CHANGES, Files};

const WATCHES: Name<Watches> = Name::new("watches");

pub(crate) struct Subject {
    engine: Engine,
    told: Arc<Notify>,
}

impl Subject {
    /// Starts a worker for each file.
    pub(crate) async fn start(files: &Files) -> Self {
        let engine = Engine::builder().build().unwrap();
        let watcher = Manifold::builder()
            .start(|(), _ctx| async move { Ok(Watcher::new(WatcherConfig::default())?) })
            .output(Watcher::handle)
            .build();
        let told = Arc::new(Notify::new());
        let mut change = Change::new().install(WATCHES, watcher);
        for (number, path) in files.paths.iter().enumerate() {
            let config = (path.clone(), Arc::clone(&told));
            let user = Manifold::builder().inputs(WATCHES).run_with(
                config,
                |(path, told), watches, up| async move {
                    let mut file = watches.watch(&path)?;
                    let stop = up.ready(());
                    loop {
                        tokio::select! {
                            biased;
                            () = stop.wait() => return Ok(()),
                            changed = file.changed() => changed?,
                        }
                        told.notify_one();
                    }
                },
            );
            let name = Name::<()>::parse(&format!("user-{number}")).unwrap();
            change = change.install(name, user);
        }
        engine.apply(change).await.unwrap();
        engine.settled().await.unwrap();
        Self { engine, told }
    }

    /// Returns the time from a change until the worker that depends on the file has been told.
    pub(crate) async fn change(&self, files: &Files) -> Duration {
        let began = Instant::now();
        for number in 0..CHANGES {
            files.change(number);
            self.told.notified().await;
        }
        began.elapsed() / CHANGES
    }

    pub(crate) async fn stop(self) {
        self.engine.stop().await.unwrap();
    }
}
