//! A start reaches only what it has declared.

use crankcase_engine::{Manifold, Name};

const STORE: Name<String> = Name::new("store");
const CLOCK: Name<u64> = Name::new("clock");

fn main() {
    let manifold =
        Manifold::builder().inputs((STORE, CLOCK)).run(|(store, clock, limits), up| async move {
            let stop = up.ready(());
            drop((store, clock, limits));
            stop.wait().await;
            Ok(())
        });
    drop(manifold);
}
