//! An engine with a few workers, and a control socket for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Manifold, Name, Outcome, Stop, Worker};
use crankcase_status::{Client, Control, ControlConfig, StateDir};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

pub(crate) type Error = Box<dyn std::error::Error>;
pub(crate) type TestResult = Result<(), Error>;

pub(crate) const STORE: Name<u32> = Name::new("store");
pub(crate) const SITE: Name<()> = Name::new("site");
pub(crate) const PAGE: Name<()> = Name::new("page");
pub(crate) const WAITER: Name<()> = Name::new("waiter");
pub(crate) const ABSENT: Name<()> = Name::new("absent");

/// A control socket that answers for an engine with a nested one.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    stop: Box<dyn Fn() + Send>,
    tasks: JoinSet<Outcome>,
}

impl World {
    pub(crate) async fn start() -> Result<Self, Error> {
        Self::start_with(ControlConfig::default()).await
    }

    pub(crate) async fn start_with(config: ControlConfig) -> Result<Self, Error> {
        Self::start_in(tempfile::tempdir()?, "", config).await
    }

    /// Starts it in a folder of the folder.
    pub(crate) async fn start_in(
        folder: TempDir,
        below: &str,
        config: ControlConfig,
    ) -> Result<Self, Error> {
        let engine = engine().await?;
        let lock = Arc::new(StateDir::new(folder.path().join(below)).lock()?);
        let control = Control::listen(&lock, engine.clone(), config)?;
        let (stopper, stop) = Stop::pair();
        let mut tasks = JoinSet::new();
        tasks.spawn(control.run(stop));
        Ok(Self { engine, folder, stop: Box::new(move || stopper.stop()), tasks })
    }

    pub(crate) async fn client(&self) -> Result<Client, Error> {
        Ok(Client::connect(self.folder.path()).await?)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Tells the control socket to stop.
    pub(crate) fn stop(&self) {
        (self.stop)();
    }

    /// Stops the control socket and waits for its end.
    pub(crate) async fn clean_kill(self) -> TestResult {
        self.into_folder().await.map(drop)
    }

    /// Stops all, and returns the folder as it was left.
    pub(crate) async fn into_folder(mut self) -> Result<TempDir, Error> {
        self.stop();
        let ended = guarded(self.tasks.join_next()).await.ok_or("it had ended before")?;
        ended?.map_err(|exit| exit.to_string())?;
        self.engine.stop().await?;
        Ok(self.folder)
    }
}

async fn engine() -> Result<Engine, Error> {
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    engine.provide(STORE, 7).await?;
    let waiter = Manifold::builder().inputs(ABSENT).run(|(), up| async move {
        up.ready(()).wait().await;
        Ok(())
    });
    engine.install(WAITER, waiter).await?;
    let site = Manifold::builder()
        .start(|(), ctx| async move {
            let engine = Engine::builder().build_nested(&ctx)?;
            let page = Manifold::builder().run(|(), up| async move {
                up.ready(()).wait().await;
                Ok(())
            });
            engine.install(PAGE, page).await?;
            engine.running(PAGE).await?;
            Ok(engine)
        })
        .report(|engine| engine.reporter())
        .build();
    engine.install(SITE, site).await?;
    engine.running(SITE).await?;
    engine.running(STORE).await?;
    Ok(engine)
}

/// Sends bytes and returns all that comes until the other side closes.
pub(crate) async fn send(socket: &Path, bytes: &[u8]) -> Result<String, Error> {
    let mut stream = UnixStream::connect(socket).await?;
    // The other side may have enough of it before all is sent.
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    match guarded(stream.read_to_end(&mut answer)).await {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error.into()),
        _ => Ok(String::from_utf8(answer)?),
    }
}

/// Ends a test that hangs.
pub(crate) async fn guarded<T>(test: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(300), test).await.expect("the test hangs")
}
