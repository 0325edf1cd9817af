//! The daemon in plain tokio.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crankcase_daemon_example::{
    BoxError, Cache, Desk, FileChanges, Settings, Store, View, bind, poll, serve, sweep,
};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const SETTINGS: &str = "settings";
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(120);
const FAILURES_FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(2);

/// What all parts of the daemon share.
#[derive(Clone)]
struct Shared {
    settings: watch::Receiver<Arc<Settings>>,
    desks: watch::Sender<BTreeMap<String, Desk>>,
    seen: watch::Receiver<BTreeMap<String, Desk>>,
    troubles: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Shared {
    /// Keeps `work` running with a part of the settings until `stop`. Starts it again when that part
    /// changes, and after a growing wait when it fails or panics.
    async fn keep<P, F>(
        &self,
        name: &str,
        part: impl Fn(&Settings) -> P,
        work: impl Fn(P, CancellationToken) -> F,
        stop: &CancellationToken,
    ) where
        P: Clone + PartialEq,
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let mut settings = self.settings.clone();
        let mut wait = FIRST_WAIT;
        while !stop.is_cancelled() {
            let now = part(&settings.borrow_and_update());
            let child = stop.child_token();
            let mut task = JoinSet::new();
            task.spawn(work(now.clone(), child.clone()));
            self.troubles.lock().remove(name);
            let began = Instant::now();
            let ended = tokio::select! {
                ended = task.join_next() => ended,
                () = async { drop(settings.wait_for(|settings| part(settings) != now).await) } => {
                    child.cancel();
                    task.join_next().await
                }
            };
            let error = match ended {
                Some(Ok(Err(error))) => error.to_string(),
                Some(Err(panic)) => panic.to_string(),
                Some(Ok(Ok(()))) | None => continue,
            };
            self.troubles.lock().insert(name.to_owned(), error.clone());
            tracing::warn!(name, error, "failed");
            if began.elapsed() > FAILURES_FORGOTTEN_AFTER {
                wait = FIRST_WAIT;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = sleep(wait.mul_f64(rand::random_range(0.8..1.2))) => {}
                Ok(_) = settings.wait_for(|settings| part(settings) != now) => {}
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        self.troubles.lock().remove(name);
    }
}

/// Follows the settings file. A bad version is refused, and the one before stays.
async fn follow(
    path: PathBuf,
    sender: watch::Sender<Arc<Settings>>,
    shared: Shared,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut changes = FileChanges::of(&path)?;
    loop {
        match Settings::read(&path) {
            Ok(new) => {
                shared.troubles.lock().remove(SETTINGS);
                sender.send_if_modified(|settings| {
                    let is_other = **settings != new;
                    *settings = Arc::new(new);
                    is_other
                });
            }
            Err(error) => {
                shared.troubles.lock().insert(SETTINGS.to_owned(), error.to_string());
                tracing::warn!(%error, "the settings before stay in force");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = changes.next() => changed?,
        }
    }
}

/// Runs the store and all that uses it.
async fn stored(shared: Shared, path: PathBuf, stop: CancellationToken) -> Result<(), BoxError> {
    let cache = spawn_blocking(move || Cache::load(Store::open(&path)?)).await??;
    let poller = |every, stop: CancellationToken| {
        let cache = cache.clone();
        async move {
            poll(cache, every, stop.cancelled()).await;
            Ok(())
        }
    };
    let poller = shared.keep("poller", |settings| settings.poll_every, poller, &stop);
    tokio::join!(poller, tenants(&shared, &cache, &stop));
    Ok(())
}

/// Starts the tenants that the settings have, and stops all others.
async fn tenants(shared: &Shared, cache: &Cache, stop: &CancellationToken) {
    let mut settings = shared.settings.clone();
    let mut running = BTreeMap::<String, (CancellationToken, JoinSet<()>)>::new();
    while !stop.is_cancelled() {
        let wanted = settings.borrow_and_update().names();
        for (_, (stop, tasks)) in running.extract_if(.., |name, _| !wanted.contains(name)) {
            stop.cancel();
            tasks.join_all().await;
        }
        for name in &wanted {
            running.entry(name.clone()).or_insert_with(|| {
                let stop = stop.child_token();
                let mut tasks = JoinSet::new();
                tasks.spawn(tenant(shared.clone(), name.clone(), cache.clone(), stop.clone()));
                (stop, tasks)
            });
        }
        tokio::select! {
            () = stop.cancelled() => {}
            Ok(_) = settings.wait_for(|settings| settings.names() != wanted) => {}
        }
    }
    for (_, tasks) in running.into_values() {
        tasks.join_all().await;
    }
}

/// Runs the parts of a tenant.
async fn tenant(shared: Shared, name: String, cache: Cache, stop: CancellationToken) {
    let desk = |(), stop: CancellationToken| {
        let (desk, writer) = Desk::open(&name, cache.clone());
        let (desks, name) = (shared.desks.clone(), name.clone());
        async move {
            desks.send_modify(|desks| drop(desks.insert(name.clone(), desk)));
            let ended = writer.run(stop.cancelled()).await;
            desks.send_modify(|desks| drop(desks.remove(&name)));
            ended
        }
    };
    let sweeper = |limit, stop: CancellationToken| {
        let (name, cache) = (name.clone(), cache.clone());
        async move { sweep(cache, &name, limit, stop.cancelled()).await }
    };
    let (desk_name, sweeper_name) = (format!("desk of {name}"), format!("sweeper of {name}"));
    tokio::join!(
        shared.keep(&desk_name, |_| (), desk, &stop),
        shared.keep(&sweeper_name, |settings| settings.limit(&name), sweeper, &stop),
    );
}

/// Serves clients. Requests that have begun have a grace for their end.
async fn http(listener: TcpListener, shared: Shared, stop: CancellationToken) {
    let overdue = async {
        stop.cancelled().await;
        sleep(GRACE).await;
    };
    tokio::select! {
        () = serve(listener, shared, stop.cancelled()) => {}
        () = overdue => tracing::warn!("dropped requests that did not end in time"),
    }
}

impl View for Shared {
    fn desk(&self, tenant: &str) -> Option<Desk> {
        self.seen.borrow().get(tenant).cloned()
    }

    async fn changed(&mut self) -> Result<(), BoxError> {
        Ok(self.seen.changed().await?)
    }

    async fn complaints(&self) -> Vec<String> {
        self.troubles.lock().iter().map(|(name, trouble)| format!("{name}: {trouble}")).collect()
    }
}

/// Runs the daemon until a signal comes, and then stops its parts in order.
async fn run(path: &Path) -> Result<(), BoxError> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let first = Settings::read(path)?;
    // That the first address is busy ends the daemon.
    let bound = Mutex::new(Some(bind(first.listen).await?));
    let (sender, settings) = watch::channel(Arc::new(first));
    let (desks, seen) = watch::channel(BTreeMap::new());
    let shared = Shared { settings, desks, seen, troubles: Arc::default() };

    let following = |(), stop| follow(path.to_owned(), sender.clone(), shared.clone(), stop);
    let storing = |path, stop| stored(shared.clone(), path, stop);
    let serving = |address, stop| {
        let (bound, shared) = (bound.lock().take(), shared.clone());
        async move {
            let listener = match bound {
                Some(listener) => listener,
                None => bind(address).await?,
            };
            http(listener, shared, stop).await;
            Ok(())
        }
    };
    let [stop_http, stop_store, stop_settings] = [(); 3].map(|()| CancellationToken::new());
    let stops = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping all parts in order");
        stop_http.cancel();
    };
    tokio::join!(
        stops,
        async {
            shared.keep("http", |settings| settings.listen, serving, &stop_http).await;
            stop_store.cancel();
        },
        async {
            shared.keep("store", |settings| settings.store.clone(), storing, &stop_store).await;
            stop_settings.cancel();
        },
        shared.keep(SETTINGS, |_| (), following, &stop_settings),
    );
    Ok(())
}

#[expect(clippy::print_stderr, clippy::disallowed_methods, reason = "no log yet")]
#[tokio::main]
async fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: plain SETTINGS");
        return ExitCode::from(64);
    };
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    match run(Path::new(&path)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
