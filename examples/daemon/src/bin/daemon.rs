//! The daemon, wired with Crankcase.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crankcase_daemon_example::{
    BoxError, Cache, Desk, Settings, Store, View, bind, poll, serve, sweep,
};
use crankcase_manifolds::engine::{
    Backoff, Change, ConfigError, Engine, EngineInput, Exit, Family, LiveSet, Manifold, Name,
    NameError, Nested, Policy,
};
use crankcase_manifolds::workers::{ConfigFileConfig, WatcherConfig, Watches};
use crankcase_manifolds::{Agent, AgentBuilder, Logging, StateDir, config_file, file_watch};

const WATCHES: Name<Watches> = Name::new("watches");
const SETTINGS: Name<Arc<Settings>> = Name::new("settings");
const STORE: Name<Store> = Name::new("store");
const CACHE: Name<Cache> = Name::new("cache");
const POLLER: Name<()> = Name::new("poller");
const TENANTS: Name<()> = Name::new("tenants");
const HTTP: Name<()> = Name::new("http");

/// The engines of the tenants, and what each of them exports.
const ENGINES: Family<Engine> = Family::new("tenant-*");
const DESKS: Family<Desk> = Family::new("desk-*");

/// In the engine of each tenant.
const LIMIT: Name<usize> = Name::new("limit");
const DESK: Name<Desk> = Name::new("desk");
const SWEEPER: Name<()> = Name::new("sweeper");

fn store() -> Manifold {
    let path = SETTINGS.select(|settings| settings.store.clone());
    Manifold::builder().inputs(path).offers::<(Store,)>().run(|path, up| async move {
        let store = up.context().blocking(move || Store::open(&path)).await??;
        up.ready((store,)).wait().await;
        Ok(())
    })
}

fn cache() -> Manifold {
    Manifold::builder().inputs(STORE).offers::<(Cache,)>().run(|store, up| async move {
        let cache = up.context().blocking(move || Cache::load(store)).await??;
        up.ready((cache,)).wait().await;
        Ok(())
    })
}

fn poller() -> Manifold {
    let every = SETTINGS.select(|settings| settings.poll_every);
    Manifold::builder().inputs((CACHE, every)).run(|(cache, every), up| async move {
        poll(cache, every, up.ready(()).wait()).await;
        Ok(())
    })
}

/// Returns the engine of a tenant. Its workers see nothing of the settings but their own limit.
fn tenant(name: String) -> Result<Nested, NameError> {
    let (exported, limited) = (DESKS.name(&name)?, name.clone());
    let limit = SETTINGS.select(move |settings| settings.limit(&limited));
    let contents =
        move || Change::new().install(DESK, desk(&name)).install(SWEEPER, sweeper(&name));
    let nested = Nested::new(contents).engine(|engine| engine.policy(policy()));
    Ok(nested.import(CACHE, CACHE).import(limit, LIMIT).export(DESK, exported))
}

fn desk(tenant: &str) -> Manifold {
    Manifold::builder().inputs(CACHE).offers::<(Desk,)>().run_with(
        tenant.to_owned(),
        |tenant, cache, up| async move {
            let (desk, writer) = Desk::open(&tenant, cache);
            let stop = up.ready((desk,));
            Ok(writer.run(stop.wait()).await?)
        },
    )
}

fn sweeper(tenant: &str) -> Manifold {
    Manifold::builder().inputs((CACHE, LIMIT)).run_with(
        tenant.to_owned(),
        |tenant, (cache, limit), up| async move {
            Ok(sweep(cache, &tenant, limit, up.ready(()).wait()).await?)
        },
    )
}

/// Installs the tenants that the settings have, takes out all others, and is done until that
/// changes.
fn tenants() -> Manifold {
    let wanted = SETTINGS.select(|settings| settings.names());
    Manifold::builder().inputs((EngineInput, wanted)).run(|(engine, wanted), up| async move {
        let _stop = up.ready(());
        let present = engine.report().await.workers;
        let present: BTreeSet<String> =
            present.keys().filter_map(|name| ENGINES.member(name)).map(str::to_owned).collect();
        let mut change = Change::new();
        for gone in present.difference(&wanted) {
            change = change.uninstall(ENGINES.name(gone)?);
        }
        for new in wanted.difference(&present) {
            change = change.install_nested(ENGINES.name(new)?, tenant(new.clone())?);
        }
        Ok(engine.apply(change).await?)
    })
}

fn http() -> Manifold {
    let address = SETTINGS.select(|settings| settings.listen);
    let inputs = (address, DESKS.live(), EngineInput);
    Manifold::builder().inputs(inputs).run(|(address, desks, engine), up| async move {
        let listener = match bind(address).await {
            Err(error) if up.context().generation() == 1 => return Err(Exit::fatal(error)),
            bound => bound?,
        };
        serve(listener, Seen { desks, engine }, up.ready(()).wait()).await;
        Ok(())
    })
}

#[derive(Clone)]
struct Seen {
    desks: LiveSet<Desk>,
    engine: Engine,
}

impl View for Seen {
    fn desk(&self, tenant: &str) -> Option<Desk> {
        self.desks.get(tenant)
    }

    async fn changed(&mut self) -> Result<(), BoxError> {
        Ok(self.desks.changed().await?)
    }

    async fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for engine in self.engine.engines() {
            for (name, worker) in engine.report().await.workers {
                if !worker.is_well() {
                    complaints.extend(engine.why(&name).await.map(|why| why.to_string()));
                }
            }
        }
        complaints
    }
}

fn policy() -> Policy {
    let backoff = Backoff::default().initial(Duration::from_millis(100));
    Policy::default().backoff(backoff).grace(Duration::from_secs(2))
}

fn agent(settings: &Path) -> Result<AgentBuilder, ConfigError> {
    let state = StateDir::new(settings.with_extension("state"));
    let settings =
        config_file::manifold(ConfigFileConfig::new(settings), WATCHES, Settings::validate)?;
    Ok(Agent::builder()
        .name(Name::new("daemon"))
        .state_dir(state)
        .logging(Logging::from_env())
        .engine(|engine| engine.policy(policy()))
        .install(WATCHES, file_watch::manifold(WatcherConfig::default())?)
        .install(SETTINGS, settings)
        .install(STORE, store())
        .install(CACHE, cache())
        .install(POLLER, poller())
        .install(TENANTS, tenants())
        .install(HTTP, http()))
}

#[expect(clippy::print_stderr, reason = "there is no log yet")]
fn main() -> ExitCode {
    let Some(settings) = std::env::args_os().nth(1) else {
        eprintln!("usage: daemon SETTINGS");
        return ExitCode::from(64);
    };
    match agent(Path::new(&settings)) {
        Ok(agent) => agent.main(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(65)
        }
    }
}
