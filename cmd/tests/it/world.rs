//! An engine with a control socket, and the program to ask it.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::manifold::Up;
use crankcase_engine::{Backoff, Engine, Exit, Manifold, Name, Outcome, Stop, Worker};
use crankcase_status::{Control, ControlConfig, StateDir};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::machine::within;

pub(crate) type Error = Box<dyn std::error::Error>;
pub(crate) type TestResult = Result<(), Error>;

/// What the program did.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns the program with some arguments, in an environment that says nothing. `CRANKCASE_TEST_AGENT` names
/// another build of it.
pub(crate) fn program(arguments: &[&str]) -> Command {
    // Programs inherit a signal that is ignored, as SIGHUP is under `nohup`, but none that is handled.
    drop(signal(SignalKind::hangup()).expect("the handler is installed"));
    let mut command = Command::new(
        std::env::var_os("CRANKCASE_TEST_AGENT").unwrap_or(env!("CARGO_BIN_EXE_crankcase").into()),
    );
    command.args(arguments).env_clear().env("USER", "ada").kill_on_drop(true);
    command.envs(std::env::var_os("DOCKER_HOST").map(|host| ("DOCKER_HOST", host)));
    command.stdin(Stdio::null());
    command
}

/// Runs a program to its end.
pub(crate) async fn ran(mut command: Command) -> Result<Ran, Error> {
    let output = within(command.output()).await??;
    Ok(Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

/// An engine with workers in several states, and its control socket.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    stop: Box<dyn Fn() + Send>,
    tasks: JoinSet<Outcome>,
}

impl World {
    pub(crate) async fn start() -> Result<Self, Error> {
        Self::start_with(engine().await?)
    }

    pub(crate) fn start_with(engine: Engine) -> Result<Self, Error> {
        Self::start_as(engine, ControlConfig::default())
    }

    pub(crate) fn start_as(engine: Engine, config: ControlConfig) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let lock = Arc::new(StateDir::new(folder.path().to_owned()).lock()?);
        let control = Control::listen(&lock, engine.clone(), config)?;
        let (stopper, stop) = Stop::pair();
        let mut tasks = JoinSet::new();
        tasks.spawn(control.run(stop));
        Ok(Self { engine, folder, stop: Box::new(move || stopper.stop()), tasks })
    }

    /// Returns the program with some arguments and the state folder.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.arg("--state-dir").arg(self.folder.path());
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Ran, Error> {
        ran(self.program(arguments)).await
    }

    pub(crate) async fn clean_kill(mut self) -> TestResult {
        (self.stop)();
        let ended = self.tasks.join_next().await.ok_or("it had ended before")?;
        ended?.map_err(|exit| exit.to_string())?;
        Ok(self.engine.stop().await?)
    }
}

const SITE: Name<()> = Name::new("site");
const WELL: Name<()> = Name::new("well");
const WAITER: Name<()> = Name::new("waiter");
const FAILING: Name<()> = Name::new("failing");

async fn engine() -> Result<Engine, Error> {
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    let waiter = Manifold::builder().inputs(Name::<()>::new("absent"));
    engine.install(WAITER, waiter.run(|(), up| idle(up))).await?;
    let site = Manifold::builder()
        .start(|(), ctx| async move {
            let engine = Engine::builder().build_nested(&ctx)?;
            engine.install(WELL, Manifold::builder().run(|(), up| idle(up))).await?;
            engine.running(WELL).await?;
            Ok(engine)
        })
        .report(|engine| engine.reporter())
        .build();
    engine.install(SITE, site).await?;
    engine.running(SITE).await?;
    Ok(engine)
}

async fn idle(up: Up<()>) -> Outcome {
    up.ready(()).wait().await;
    Ok(())
}

/// Installs a worker that fails and then waits for very long.
pub(crate) async fn install_failing(engine: &Engine) -> TestResult {
    let backoff = Backoff::default().initial(Duration::from_secs(100));
    let failing = Manifold::builder()
        .run(|(), _up| async move { Err(Exit::failed("no luck\nat all")) })
        .backoff(backoff);
    engine.install(FAILING, failing).await?;
    Ok(engine.settled().await?)
}
