//! Sites that are loaded again.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use crankcase_engine::{Engine, Latest, Manifold, Name};
use crankcase_kinds::builtin;
use crankcase_manifest::{Host, SeenFacts, SiteFacts, SiteFiles};
use crankcase_manifolds::{SIGNALS, file_watch, source};
use crankcase_resources::dynamic::{Config, Kind, Unit};
use crankcase_resources::{AttributeError, Site};
use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{SignalHandle, Signals, WatcherConfig, Watches};
use parking_lot::Mutex;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

const WATCHES: Name<Watches> = Name::new("watches");
const SITE: Name<Arc<Site>> = Name::new("site");
const USER: Name<()> = Name::new("user");

/// An engine that keeps a site of one manifest.
struct Kept {
    folder: TempDir,
    path: PathBuf,
    engine: Engine,
    signals: Bare,
    counts: SignalHandle,
    files: SiteFiles,
    /// The name of the first resource.
    names: watch::Receiver<String>,
    told: watch::Sender<String>,
}

impl Kept {
    /// Writes a manifest with the resource `old`, which is loaded from `of` the folder.
    async fn new(of: &str) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("site.yaml");
        fs::write(&path, "resources: {old: {type: noop}}")?;
        let paths = vec![folder.path().join(of)];
        let files = SiteFiles::new(paths, builtin());
        let engine = Engine::builder().seed(0).build()?;
        let signals = Signals::new()?;
        let counts = signals.handle();
        engine.provide(SIGNALS, counts.clone()).await?;
        engine.install(WATCHES, file_watch::manifold(WatcherConfig::default())?).await?;
        engine.running(WATCHES).await?;
        let (told, names) = watch::channel(String::new());
        let signals = Bare::run(signals);
        Ok(Self { folder, path, engine, signals, counts, files, names, told })
    }

    /// Declares a resource in the place of the one before.
    fn change(&self, name: &str) -> std::io::Result<()> {
        fs::write(&self.path, format!("resources: {{{name}: {{type: noop}}}}"))
    }

    /// Keeps a site that was loaded before, and follows it.
    async fn keep(&self, site: Site) -> Result<(), Box<dyn Error>> {
        let (files, site) = (self.files.clone(), Arc::new(site));
        let config = source::Config { files, site, signals: SIGNALS, watches: WATCHES };
        self.engine.install(SITE, source::manifold(config)).await?;
        let user = Manifold::builder().inputs(SITE.live().required());
        let user =
            user.run_with(self.told.clone(), |names, mut site: Latest<Arc<Site>>, up| async move {
                let stop = up.ready(());
                let mut next = site.get();
                loop {
                    names.send_replace(first_name(&next));
                    tokio::select! {
                        biased;
                        () = stop.wait() => return Ok(()),
                        changed = site.changed() => next = changed?,
                    }
                }
            });
        Ok(self.engine.install(USER, user).await?)
    }

    /// Keeps the site of a folder, of which a change has been seen already.
    async fn followed() -> Result<Self, Box<dyn Error>> {
        let mut kept = Self::new("").await?;
        kept.keep(kept.files.load()?).await?;
        kept.change("newer")?;
        kept.until("newer").await?;
        Ok(kept)
    }

    /// Waits until the site has a resource.
    async fn until(&mut self, name: &str) -> Result<(), Box<dyn Error>> {
        let seen = self.names.wait_for(|seen| seen == name);
        timeout(Duration::from_secs(300), seen).await??;
        Ok(())
    }

    /// Waits until the manifest is said to be rejected.
    async fn rejected(&self) -> Result<(), Box<dyn Error>> {
        let mut events = self.engine.events();
        let rejected = async {
            while self.engine.report().await.workers["site"].degraded.is_none() {
                events.next().await.ok_or("the engine has ended")?;
            }
            Ok(())
        };
        timeout(Duration::from_secs(300), rejected).await?
    }

    /// Waits likewise while the folder is written to again and again; at one of the writes SIGHUP is
    /// sent.
    async fn until_among_changes(
        &mut self,
        name: &str,
        hangup_at: Option<u32>,
    ) -> Result<(), Box<dyn Error>> {
        let (busy, counts) = (self.folder.path().join("busy.log"), self.counts.clone());
        let writing = async {
            for count in 0.. {
                fs::write(&busy, format!("{count}"))?;
                if hangup_at == Some(count) {
                    hang_up(&counts).await?;
                }
                sleep(Duration::from_millis(100)).await;
            }
            Ok(())
        };
        tokio::select! {
            seen = self.until(name) => seen,
            written = writing => written,
        }
    }

    async fn end(self) -> Result<(), Box<dyn Error>> {
        clean_kill(self.signals).await?;
        Ok(self.engine.stop().await?)
    }
}

/// Sends SIGHUP to this process and waits until it is counted. A paused clock stands meanwhile.
async fn hang_up(counts: &SignalHandle) -> Result<(), Box<dyn Error>> {
    let hangup = crankcase_workers::Signal::Hangup;
    let seen = counts.counts().of(hangup);
    // The signal takes real time, and a paused clock stands only while a thread blocks.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let blocked = spawn_blocking(move || held.recv().is_err());
    kill_process(getpid(), Signal::HUP)?;
    counts.next(hangup, seen).await?;
    drop(release);
    assert!(blocked.await?);
    Ok(())
}

#[tokio::test]
async fn a_change_before_the_manifest_is_watched_is_not_missed() -> Result<(), Box<dyn Error>> {
    let mut kept = Kept::new("site.yaml").await?;
    let site = kept.files.load()?;

    kept.change("new")?;
    kept.keep(site).await?;

    kept.until("new").await?;
    kept.end().await
}

/// A kind that has a manifest edited while it is loaded, once that is due.
#[derive(Debug)]
struct Editing {
    manifest: PathBuf,
    text: &'static str,
    source: PathBuf,
    is_due: Arc<AtomicBool>,
}

impl Kind for Editing {
    fn name(&self) -> &'static str {
        "editing"
    }

    fn summary(&self) -> &'static str {
        "edits a manifest"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        if self.is_due.load(Ordering::Relaxed) {
            // Whatever this load has looked at before, it finds the file.
            fs::write(&self.source, "content").expect("the test's folder is there");
            fs::write(&self.manifest, self.text).expect("the test's folder is there");
        }
        let kinds = builtin();
        kinds.get("noop").expect("it is built in").make(config)
    }
}

#[tokio::test]
async fn an_edit_behind_a_symlink_in_the_folder_of_a_manifest_is_seen() -> Result<(), Box<dyn Error>>
{
    let mut kept = Kept::new("folder").await?;
    let folder = kept.folder.path().join("folder");
    fs::create_dir(&folder)?;
    std::os::unix::fs::symlink("../site.yaml", folder.join("link.yaml"))?;
    kept.keep(kept.files.load()?).await?;
    kept.until("old").await?;
    // Another change is seen first: the one behind the symlink is not found by the first load.
    fs::write(folder.join("first.yaml"), "resources: {first: {type: noop}}")?;
    kept.until("first").await?;
    fs::remove_file(folder.join("first.yaml"))?;
    kept.until("old").await?;

    kept.change("new")?;

    kept.until("new").await?;
    kept.end().await
}

#[tokio::test]
async fn an_edit_is_not_missed_while_a_manifest_is_loaded_for_a_file_beside_it()
-> Result<(), Box<dyn Error>> {
    let mut kept = Kept::new("site.yaml").await?;
    let (source, is_due) = (kept.folder.path().join("source"), Arc::new(AtomicBool::new(false)));
    kept.files.kinds = builtin().with(Editing {
        manifest: kept.path.clone(),
        text: "resources: {new: {type: noop}}",
        source: source.clone(),
        is_due: Arc::clone(&is_due),
    });
    kept.keep(kept.files.load()?).await?;
    kept.until("old").await?;
    let page = kept.folder.path().join("page");
    let refused = format!(
        "resources: {{page: {{type: file, config: {{path: {page:?}, source: source}}}}, edit: \
         {{type: editing}}}}"
    );
    fs::write(&kept.path, refused)?;
    kept.rejected().await?;

    is_due.store(true, Ordering::Relaxed);
    fs::write(source, "content")?;

    kept.until("new").await?;
    kept.end().await
}

#[tokio::test(start_paused = true)]
async fn a_manifest_in_a_folder_that_never_rests_is_loaded_after_a_while()
-> Result<(), Box<dyn Error>> {
    let mut kept = Kept::followed().await?;

    kept.change("new")?;

    kept.until_among_changes("new", None).await?;
    kept.end().await
}

#[tokio::test(start_paused = true)]
async fn a_hangup_is_obeyed_while_the_folder_of_the_manifest_does_not_rest()
-> Result<(), Box<dyn Error>> {
    let mut kept = Kept::followed().await?;
    kept.change("new")?;
    let began = Instant::now();

    kept.until_among_changes("new", Some(10)).await?;

    // The hangup comes with the eleventh write.
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    kept.end().await
}

fn first_name(site: &Site) -> String {
    site.declarations().first().map_or_else(String::new, |declared| declared.name.clone())
}

#[tokio::test(start_paused = true)]
async fn another_host_is_found_within_a_minute() -> Result<(), Box<dyn Error>> {
    let mut kept = Kept::new("site.yaml").await?;
    fs::write(&kept.path, "resources: {a: {type: noop, for_each: ['{{ host.name }}']}}")?;
    let (name, looks) = (Arc::new(Mutex::new("old")), watch::Sender::new(0));
    let (read, looked) = (Arc::clone(&name), looks.clone());
    kept.files.host = Host::new(move || {
        let name = *read.lock();
        looked.send_modify(|looks| *looks += 1);
        json!({"name": name})
    });
    kept.keep(kept.files.load()?).await?;
    kept.names.wait_for(|seen| seen == "a[\"old\"]").await?;
    // The first look was for the load before, and the second one is at the start.
    looks.subscribe().wait_for(|looks| *looks == 2).await?;
    let began = Instant::now();

    *name.lock() = "new";

    kept.names.wait_for(|seen| seen == "a[\"new\"]").await?;
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    kept.end().await
}

/// Facts that a test changes.
#[derive(Debug, Clone)]
struct Changing(watch::Sender<SeenFacts>);

impl Changing {
    fn new(value: serde_json::Value) -> Self {
        Self(watch::Sender::new(SeenFacts { value: Arc::new(value), ..SeenFacts::default() }))
    }

    fn change(&self, value: serde_json::Value) {
        self.0.send_modify(|facts| {
            facts.revision += 1;
            facts.value = Arc::new(value);
        });
    }
}

#[async_trait]
impl SiteFacts for Changing {
    fn current(&self) -> SeenFacts {
        self.0.borrow().clone()
    }

    async fn changed(&self, revision: u64) {
        let mut facts = self.0.subscribe();
        facts.wait_for(|facts| facts.revision != revision).await.expect("the sender is here");
    }
}

/// A kind that has facts changed for the second time while a manifest is loaded after the first change.
#[derive(Debug)]
struct ChangingKind {
    facts: Changing,
    second: serde_json::Value,
}

impl Kind for ChangingKind {
    fn name(&self) -> &'static str {
        "changing"
    }

    fn summary(&self) -> &'static str {
        "changes facts"
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        if self.facts.current().revision == 1 {
            self.facts.change(self.second.clone());
        }
        let kinds = builtin();
        kinds.get("noop").expect("it is built in").make(config)
    }
}

#[tokio::test]
async fn facts_that_change_while_the_manifest_is_refused_for_them_are_loaded()
-> Result<(), Box<dyn Error>> {
    let mut kept = Kept::new("site.yaml").await?;
    let facts = Changing::new(json!({"kind": "noop", "names": ["old"]}));
    let second = json!({"kind": "noop", "names": ["new"]});
    kept.files.kinds = builtin().with(ChangingKind { facts: facts.clone(), second });
    kept.files.facts = Arc::new(facts.clone());
    kept.keep(kept.files.load()?).await?;
    // The load at the start may find this edit, and no later one.
    kept.change("newer")?;
    kept.until("newer").await?;
    let manifest = "resources: {a: {type: noop, for_each: '{{ facts.names }}'}, door: {type: '{{ \
                    facts.kind }}'}, change: {type: changing}}";
    fs::write(&kept.path, manifest)?;
    kept.until("a[\"old\"]").await?;

    facts.change(json!({"kind": "no such kind", "names": ["old"]}));

    kept.until("a[\"new\"]").await?;
    kept.end().await
}
