//! An agent whose workers misbehave in the ways that its arguments name, to see what the frame does
//! about it: `02_misbehaving STATE_DIR [WORKER...]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crankcase_engine::{Engine, Exit, Manifold, Name};
use crankcase_manifolds::{Agent, AgentBuilder, Ended, SIGNALS};
use crankcase_status::StateDir;
use crankcase_workers::Signal;

/// As many as there are workers that never yield: no thread is left for the others.
const THREADS: usize = 2;

const SITE: Name<()> = Name::new("site");
const PAGE: Name<()> = Name::new("page");

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let Some(state_dir) = arguments.next().map(PathBuf::from) else { return ExitCode::from(64) };
    let agent = Agent::builder().state_dir(StateDir::new(state_dir)).worker_threads(THREADS);
    let agent = agent.install(SITE, site());
    let ended = arguments.fold(agent, |agent, way| misbehave(agent, &way)).run();
    ended.map_or_else(
        |error| {
            let exit_code = error.exit_code();
            tracing::error!("{}", Exit::failed(error));
            exit_code
        },
        Ended::exit_code,
    )
}

/// A nested engine with a worker that does nothing.
fn site() -> Manifold {
    let page = Manifold::builder().run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    Manifold::builder()
        .start_with(page, |page, (), ctx| async move {
            let engine = Engine::builder().build_nested(&ctx)?;
            engine.install(PAGE, page).await?;
            tracing::info!("the site is up");
            Ok(engine)
        })
        .report(|engine| engine.reporter())
        .build()
}

fn misbehave(agent: AgentBuilder, way: &str) -> AgentBuilder {
    match way {
        "spinning" => {
            let agent = agent
                .stop_deadline(Duration::from_secs(1))
                .engine(|engine| engine.grace(Duration::from_millis(200)));
            (0..THREADS).fold(agent, |agent, index| {
                let name = Name::parse(&format!("spinning-{index}"));
                agent.install::<()>(name.expect("a name"), spinning())
            })
        }
        "deaf" => agent.install(Name::<()>::new("deaf"), deaf()),
        "fatal" => agent.install(Name::<()>::new("fatal"), fatal()),
        "dependent" => agent.install(Name::<()>::new("dependent"), dependent()),
        "panicking" => agent.install(Name::<()>::new("panicking"), panicking()),
        _ => agent.install(Name::<u32>::new("mistyped"), deaf()),
    }
}

/// Never yields again after SIGHUP.
fn spinning() -> Manifold {
    Manifold::builder().inputs(SIGNALS).run(|signals, up| async move {
        let _stop = up.ready(());
        signals.next(Signal::Hangup, 0).await?;
        tracing::info!("spinning");
        loop {
            std::hint::spin_loop();
        }
    })
}

/// Does not hear that it is to stop.
fn deaf() -> Manifold {
    Manifold::builder().run(|(), up| async move {
        let stop = up.ready(());
        tracing::info!("the deaf worker is up");
        stop.wait().await;
        tracing::info!("not listening");
        std::future::pending().await
    })
}

/// Fails fatally at SIGHUP.
fn fatal() -> Manifold {
    Manifold::builder().inputs(SIGNALS).run(|signals, up| async move {
        let stop = up.ready(());
        tokio::select! {
            () = stop.wait() => Ok(()),
            _ = signals.next(Signal::Hangup, 0) => Err(Exit::fatal("the signal hurt")),
        }
    })
}

/// Stops before the nested engine does, and says so.
fn dependent() -> Manifold {
    Manifold::builder().inputs(SITE).run(|(), up| async move {
        let stop = up.ready(());
        tracing::info!("the dependent is up");
        stop.wait().await;
        tracing::info!("the dependent stops");
        Ok(())
    })
}

fn panicking() -> Manifold {
    Manifold::builder().run(|(), _up| async move { panic!("at the start") })
}
