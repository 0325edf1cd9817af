//! A daemon with one subsystem. Ask it with `crankcase report`; end it with Ctrl-C.

use std::process::ExitCode;

use crankcase_manifolds::engine::{Manifold, Name};
use crankcase_manifolds::{Agent, Logging};

fn main() -> ExitCode {
    let hello = Manifold::builder().run(|(), up| async move {
        tracing::info!("hello");
        up.ready(()).wait().await;
        Ok(())
    });
    Agent::builder().logging(Logging::from_env()).install(Name::<()>::new("hello"), hello).main()
}
