//! What the engine is compared with: bare tasks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::worker::Count;

/// Bare tasks that count their start and wait for one token.
pub(crate) struct Floor {
    pub(crate) tracker: TaskTracker,
    pub(crate) token: CancellationToken,
}

impl Floor {
    pub(crate) async fn start(count: usize) -> Self {
        let (tracker, token) = (TaskTracker::new(), CancellationToken::new());
        let started = Count::new(count);
        for _ in 0..count {
            let (token, started) = (token.clone(), started.clone());
            drop(tracker.spawn(async move {
                started.add();
                token.cancelled().await;
            }));
        }
        started.reached().await;
        Self { tracker, token }
    }

    pub(crate) async fn stop(self) {
        self.tracker.close();
        self.token.cancel();
        self.tracker.wait().await;
    }
}

/// Returns the time until as many bare tasks run.
pub(crate) async fn start(count: usize) -> Duration {
    let began = Instant::now();
    let floor = Floor::start(count).await;
    let taken = began.elapsed();
    floor.stop().await;
    taken
}

/// Returns the time until as many bare tasks have ended.
pub(crate) async fn stop(count: usize) -> Duration {
    let floor = Floor::start(count).await;
    let began = Instant::now();
    floor.stop().await;
    began.elapsed()
}

/// Returns the time of ending and respawning one bare task among many, on average.
pub(crate) async fn respawn(others: usize) -> Duration {
    const TIMES: u32 = 20_000;
    let floor = Floor::start(others).await;
    let (end, up) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let body = || {
        let (end, up) = (Arc::clone(&end), Arc::clone(&up));
        async move {
            up.notify_one();
            end.notified().await;
        }
    };
    let mut task = floor.tracker.spawn(body());
    up.notified().await;
    let began = Instant::now();
    for _ in 0..TIMES {
        end.notify_one();
        task.await.unwrap();
        task = floor.tracker.spawn(body());
        up.notified().await;
    }
    let taken = began.elapsed();
    task.abort();
    floor.stop().await;
    taken / TIMES
}
