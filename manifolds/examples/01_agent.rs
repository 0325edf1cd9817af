//! A daemon with one subsystem. Ask it with `crankcase report`; end it with Ctrl-C.

use std::process::ExitCode;

use crankcase_engine::{Manifold, Name};
use crankcase_manifolds::{Agent, Ended};

const HELLO: Name<()> = Name::new("hello");

fn main() -> ExitCode {
    tracing_subscriber::fmt().init();
    let hello = Manifold::builder().run(|(), up| async move {
        tracing::info!("hello");
        up.ready(()).wait().await;
        Ok(())
    });
    let ended = Agent::builder().install(HELLO, hello).run();
    ended.map_or_else(|error| error.exit_code(), Ended::exit_code)
}
