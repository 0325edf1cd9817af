//! The inputs come before the start, which gets their values.

use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};

const STORE: Name<String> = Name::new("store");

struct Poller;

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

fn main() {
    let builder = Manifold::builder().start(|_store, _ctx| async { Ok(Poller) }).inputs(STORE);
    drop(builder.build());
}
