use std::collections::BTreeSet;
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::order::Order;

/// What each visit of a walk holds while it works: there are as many as may work at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Slot {
    /// Waits for something without holding the slot, and for the slot again.
    pub(crate) async fn without<F: Future>(&mut self, wait: F) -> F::Output {
        self.held = None;
        let output = wait.await;
        self.held = Arc::clone(&self.slots).acquire_owned().await.ok();
        output
    }
}

/// Does some work, which holds a slot to its end.
pub(crate) async fn holding<F: Future>(slot: Slot, work: F) -> F::Output {
    let output = work.await;
    drop(slot);
    output
}

/// Visits every node after all that come before it, as many at a time as there are slots.
///
/// `visit` is given a node, the results so far and a slot, and returns the work; those that could
/// begin at the same moment begin in the graph's order. Dropping the walk drops the work.
pub(crate) async fn walk<T, F, Fut>(order: &Order, parallel: NonZeroUsize, visit: F) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(usize, &[Option<T>], Slot) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
{
    let count = order.nodes().len();
    let mut rank = vec![0; count];
    for (place, node) in order.nodes().iter().enumerate() {
        rank[*node] = place;
    }
    let mut waits: Vec<usize> = (0..count).map(|node| order.inputs(node).len()).collect();
    let mut ready: BTreeSet<usize> =
        order.nodes().iter().filter(|node| waits[**node] == 0).map(|node| rank[*node]).collect();
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    let slots = Arc::new(Semaphore::new(parallel.get().min(Semaphore::MAX_PERMITS)));
    let mut running = JoinSet::new();
    loop {
        let ended = tokio::select! {
            biased;
            Some(ended) = running.join_next() => ended,
            slot = Arc::clone(&slots).acquire_owned(), if !ready.is_empty() => {
                let Some(place) = ready.pop_first() else { continue };
                let node = order.nodes()[place];
                let slot = Slot { slots: Arc::clone(&slots), held: slot.ok() };
                let work = visit(node, &results, slot);
                running.spawn(async move { (node, work.await) });
                continue;
            }
            else => break,
        };
        // The code of kinds is caught where it is called, so a panic here is a bug of this crate.
        let (node, result) = ended.unwrap_or_else(|err| resume_unwind(err.into_panic()));
        results[node] = Some(result);
        for after in order.dependents(node) {
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
