//! Only a builder that has its start is a manifold.

use crankcase_engine::{Engine, Manifold, Name};

const POLLER: Name<()> = Name::new("poller");

async fn install(engine: Engine) {
    drop(engine.install(POLLER, Manifold::builder()).await);
}

fn main() {
    drop(install);
}
