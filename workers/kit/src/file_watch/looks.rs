//! Looks at what the kernel does not watch.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Backoff;
use serde::Serialize;
use tokio::time::Instant;

use super::error::WatchProblem;
use crate::condition::{Condition, chain};
use crate::moment::until;

/// How long until the first look, if that is not above the longest wait.
const FIRST: Duration = Duration::from_secs(1);

/// What a [`Watcher`](crate::Watcher) watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct WatchStatus {
    /// How many paths are subscribed to.
    pub subscriptions: usize,
    /// How many folders the kernel watches for them.
    pub watches: usize,
    /// How many subscriptions are not, or not wholly, watched by the kernel.
    pub problems: usize,
    /// Why the first of them is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_problem: Option<String>,
}

/// When to look, and whom to tell why.
#[derive(Debug)]
pub(super) struct Looks {
    pub(super) condition: Condition,
    waits: Backoff,
    /// The next look, while there are problems.
    next: Option<Instant>,
    /// How many there were since the problems began.
    count: u32,
    seen: Option<(usize, Arc<WatchProblem>)>,
    told: Option<String>,
}

impl Looks {
    pub(super) fn new(look_every: Duration) -> Self {
        let waits = Backoff::default().initial(FIRST.min(look_every)).max(look_every);
        Self { condition: Condition::untold(), waits, next: None, count: 0, seen: None, told: None }
    }

    /// Takes how many problems there are now, and the first.
    pub(super) fn take(&mut self, problems: Option<(usize, Arc<WatchProblem>)>) {
        if problems.is_none() {
            self.next = None;
            self.count = 0;
        } else if self.next.is_none() {
            self.count = self.count.saturating_add(1);
            self.next = Some(Instant::now() + self.waits.base(self.count));
        }
        let key = |(count, problem): &(usize, Arc<WatchProblem>)| (*count, Arc::as_ptr(problem));
        if problems.as_ref().map(key) != self.seen.as_ref().map(key) {
            self.tell(problems.as_ref().map(|(count, first)| text_of(*count, first)));
            self.seen = problems;
        }
    }

    fn tell(&mut self, reason: Option<String>) {
        if reason == self.told {
            return;
        }
        match &reason {
            Some(reason) => self.condition.degraded(reason),
            None => self.condition.good(),
        }
        self.told = reason;
    }

    /// Waits for the next look. Cancel safe; to be called again after [`take`](Self::take).
    pub(super) async fn next(&mut self) {
        until(self.next).await;
        self.next = None;
    }
}

fn text_of(count: usize, first: &WatchProblem) -> String {
    let first = chain(first);
    match count {
        1 => format!("a path is not watched: {first}"),
        _ => format!("{count} paths are not watched: {first}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::Instant;

    use super::Looks;
    use crate::file_watch::WatchProblem;

    #[tokio::test(start_paused = true)]
    async fn looks_are_further_apart_until_the_problem_is_gone() {
        let source = io::ErrorKind::PermissionDenied.into();
        let problem = Arc::new(WatchProblem::Folder { folder: "/root".into(), source });
        let mut looks = Looks::new(Duration::from_secs(5));
        let mut waits = Vec::new();

        for round in 0..6 {
            if round == 4 {
                looks.take(None);
            }
            let began = Instant::now();
            looks.take(Some((1, Arc::clone(&problem))));
            looks.next().await;
            waits.push(began.elapsed().as_secs());
        }

        assert_eq!(waits, [1, 2, 4, 5, 1, 2]);
    }
}
