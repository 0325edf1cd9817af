//! A start returns a result, because it may fail.

use crankcase_engine::{Manifold, Outcome, Stop, Worker};

struct Poller;

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

fn main() {
    let manifold = Manifold::builder().start(|(), _ctx| async { Poller }).build();
    drop(manifold);
}
