//! A closure that is up has to wait for its stop.
#![deny(unused_must_use)]

use crankcase_engine::Manifold;

fn main() {
    let manifold = Manifold::builder().run(|(), up| async move {
        up.ready(());
        Ok(())
    });
    drop(manifold);
}
