//! A folder with a manifest, and an engine that keeps it.

use std::error::Error;
use std::fs;
use std::future::{IntoFuture, ready};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crankcase_engine::{
    Backoff, Change, Engine, EventKind, Events, Manifold, Name, Notice, Report, Stop, Stopper,
    Worker,
};
use crankcase_facts::Facts;
use crankcase_kinds::builtin;
use crankcase_manifest::{ManifestError, SiteFiles};
use crankcase_manifolds::{self as manifolds, file_watch, site};
use crankcase_resources::rules::Rule;
use crankcase_resources::run::{RuleEvents, Schedule, State, Tallies};
use crankcase_resources::state::{Loaded, Records, Topic};
use crankcase_resources::{Kinds, Observer, Site, Tally};
use crankcase_state::{SqliteStore, reading};
use crankcase_workers::{Watcher, WatcherConfig, Watches};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

const SITE: Name<Arc<Site>> = Name::new("site");
const WATCHES: Name<Watches> = Name::new("watches");
const RESOURCES: Name<Engine> = Name::new("resources");
const SETTLED: Name<()> = Name::new("settled");
const RULES: Name<()> = Name::new("rules");

/// No test waits for longer; a test that does hangs.
const HANG: Duration = Duration::from_secs(300);

/// Returns a backoff that a test can wait for.
pub(crate) fn quick() -> Backoff {
    Backoff::default().initial(Duration::from_millis(1))
}

/// Kills the programs that outlive the agents of a state folder, when it is dropped.
struct LeftPrograms(PathBuf);

impl Drop for LeftPrograms {
    fn drop(&mut self) {
        let records = fs::read_dir(self.0.join("processes"));
        for record in records.into_iter().flatten().flatten() {
            let text = fs::read(record.path()).unwrap_or_default();
            let record: Value = serde_json::from_slice(&text).unwrap_or_default();
            let pid = record["process"]["id"].as_i64().and_then(|pid| i32::try_from(pid).ok());
            if let Some(pid) = pid.and_then(Pid::from_raw) {
                let _was_there = kill_process_group(pid, Signal::KILL);
            }
        }
    }
}

/// A machine that is kept as its manifest declares.
pub(crate) struct Machine {
    // The programs are killed before the folder is removed, because the folder has their records.
    _left: LeftPrograms,
    folder: tempfile::TempDir,
    kinds: Kinds,
    engine: Engine,
    /// The records of the state folder.
    records: Records,
    /// How the site is kept, once it is.
    kept: Mutex<Option<site::Config>>,
    /// Watches files for the test, as nobody else does.
    watches: Watches,
    _stopper: Stopper,
    _watching: JoinSet<()>,
}

impl Machine {
    /// Begins to keep what a manifest declares; `@` in it stands for the folder.
    pub(crate) async fn new(manifest: &str) -> Result<Self, Box<dyn Error>> {
        Self::with_kinds(manifest, builtin()).await
    }

    pub(crate) async fn with_kinds(manifest: &str, kinds: Kinds) -> Result<Self, Box<dyn Error>> {
        Self::begin(tempfile::tempdir()?, manifest, (quick(), kinds)).await
    }

    /// Begins in a folder that may hold something already.
    pub(crate) async fn begin(
        folder: tempfile::TempDir,
        manifest: &str,
        (backoff, kinds): (Backoff, Kinds),
    ) -> Result<Self, Box<dyn Error>> {
        let machine = Self::watched(folder, kinds).await?;
        let config = machine.config().backoff(backoff);
        machine.keep(manifest, config).await?;
        Ok(machine)
    }

    /// Begins like [`begin`](Self::begin). An observer sees what happens.
    pub(crate) async fn observed(
        folder: tempfile::TempDir,
        manifest: &str,
        (backoff, kinds): (Backoff, Kinds),
        observer: Arc<dyn Observer>,
    ) -> Result<Self, Box<dyn Error>> {
        let machine = Self::watched(folder, kinds).await?;
        let config = machine.config().backoff(backoff).observer(observer);
        machine.keep(manifest, config).await?;
        Ok(machine)
    }

    /// Begins in a folder that may hold something already. A file that a resource reads is left alone until it was
    /// quiet for this long.
    pub(crate) async fn quiet(
        folder: tempfile::TempDir,
        manifest: &str,
        (quiet, kinds): (Duration, Kinds),
    ) -> Result<Self, Box<dyn Error>> {
        let machine = Self::watched(folder, kinds).await?;
        let config = machine.config().backoff(quick()).quiet(quiet);
        machine.keep(manifest, config).await?;
        Ok(machine)
    }

    /// Begins with these records in the place of those of the state folder.
    pub(crate) async fn recorded(manifest: &str, records: Records) -> TestResult<Self> {
        let machine = Self::watched(tempfile::tempdir()?, builtin()).await?;
        machine.keep(manifest, machine.config().records(records)).await?;
        Ok(machine)
    }

    /// Begins with what people hold in the hands of the test.
    pub(crate) async fn held(manifest: &str, holds: site::ResourceHolds) -> TestResult<Self> {
        let machine = Self::watched(tempfile::tempdir()?, builtin()).await?;
        machine.keep(manifest, machine.config().holds(holds)).await?;
        Ok(machine)
    }

    /// Begins in a folder that may hold something already, in the world of these facts.
    pub(crate) async fn in_world(
        folder: tempfile::TempDir,
        manifest: &str,
        (kinds, facts): (Kinds, Facts),
    ) -> Result<Self, Box<dyn Error>> {
        let machine = Self::watched(folder, kinds).await?;
        let path = machine.path("site.yaml");
        fs::write(&path, machine.text(manifest))?;
        let mut files = SiteFiles::new(vec![path], machine.kinds.clone());
        files.facts = manifolds::facts::seen(facts.clone(), None);
        machine.provide(Arc::new(files.load()?)).await?;
        let world = manifolds::facts::world(None, move || Ok(facts.clone()));
        let config = machine.config().backoff(quick()).world(world);
        machine.install(config).await?;
        Ok(machine)
    }

    /// Prepares a machine whose resources have their files watched.
    async fn watched(folder: tempfile::TempDir, kinds: Kinds) -> Result<Self, Box<dyn Error>> {
        let machine = Self::prepare(folder, kinds)?;
        let watcher = file_watch::manifold(WatcherConfig::default())?;
        machine.engine.install(WATCHES, watcher).await?;
        Ok(machine)
    }

    /// Begins without a watcher; resources are looked at all the time.
    pub(crate) async fn unwatched(manifest: &str) -> Result<Self, Box<dyn Error>> {
        let machine = Self::prepare(tempfile::tempdir()?, builtin())?;
        let config = machine.config().look_every(Duration::from_millis(1));
        machine.keep(manifest, config).await?;
        Ok(machine)
    }

    /// Begins like [`unwatched`](Self::unwatched). An observer sees what happens.
    pub(crate) async fn unwatched_by(
        manifest: &str,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, Box<dyn Error>> {
        let machine = Self::prepare(tempfile::tempdir()?, builtin())?;
        let config = machine.config().look_every(Duration::from_millis(1)).observer(observer);
        machine.keep(manifest, config).await?;
        Ok(machine)
    }

    fn prepare(folder: tempfile::TempDir, kinds: Kinds) -> Result<Self, Box<dyn Error>> {
        let watcher = Watcher::new(WatcherConfig::default())?;
        let watches = watcher.handle();
        let (stopper, stop) = Stop::pair();
        let mut watching = JoinSet::new();
        watching.spawn(async move { drop(watcher.run(stop).await) });
        let engine = Engine::builder().seed(0).build()?;
        let (records, kept) = (open(&folder.path().join("state"))?, Mutex::default());
        let _left = LeftPrograms(folder.path().join("state"));
        let (_stopper, _watching) = (stopper, watching);
        Ok(Self { _left, folder, kinds, engine, records, kept, watches, _stopper, _watching })
    }

    fn config(&self) -> site::Config {
        let day = Duration::from_secs(24 * 60 * 60);
        let records = self.records.clone();
        let config = site::Config::new(SITE, WATCHES, self.path("state"), records).look_every(day);
        // No test but those of the quiet time edits a file in parts.
        config.quiet(Duration::from_millis(1))
    }

    async fn keep(&self, manifest: &str, config: site::Config) -> TestResult {
        self.swap(manifest).await?;
        self.install(config).await
    }

    async fn install(&self, config: site::Config) -> TestResult {
        *self.kept.lock() = Some(config.clone());
        Ok(self.engine.install(RESOURCES, site::manifold(config)).await?)
    }

    /// Writes another manifest and has it kept.
    pub(crate) async fn swap(&self, manifest: &str) -> TestResult {
        self.swap_at("site.yaml", manifest).await
    }

    /// Writes a manifest in a file of its own and has it kept in the place of the one before.
    pub(crate) async fn swap_at(&self, name: &str, manifest: &str) -> TestResult {
        self.provide(Arc::new(self.load(name, manifest)?)).await
    }

    /// Has a site kept in the place of the one before.
    pub(crate) async fn provide(&self, site: Arc<Site>) -> TestResult {
        Ok(self.engine.provide(SITE, site).await?)
    }

    /// Has rules kept beside the resources of a manifest, in the world of these facts.
    pub(crate) async fn rule(&self, manifest: &str, rules: Vec<Rule>, facts: Facts) -> TestResult {
        self.rule_on(self.records.clone(), manifest, (rules, facts)).await
    }

    /// Has rules kept that are on record elsewhere.
    pub(crate) async fn rule_on(
        &self,
        records: Records,
        manifest: &str,
        (rules, facts): (Vec<Rule>, Facts),
    ) -> TestResult {
        let site = self.load("site.yaml", manifest)?.ruled(rules);
        self.provide(Arc::new(site)).await?;
        let (_observer, events) = RuleEvents::new(None, self.path("state/rules"));
        let world = manifolds::facts::world(None, move || Ok(facts.clone()));
        let (site, resources, state) = (SITE, RESOURCES, self.path("state"));
        let config = site::RulesConfig { site, resources, world, events, state, records };
        Ok(self.engine.install(RULES, site::rules(config)).await?)
    }

    fn load(&self, name: &str, manifest: &str) -> Result<Site, Box<dyn Error>> {
        let path = self.path(name);
        fs::write(&path, self.text(manifest))?;
        let loaded: Result<_, ManifestError> =
            SiteFiles::new(vec![path], self.kinds.clone()).load();
        Ok(loaded?)
    }

    /// Puts the folder into a text.
    pub(crate) fn text(&self, text: &str) -> String {
        text.replace('@', &self.folder.path().display().to_string())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.path(name)).ok()
    }

    /// Returns whether something is on record that another agent reads.
    pub(crate) fn is_on_record(&self, is_right: impl Fn(&Loaded) -> bool) -> TestResult<bool> {
        Ok(is_right(&reading(&self.path("state"))?.load()?))
    }

    /// Waits until what is on record is as it should be; it is looked at whenever it has changed.
    pub(crate) async fn until_on_record(&self, is_right: impl Fn(&Loaded) -> bool) -> TestResult {
        let mut subscription = self.watches.watch(&self.path("state/state.db-wal"))?;
        within(async {
            while !self.is_on_record(&is_right)? {
                subscription.changed().await?;
            }
            Ok(())
        })
        .await
    }

    /// Puts a symlink in the place of a file at once, which no action may mend.
    pub(crate) fn spoil(&self, name: &str) -> TestResult {
        let link = self.path("link");
        std::os::unix::fs::symlink("nowhere", &link)?;
        Ok(fs::rename(link, self.path(name))?)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> TestResult {
        Ok(fs::write(self.path(name), text)?)
    }

    /// Returns the engine in which each resource is a worker.
    pub(crate) async fn resources(&self) -> Result<Engine, Box<dyn Error>> {
        Ok(within(self.engine.output(RESOURCES)).await?)
    }

    /// Waits until a resource has its first valid state.
    pub(crate) async fn running(&self, name: &str) -> TestResult {
        let resources = self.resources().await?;
        Ok(within(resources.running(Name::<State>::parse(name)?)).await?)
    }

    /// Waits until a file holds what it should; it is looked at whenever it has changed.
    pub(crate) async fn until(&self, name: &str, is_right: impl Fn(&str) -> bool) -> TestResult {
        let mut subscription = self.watches.watch(&self.path(name))?;
        let wait = async {
            while !self.read(name).is_some_and(|text| is_right(&text)) {
                subscription.changed().await?;
            }
            Ok::<_, Box<dyn Error>>(())
        };
        match timeout(HANG, wait).await {
            Ok(waited) => waited,
            Err(_) => {
                Err(format!("{name} holds {:?}\n{}", self.read(name), self.engine.report().await)
                    .into())
            }
        }
    }

    /// Waits until a file is not there.
    pub(crate) async fn until_gone(&self, path: &Path) -> TestResult {
        let mut subscription = self.watches.watch(path)?;
        within(async {
            while path.exists() {
                subscription.changed().await?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until a resource says that it is degraded, and returns why.
    pub(crate) async fn degraded(&self, name: &str) -> Result<String, Box<dyn Error>> {
        self.degraded_by(name, "").await
    }

    /// Waits until a resource is degraded with a reason that contains `by`. Returns the reason.
    pub(crate) async fn degraded_by(&self, name: &str, by: &str) -> Result<String, Box<dyn Error>> {
        degraded_in(&self.resources().await?, name, by).await
    }

    /// Waits until the rules are degraded with a reason that contains `by`. Returns the reason.
    pub(crate) async fn rules_degraded_by(&self, by: &str) -> Result<String, Box<dyn Error>> {
        degraded_in(&self.engine, RULES.as_str(), by).await
    }

    /// Ends the rules.
    pub(crate) async fn forget_rules(&self) -> TestResult {
        Ok(within(self.engine.apply(Change::new().uninstall(RULES))).await?)
    }

    /// Waits until a resource has noted something, and returns who asked for it and why.
    pub(crate) async fn noted(
        &self,
        events: &mut Events,
        name: &str,
        wanted: &str,
    ) -> Result<String, Box<dyn Error>> {
        let path = format!("{}/{name}", self.resources().await?.path());
        let wait = async {
            while let Some(notice) = events.next().await {
                if let Notice::Event(event) = notice
                    && event.path() == path
                    && matches!(&event.kind, EventKind::Noted { text } if text == wanted)
                {
                    return event.origin.map(|origin| origin.to_string());
                }
            }
            None
        };
        Ok(timeout(HANG, wait).await?.ok_or("no such note")?)
    }

    /// Waits until something has happened to a resource.
    pub(crate) async fn happened(&self, events: &mut Events, name: &str, kind: &EventKind) {
        within(async {
            while let Some(notice) = events.next().await {
                if let Notice::Event(event) = notice
                    && (event.worker(), &event.kind) == (Some(name), kind)
                {
                    break;
                }
            }
        })
        .await;
    }

    /// Returns how the resources have fared.
    pub(crate) async fn tally(&self) -> Result<Tally, Box<dyn Error>> {
        Ok(within(self.engine.output(RESOURCES.output::<Tallies>())).await?.tally())
    }

    /// Returns the board that the resources share.
    pub(crate) async fn board(&self) -> Result<Schedule, Box<dyn Error>> {
        Ok(within(self.engine.output(RESOURCES.output::<Schedule>())).await?)
    }

    /// Returns how often workers of a resource were started.
    pub(crate) async fn starts(&self, name: &str) -> Result<u32, Box<dyn Error>> {
        let report = self.resources().await?.report().await;
        Ok(report.workers.get(name).ok_or("not installed")?.starts)
    }

    /// Waits until everything is settled and has ended for it; returns the report that was made then.
    pub(crate) async fn settled(&self) -> Result<Report, Box<dyn Error>> {
        self.settled_for(Duration::ZERO).await
    }

    /// Waits like [`settled`](Self::settled), until everything was settled for this long.
    pub(crate) async fn settled_for(&self, lasting: Duration) -> Result<Report, Box<dyn Error>> {
        let (done, settled) = watch::channel(None);
        let manifold = site::until_settled_for(SITE, RESOURCES, lasting, done);
        self.engine.install(SETTLED, manifold).await?;
        within(self.engine.wait()).await?;
        let report = settled.borrow().clone();
        Ok(report.ok_or("no report")?)
    }

    /// Counts the reports of the whole engine from now on.
    pub(crate) async fn count_reports(&self) -> TestResult<Arc<AtomicUsize>> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let counting = Manifold::builder().run_with(counted, |counted, (), up| async move {
            let up = up.report(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                ready(json!(null))
            });
            up.ready(()).wait().await;
            Ok(())
        });
        self.engine.install(Name::<()>::new("counting"), counting).await?;
        Ok(count)
    }

    pub(crate) async fn stop(&self) -> TestResult {
        Ok(within(self.engine.stop()).await?)
    }

    /// Has a resource's worker started anew.
    pub(crate) async fn bounce(&self, name: &str) -> TestResult {
        Ok(within(self.resources().await?.bounce(Name::<State>::parse(name)?)).await?)
    }

    /// Has another keeper of the whole site, with what it reads from the disk, in the place of the
    /// one before, as another agent would.
    pub(crate) async fn restart(&self) -> TestResult {
        let mut config = self.kept.lock().clone().ok_or("nothing is kept")?;
        within(self.engine.apply(Change::new().uninstall(RESOURCES))).await?;
        config.records = open(&self.path("state"))?;
        self.install(config).await?;
        Ok(within(self.engine.running(RESOURCES)).await?)
    }

    /// Has the watcher started anew.
    pub(crate) async fn bounce_watcher(&self) -> TestResult {
        within(self.engine.bounce(WATCHES)).await?;
        Ok(within(self.engine.running(WATCHES)).await?)
    }
}

/// Waits until a worker of an engine is degraded with a reason that contains `by`. Returns the reason.
async fn degraded_in(engine: &Engine, name: &str, by: &str) -> Result<String, Box<dyn Error>> {
    let mut events = engine.events();
    let path = format!("{}/{name}", engine.path().trim_end_matches('/'));
    let wait = async {
        loop {
            let report = engine.report().await;
            let reason = report.workers.get(name).and_then(|it| it.degraded.clone());
            if let Some(reason) = reason.filter(|reason| reason.contains(by)) {
                return reason;
            }
            while let Some(notice) = events.next().await {
                let Notice::Event(event) = notice else { break };
                if event.path() == path && matches!(event.kind, EventKind::Health { .. }) {
                    break;
                }
            }
        }
    };
    Ok(timeout(HANG, wait).await?)
}

/// Opens what is on record in a state folder.
fn open(state: &Path) -> TestResult<Records> {
    Ok(Records::open(Arc::new(SqliteStore::open(state)?))?)
}

/// Returns whether it is on record how something is put back.
pub(crate) fn has_reversal(loaded: &Loaded) -> bool {
    loaded.documents.iter().any(|key| key.topic == Topic::Reversal)
}

/// Counts the lines of a text.
pub(crate) fn lines(text: &str) -> usize {
    text.matches('\n').count()
}

/// Guards against a hang.
pub(crate) async fn within<F: IntoFuture>(future: F) -> F::Output {
    timeout(HANG, future).await.expect("it does not hang")
}
