//! A closure is called once for each generation, so `run_with` clones its config each time.

use crankcase_engine::Manifold;

struct Config {
    port: u16,
}

fn manifold(config: Config) -> Manifold {
    Manifold::builder().run(move |(), up| async move {
        let stop = up.ready(());
        stop.wait().await;
        drop(config);
        Ok(())
    })
}

fn main() {
    drop(manifold);
}
