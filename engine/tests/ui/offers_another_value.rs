//! A closure worker hands over what it says it offers.

use crankcase_engine::Manifold;

fn main() {
    let manifold = Manifold::builder().offers::<(u16,)>().run(|(), up| async move {
        up.ready(("80",)).wait().await;
        Ok(())
    });
    drop(manifold);
}
