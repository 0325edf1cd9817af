//! An agent whose workers misbehave in the ways that its arguments name, to see what the frame does
//! about it: `02_misbehaving STATE_DIR [WORKER...]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Exit, Manifold, Name, Policy};
use crankcase_manifolds::{Agent, AgentBuilder, LogFormat, Logging, SIGNALS, process};
use crankcase_status::StateDir;
use crankcase_workers::{ProcessConfig, ProcessHandle, Signal};
use tokio::sync::Notify;

/// As many as there are workers that never yield: no thread is left for the others.
const THREADS: usize = 2;

/// The exit code after a fatal error of input or output.
const FAILED_IO: u8 = 74;

const SITE: Name<()> = Name::new("site");
const PAGE: Name<()> = Name::new("page");
const STUBBORN: Name<ProcessHandle> = Name::new("stubborn");

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(state_dir) = arguments.next().map(PathBuf::from) else { return ExitCode::from(64) };
    let agent = Agent::builder().state_dir(StateDir::new(state_dir)).worker_threads(THREADS);
    // Whoever tests it sends the second signal as soon as the first was heard.
    let agent = agent
        .signals_apart(Duration::ZERO)
        .logging(Logging::from_env())
        .exit_codes(|error| error.downcast_ref::<std::io::Error>().map(|_| FAILED_IO));
    let agent = agent.install(SITE, site());
    arguments.fold(agent, |agent, way| misbehave(agent, &way)).main()
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
            let agent = agent.stop_deadline(Duration::from_secs(1)).engine(|engine| {
                engine.policy(Policy::default().grace(Duration::from_millis(200)))
            });
            let turns: Arc<[Notify]> = (0..THREADS).map(|_| Notify::new()).collect();
            (0..THREADS).fold(agent, |agent, index| {
                let name = Name::parse(&format!("spinning-{index}"));
                agent.install::<()>(name.expect("a name"), spinning(index, &turns))
            })
        }
        "json" | "journald" => {
            let format = if way == "json" { LogFormat::Json } else { LogFormat::Journald };
            let logging = Logging::from_env().format(format);
            agent.logging(logging)
        }
        "mumbling" => {
            let logging = Logging::default().filter("loud=very".to_owned());
            agent.logging(logging)
        }
        "wedging" => agent.install(Name::<()>::new("wedging"), wedging()),
        "fatal-io" => agent.install(Name::<()>::new("fatal-io"), fatal_io()),
        "chatty" => agent.install(Name::<()>::new("chatty"), chatty()),
        "late" => agent.install(Name::<()>::new("late"), late()),
        "deaf" => agent.install(Name::<()>::new("deaf"), deaf()),
        "dropped" => {
            let dropped = deaf().grace(Duration::from_millis(1));
            agent.install(Name::<()>::new("dropped"), dropped)
        }
        "fatal" => agent.install(Name::<()>::new("fatal"), fatal()),
        "dependent" => agent.install(Name::<()>::new("dependent"), dependent()),
        "missing" => agent.install(Name::<()>::new("missing"), missing()),
        "stubborn" => {
            let agent = agent.install(STUBBORN, stubborn());
            agent.install(Name::<()>::new("onlooker"), onlooker())
        }
        "hasty" => agent.stop_deadline(Duration::from_millis(100)),
        "panicking" => agent.install(Name::<()>::new("panicking"), panicking()),
        _ => agent.install(Name::<u32>::new("mistyped"), deaf()),
    }
}

/// Never yields again: the first after SIGHUP, the others each after the one before.
///
/// Woken at once, two might be queued on one thread, where the second never gets its turn. So each
/// is woken from a thread that runs no tasks.
fn spinning(index: usize, turns: &Arc<[Notify]>) -> Manifold {
    let config = (index, Arc::clone(turns));
    let builder = Manifold::builder().inputs(SIGNALS);
    builder.run_with(config, |(index, turns), signals, up| async move {
        let _stop = up.ready(());
        match index {
            0 => drop(signals.next(Signal::Hangup, 0).await?),
            _ => turns[index].notified().await,
        }
        tracing::info!("spinning");
        drop(std::thread::spawn(move || turns.get(index + 1).map(Notify::notify_one)));
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

/// Fails fatally at the start, by an error with a cause.
fn fatal_io() -> Manifold {
    Manifold::builder()
        .run(|(), _up| async move { Err(Exit::fatal(std::io::Error::other("the disk hurt"))) })
}

/// Takes the engine's own thread at SIGHUP, and never yields again.
fn wedging() -> Manifold {
    let manifold = Manifold::builder().inputs(SIGNALS).run(|signals, up| async move {
        let _stop = up.ready(());
        signals.next(Signal::Hangup, 0).await?;
        loop {
            std::hint::spin_loop();
        }
    });
    manifold.beside_engine()
}

/// Logs more than a pipe holds at SIGHUP, and is up after that.
fn chatty() -> Manifold {
    Manifold::builder().inputs(SIGNALS).run(|signals, up| async move {
        signals.next(Signal::Hangup, 0).await?;
        for line in 0..5_000 {
            tracing::info!(line, "so much is to be said of so little that nobody wants to know");
        }
        let stop = up.ready(());
        stop.wait().await;
        tracing::info!("the last word");
        Ok(())
    })
}

/// Is up at SIGHUP only.
fn late() -> Manifold {
    Manifold::builder().inputs(SIGNALS).run(|signals, up| async move {
        tracing::info!("the late worker waits");
        signals.next(Signal::Hangup, 0).await?;
        up.ready(()).wait().await;
        Ok(())
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

/// Waits for more than an input.
fn missing() -> Manifold {
    Manifold::builder().run(|(), _up| async move { Err(Exit::missing("the bill is to be paid")) })
}

/// Runs a program that goes on when it is told to stop.
fn stubborn() -> Manifold {
    let script = "trap '' TERM; echo pid $$; while :; do sleep 1000; done";
    let command = ["sh", "-c", script].map(Into::into);
    let process = ProcessConfig::new("stubborn", command.into());
    process::manifold(process::Config { process, ledger: None }, ()).expect("it is valid")
}

/// Says when the stubborn program's worker is up: a program says something earlier, when a stop still
/// ends its start.
fn onlooker() -> Manifold {
    Manifold::builder().inputs(STUBBORN).run(|_program, up| async move {
        let stop = up.ready(());
        tracing::info!("the stubborn program is up");
        stop.wait().await;
        Ok(())
    })
}

fn panicking() -> Manifold {
    Manifold::builder().run(|(), _up| async move { panic!("at the start") })
}
