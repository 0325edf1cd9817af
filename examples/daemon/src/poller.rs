//! Looks at fresh notes, from time to time.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::Cache;

/// Looks at each fresh note once, every so often, until `stop` is there.
///
/// # Panics
///
/// At the note `panic`: the fault that every program has somewhere.
pub async fn poll(cache: Cache, every: Duration, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let mut turns = interval(every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
    tracing::info!(?every, "polls");
    loop {
        tokio::select! {
            biased;
            () = &mut stop => return,
            _ = turns.tick() => {}
        }
        while let Some(note) = cache.take_fresh() {
            assert!(note.text != "panic", "the poller cannot read this note");
            tracing::info!(tenant = %note.tenant, text = note.text, "has seen");
        }
    }
}
