//! A value is handed in under a name of its type.

use crankcase_engine::{Engine, Name};

const PORT: Name<u16> = Name::new("port");

async fn provide(engine: Engine) {
    drop(engine.provide(PORT, "80").await);
}

fn main() {
    drop(provide);
}
