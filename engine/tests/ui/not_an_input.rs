//! Only names and what is made of them are inputs.

use crankcase_engine::Manifold;

fn main() {
    let builder = Manifold::builder().inputs("store");
    drop(builder);
}
