//! What a user without the engine picks for named tasks: a `JoinMap`.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::JoinMap;

use crate::worker::Count;

/// Bare tasks with names that count their start and wait for one token.
pub(crate) struct Named {
    tasks: JoinMap<String, ()>,
    token: CancellationToken,
}

impl Named {
    pub(crate) async fn start(names: Vec<String>) -> Self {
        let (mut tasks, token) = (JoinMap::new(), CancellationToken::new());
        let started = Count::new(names.len());
        for name in names {
            let (token, started) = (token.clone(), started.clone());
            tasks.spawn(name, async move {
                started.add();
                token.cancelled().await;
            });
        }
        started.reached().await;
        Self { tasks, token }
    }

    async fn stop(mut self) {
        self.token.cancel();
        while let Some((_name, ended)) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

/// Returns the names `w0`, `w1` and so on.
pub(crate) fn texts(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("w{index}")).collect()
}

/// Returns the time until as many named tasks run.
pub(crate) async fn start(count: usize) -> Duration {
    let names = texts(count);
    let began = Instant::now();
    let named = Named::start(names).await;
    let taken = began.elapsed();
    named.stop().await;
    taken
}

/// Returns the time until as many named tasks have ended.
pub(crate) async fn stop(count: usize) -> Duration {
    let named = Named::start(texts(count)).await;
    let began = Instant::now();
    named.stop().await;
    began.elapsed()
}
