//! A changing value is compared with the one before.

use crankcase_engine::{Manifold, Outcome, Stop, Worker};
use tokio::sync::watch;

#[derive(Clone)]
struct Load;

struct Poller {
    load: watch::Receiver<Load>,
}

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

fn main() {
    let (_sender, load) = watch::channel(Load);
    let manifold = Manifold::builder()
        .start_with(load, |load, (), _ctx| async move { Ok(Poller { load }) })
        .changing(|poller| poller.load.clone())
        .build();
    drop(manifold);
}
