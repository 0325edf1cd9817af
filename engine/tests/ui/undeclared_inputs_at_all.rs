//! A manifold that declares no inputs is given none.

use crankcase_engine::{Context, Exit, Manifold, Outcome, Stop, Worker};

struct Poller {
    store: String,
}

impl Worker for Poller {
    async fn run(self, stop: Stop) -> Outcome {
        drop(self.store);
        stop.wait().await;
        Ok(())
    }
}

async fn start(store: String, _ctx: Context) -> Result<Poller, Exit> {
    Ok(Poller { store })
}

fn main() {
    let manifold = Manifold::builder().start(start).build();
    drop(manifold);
}
