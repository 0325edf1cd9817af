//! The type of an output is cloned for each user.

use crankcase_engine::{Manifold, Outcome, Stop, Worker};

struct Socket;

struct Server;

impl Worker for Server {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

fn main() {
    let manifold =
        Manifold::builder().start(|(), _ctx| async { Ok(Server) }).output(|_| Socket).build();
    drop(manifold);
}
