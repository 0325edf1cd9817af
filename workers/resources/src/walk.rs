use std::collections::BTreeSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::graph::Graph;

/// How many visits of a walk wait for others of it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    count: AtomicUsize,
    changed: Notify,
}

impl Waiting {
    /// Counts one that waits, until what is returned is dropped.
    pub(crate) fn begin(&self) -> impl Drop + '_ {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        StillWaiting(self)
    }
}

struct StillWaiting<'a>(&'a Waiting);

impl Drop for StillWaiting<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Visits every node after all that come before it, at most `parallel` at a time, those that wait
/// for others not counted.
///
/// `visit` is given a node and the results so far, and returns the work; those that could begin at
/// the same moment begin in the graph's order. Dropping the walk drops the work.
pub(crate) async fn walk<T, F, Fut>(
    graph: &Graph,
    (parallel, waiting): (NonZeroUsize, &Waiting),
    visit: F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(usize, &[Option<T>]) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
{
    let count = graph.order().len();
    let mut rank = vec![0; count];
    for (place, node) in graph.order().iter().enumerate() {
        rank[*node] = place;
    }
    let mut waits: Vec<usize> = (0..count).map(|node| graph.inputs(node).len()).collect();
    let mut ready: BTreeSet<usize> =
        graph.order().iter().filter(|node| waits[**node] == 0).map(|node| rank[*node]).collect();
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let mut running = JoinSet::new();
    loop {
        while running.len() < parallel.get() + waiting.count.load(Ordering::Acquire)
            && let Some(place) = ready.pop_first()
        {
            let node = graph.order()[place];
            let work = visit(node, &results);
            running.spawn(async move { (node, work.await) });
        }
        let ended = tokio::select! {
            biased;
            ended = running.join_next() => ended,
            () = waiting.changed.notified() => continue,
        };
        let Some(ended) = ended else { break };
        // The code of kinds is caught where it is called, so a panic here is a bug of this crate.
        let (node, result) = ended.unwrap_or_else(|err| resume_unwind(err.into_panic()));
        results[node] = Some(result);
        for after in graph.dependents(node) {
            waits[*after] -= 1;
            if waits[*after] == 0 {
                ready.insert(rank[*after]);
            }
        }
    }
    results
        .into_iter()
        .map(|result| result.expect("a graph in order has no node left over"))
        .collect()
}
