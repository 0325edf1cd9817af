//! Outputs are a tuple, also a single one.

use crankcase_engine::{Manifold, Name};

const STORE: Name<String> = Name::new("store");

fn main() {
    let builder = Manifold::builder().inputs(STORE).offers::<usize>();
    drop(builder);
}
