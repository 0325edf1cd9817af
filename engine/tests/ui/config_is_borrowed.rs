//! A closure owns what it uses. The compiler cannot be made to name `run_with` here.

use crankcase_engine::Manifold;

struct Config {
    port: u16,
}

fn manifold(config: &Config) -> Manifold {
    Manifold::builder().run(|(), up| async move {
        let stop = up.ready(());
        drop(config.port.to_string());
        stop.wait().await;
        Ok(())
    })
}

fn main() {
    drop(manifold);
}
