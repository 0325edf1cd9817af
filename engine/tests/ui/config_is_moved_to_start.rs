//! A start is called once for each generation, so `start_with` clones its config each time.

use crankcase_engine::{Manifold, Outcome, Stop, Worker};

struct Poller {
    url: String,
}

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        drop(self.url);
        Ok(())
    }
}

fn manifold(url: String) -> Manifold {
    Manifold::builder().start(move |(), _ctx| async move { Ok(Poller { url }) }).build()
}

fn main() {
    drop(manifold);
}
