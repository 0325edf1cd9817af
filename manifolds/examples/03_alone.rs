//! What the tests of this crate look at in a process of its own: `03_alone SCENE [ARGUMENT...]`.

use std::error::Error;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use crankcase_engine::{Detail, EventKind, Name};
use crankcase_manifolds::file_watch;
use crankcase_testing::{EventRecorder, clean_kill, test_engine};
use crankcase_workers::{WatcherConfig, Watches};

const WATCHES: Name<Watches> = Name::new("watches");
const LIMIT: &str = "/proc/sys/user/max_inotify_watches";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", address] => serve(address),
        ["notify"] => notify(),
        ["watches"] => watches_beyond_the_limit().await,
        _ => Err(format!("no such scene: {arguments:?}").into()),
    }
}

/// Accepts connections at an address, for ever.
fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    for connection in TcpListener::bind(address)?.incoming() {
        drop(connection?);
    }
    Ok(())
}

/// Says that it is ready, and waits to be ended.
fn notify() -> Result<(), Box<dyn Error>> {
    let path = std::env::var_os("NOTIFY_SOCKET").ok_or("there is no socket")?;
    UnixDatagram::unbound()?.send_to(b"READY=1", path)?;
    loop {
        std::thread::park();
    }
}

/// Subscribes beyond the limit of watches, which changes the limit of the namespace.
async fn watches_beyond_the_limit() -> Result<(), Box<dyn Error>> {
    std::fs::write(LIMIT, "1")?;
    let engine = test_engine().build()?;
    let mut events = EventRecorder::new(&engine);
    engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
    let handle = engine.output(WATCHES).await?;

    let _path = handle.watch(&std::env::current_exe()?)?;

    let is_said = |kind: &EventKind| {
        matches!(kind, EventKind::Health { degraded: Some(reason) }
            if reason.contains("user.max_inotify_watches is 1)"))
    };
    events.wait_for(|event| is_said(&event.kind)).await?;
    let report = engine.report().await;
    let Some(Detail::Value(status)) = &report.workers["watches"].report else {
        return Err("no report".into());
    };
    assert_eq!((&status["subscriptions"], &status["problems"]), (&1.into(), &1.into()));
    std::fs::write(LIMIT, "1000")?;
    let is_well = |kind: &EventKind| *kind == EventKind::Health { degraded: None };
    events.wait_for(|event| is_well(&event.kind)).await?;
    Ok(clean_kill(engine).await?)
}
