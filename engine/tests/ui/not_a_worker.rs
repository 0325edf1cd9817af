//! What a start returns must be a worker.

use crankcase_engine::Manifold;

struct Poller;

fn main() {
    let manifold = Manifold::builder().start(|(), _ctx| async { Ok(Poller) }).build();
    drop(manifold);
}
