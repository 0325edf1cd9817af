//! What a worker holds over an await must be `Send`; its own `run` is shown.

use std::rc::Rc;

use crankcase_engine::{Manifold, Outcome, Stop, Worker};

struct Counter;

impl Worker for Counter {
    async fn run(self, stop: Stop) -> Outcome {
        let count = Rc::new(1);
        stop.wait().await;
        drop(count);
        Ok(())
    }
}

fn main() {
    let manifold = Manifold::builder().start(|(), _ctx| async { Ok(Counter) }).build();
    drop(manifold);
}
