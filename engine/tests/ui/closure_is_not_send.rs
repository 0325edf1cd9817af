//! What a closure worker holds over an await must be `Send`.

use std::rc::Rc;

use crankcase_engine::Manifold;

fn main() {
    let manifold = Manifold::builder().run(|(), up| async move {
        let stop = up.ready(());
        let count = Rc::new(1);
        stop.wait().await;
        drop(count);
        Ok(())
    });
    drop(manifold);
}
