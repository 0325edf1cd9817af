//! Config files that change, and what is said of those that are bad.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{BoxError, Stop};
use crankcase_workers::{
    Condition, ConfigFile, ConfigFileConfig, ConfigFileError, ConfigFormat, LastGood, Watcher,
    WatcherConfig, Watches,
};
use parking_lot::Mutex;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use crate::events::Events;
use crate::gone::Gone;
use crate::running::{Running, TestResult, guarded};

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    depth: u32,
    #[serde(default)]
    width: u32,
    #[serde(default)]
    is_open: bool,
}

fn validate(limits: &Limits) -> Result<(), BoxError> {
    match limits.depth {
        0 => Err("depth is 0; expected at least 1".into()),
        13 => panic!("depth is 13"),
        _ => Ok(()),
    }
}

/// A config file that is followed.
struct Following {
    folder: TempDir,
    name: &'static str,
    limits: watch::Receiver<Arc<Limits>>,
    told: UnboundedReceiver<Option<String>>,
    worker: Running,
    watcher: Running,
}

impl Following {
    /// Writes a file, loads it and begins to follow it.
    async fn start(name: &'static str, text: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = TempDir::new()?;
        fs::create_dir(folder.path().join("etc"))?;
        let path = folder.path().join("etc").join(name);
        fs::write(&path, text)?;
        Self::follow(folder, name, &path, LastGood::none()).await
    }

    async fn follow(
        folder: TempDir,
        name: &'static str,
        path: &Path,
        last: LastGood<Limits>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let watcher = Watcher::new(WatcherConfig::default())?;
        let watches = watcher.handle();
        let (tx, told) = unbounded_channel();
        let tell = move |reason: Option<&str>| drop(tx.send(reason.map(str::to_owned)));
        let file = load(path, watches, last).await?.telling(Condition::told_to(tell));
        let limits = file.follow();
        let (worker, watcher) = (Running::start(file), Running::start(watcher));
        Ok(Self { folder, name, limits, told, worker, watcher })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("etc").join(self.name)
    }

    fn depth(&self) -> u32 {
        self.limits.borrow().depth
    }

    /// Waits until the file's depth is in force.
    async fn until_depth(&mut self, depth: u32) -> TestResult {
        guarded(self.limits.wait_for(|limits| limits.depth == depth)).await?;
        Ok(())
    }

    /// Waits until the worker is degraded for a reason with this text; what stood in the file for a
    /// moment may be told before.
    async fn until_degraded(&mut self, text: &str) -> Result<String, Box<dyn std::error::Error>> {
        loop {
            match guarded(self.told.recv()).await.ok_or("the worker has ended")? {
                Some(reason) if reason.contains(text) => return Ok(reason),
                _ => {}
            }
        }
    }

    async fn until_well(&mut self) -> TestResult {
        while guarded(self.told.recv()).await.ok_or("the worker has ended")?.is_some() {}
        Ok(())
    }

    /// Waits for a value and for good health, then ends it.
    async fn ends_well_with_depth(mut self, depth: u32) -> TestResult {
        self.until_depth(depth).await?;
        self.until_well().await?;
        self.end().await
    }

    async fn end(self) -> TestResult {
        guarded(self.worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
        Ok(guarded(self.watcher.clean_kill()).await.map_err(|exit| exit.to_string())?)
    }
}

async fn load(
    path: &Path,
    watches: Watches,
    last: LastGood<Limits>,
) -> Result<ConfigFile<Limits>, ConfigFileError> {
    let config = ConfigFileConfig::new(path).quiet(Duration::from_millis(1)).max_bytes(1000);
    let (_stopper, stop) = Stop::pair();
    guarded(ConfigFile::load(&stop, config, validate, watches.into(), last)).await
}

/// Returns why a file cannot be loaded at first, with its causes.
async fn refusal(path: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let watcher = Watcher::new(WatcherConfig::default())?;
    let refused = load(path, watcher.handle(), LastGood::none()).await;
    let error = refused.err().ok_or("it was accepted")?;
    Ok(crankcase_engine::Exit::failed(error).to_string())
}

#[tokio::test]
async fn a_new_version_reaches_those_who_follow() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;
    assert_eq!(following.depth(), 1);

    for depth in 2..5 {
        fs::write(following.path(), format!("depth: {depth}"))?;
        following.until_depth(depth).await?;
    }

    following.end().await
}

#[tokio::test]
async fn a_bad_version_is_refused_with_its_place_and_the_one_before_stays() -> TestResult {
    let cases = [
        (
            "a.yaml",
            "depth: 1",
            "width: 2\ndepth: many\n",
            "a.yaml:2:8: invalid u32: found \"many\"",
        ),
        (
            "a.yml",
            "depth: 1",
            "depth: 2\ndeep: 3\n",
            "a.yml:2:1: unknown field `deep`, expected one of depth, width, is_open",
        ),
        (
            "a.json",
            r#"{"depth": 1}"#,
            "{\n  \"depth\": \"x\"\n}",
            "a.json:2:14: invalid type: string \"x\", expected u32",
        ),
        (
            "a.toml",
            "depth = 1",
            "width = 1\ndepth = \"x\"\n",
            "a.toml:2:9: invalid type: string \"x\", expected u32",
        ),
    ];
    for (name, good, bad, place) in cases {
        let mut following = Following::start(name, good).await?;

        fs::write(following.path(), bad)?;

        let reason = following.until_degraded(place).await?;
        let path = following.path();
        let begin = format!("the version before stays in force: {}:", path.display());
        assert!(reason.starts_with(&begin), "{reason}");
        assert_eq!(following.depth(), 1);
        fs::write(following.path(), good)?;
        following.until_well().await?;
        following.end().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_logged_only_where_nobody_is_told_of_it() -> TestResult {
    const REFUSED: &str = "config file refused; the version before stays";
    let mut events = Events::catch();
    let mut following = Following::start("limits.yaml", "depth: 1").await?;
    fs::write(following.path(), "depth: told")?;
    following.until_degraded("told").await?;
    following.end().await?;
    assert!(events.caught(REFUSED).is_empty());

    let folder = TempDir::new()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let watcher = Watcher::new(WatcherConfig::default())?;
    let file = load(&path, watcher.handle(), LastGood::none()).await?;
    fs::write(&path, "depth: untold")?;
    let (file, watcher) = (Running::start(file), Running::start(watcher));

    let refused = guarded(events.next(REFUSED)).await;

    assert!(refused.get("refusal").contains("limits.yaml:1:8"), "{refused:?}");
    drop((file, watcher));
    Ok(())
}

#[tokio::test]
async fn a_version_that_the_user_refuses_says_why() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;

    fs::write(following.path(), "depth: 0")?;
    following.until_degraded("is not valid: depth is 0; expected at least 1").await?;
    fs::write(following.path(), "depth: 13")?;
    following.until_degraded("is not valid: panicked: depth is 13").await?;

    assert_eq!(following.depth(), 1);
    fs::write(following.path(), "depth: 2")?;
    following.ends_well_with_depth(2).await
}

#[tokio::test]
async fn a_file_that_is_deleted_stays_in_force_until_it_is_back() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;

    fs::remove_file(following.path())?;
    following.until_degraded("No such file or directory").await?;
    assert_eq!(following.depth(), 1);

    fs::write(following.path(), "depth: 2")?;
    following.ends_well_with_depth(2).await
}

#[tokio::test]
async fn a_folder_that_is_deleted_and_made_again_is_followed() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;

    fs::remove_dir_all(following.folder.path().join("etc"))?;
    following.until_degraded("No such file or directory").await?;
    fs::create_dir(following.folder.path().join("etc"))?;
    fs::write(following.path(), "depth: 2")?;

    following.ends_well_with_depth(2).await
}

#[tokio::test]
async fn an_editor_that_renames_over_the_file_is_followed_every_time() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;

    for depth in 2..5 {
        let draft = following.folder.path().join("etc/.limits.swp");
        fs::write(&draft, format!("depth: {depth}"))?;
        fs::rename(&draft, following.path())?;
        following.until_depth(depth).await?;
    }

    following.end().await
}

#[tokio::test]
async fn a_symlink_that_is_turned_elsewhere_is_followed() -> TestResult {
    let mut following = Following::start("limits.yaml", "depth: 1").await?;
    let folder = following.folder.path().to_owned();
    for depth in 2..4_u32 {
        let version = folder.join(depth.to_string());
        fs::create_dir(&version)?;
        fs::write(version.join("limits.yaml"), format!("depth: {depth}"))?;
    }

    // The file becomes a symlink through one that is then turned, as deployments do.
    symlink("2", folder.join("current"))?;
    symlink("../current/limits.yaml", folder.join("etc/next"))?;
    fs::rename(folder.join("etc/next"), following.path())?;
    following.until_depth(2).await?;
    symlink("3", folder.join("turned"))?;
    fs::rename(folder.join("turned"), folder.join("current"))?;

    following.until_depth(3).await?;
    following.end().await
}

#[tokio::test]
async fn a_file_that_is_bad_at_first_is_not_loaded() -> TestResult {
    let folder = TempDir::new()?;
    let path = |name: &str| folder.path().join(name);
    fs::write(path("large.json"), " ".repeat(1001))?;
    fs::write(path("bytes.toml"), b"width = 1\nx = \"\xff\"")?;
    fs::write(path("twice.yaml"), "depth: 1\ndepth: 2")?;
    fs::write(path("yes.yaml"), "depth: 1\nis_open: yes")?;
    fs::write(path("half.json"), "{\"depth\": 1")?;
    fs::create_dir(path("folder.yaml"))?;
    mknodat(CWD, path("pipe.yaml"), FileType::Fifo, Mode::RWXU, 0)?;
    let cases = [
        ("none.yaml", "none.yaml\": No such file or directory (os error 2)"),
        ("large.json", "large.json\" is too large; expected at most 1000 bytes"),
        ("bytes.toml", "bytes.toml:2:6: not UTF-8"),
        ("twice.yaml", "twice.yaml:2:1: duplicate mapping key: depth"),
        ("yes.yaml", "yes.yaml:2:10: "),
        ("half.json", "half.json:1:11: EOF while parsing an object"),
        ("folder.yaml", "folder.yaml\" is not a file"),
        ("pipe.yaml", "pipe.yaml\" is not a file"),
        ("limits.ini", "expected a path that ends in .yaml, .yml, .json or .toml, or a format"),
    ];

    for (name, expected) in cases {
        let text = refusal(&path(name)).await?;
        assert!(text.contains(expected), "{name}: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn a_start_that_is_dropped_has_not_ended_while_the_file_is_judged() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 3")?;
    let watcher = Watcher::new(WatcherConfig::default())?;
    let (begin, mut begun) = unbounded_channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let judge = move |_: &Limits| {
        begin.send(())?;
        // An error: it is released by being dropped.
        released.lock().recv().unwrap_or_default();
        Ok(())
    };
    let (_stopper, stop) = Stop::pair();
    let (config, watches) = (ConfigFileConfig::new(&path), watcher.handle().into());
    let load = ConfigFile::load(&stop, config, judge, watches, LastGood::none());

    let is_judged = async { guarded(begun.recv()).await };
    tokio::select! {
        biased;
        _ = load => return Err("it is still judged".into()),
        is_judged = is_judged => is_judged.ok_or("it is not judged")?,
    }
    let mut gone = Gone::of(&stop);

    assert!(!gone.is_gone());
    drop(release);
    guarded(gone.wait()).await;
    Ok(())
}

#[tokio::test]
async fn a_bad_file_leaves_the_last_good_version_of_an_earlier_worker_in_force() -> TestResult {
    let folder = TempDir::new()?;
    let path = folder.path().join("limits.yaml");
    fs::write(&path, "depth: 1")?;
    let last = LastGood::none();
    let following = Following::follow(folder, "limits.yaml", &path, last.clone()).await?;
    guarded(following.worker.clean_kill()).await.map_err(|exit| exit.to_string())?;
    fs::write(&path, "depth: -1")?;

    let mut again = Following::follow(following.folder, "limits.yaml", &path, last.clone()).await?;

    again.until_degraded("limits.yaml:1:8: ").await?;
    assert_eq!((again.depth(), last.get().map(|limits| limits.depth)), (1, Some(1)));
    again.end().await
}

#[tokio::test]
async fn a_worker_without_its_watcher_says_so() -> TestResult {
    let Following { folder: _folder, mut worker, watcher, .. } =
        Following::start("limits.yaml", "depth: 1").await?;

    guarded(watcher.clean_kill()).await.map_err(|exit| exit.to_string())?;

    let exit = guarded(worker.end()).await.err().ok_or("it is done")?;
    assert_eq!(exit.to_string(), "the file watcher has ended");
    Ok(())
}

#[test]
fn a_field_that_cannot_be_used_is_named_with_its_value() {
    let config = |change: fn(&mut ConfigFileConfig)| {
        let mut config = ConfigFileConfig::new(Path::new("/etc/limits")).format(ConfigFormat::Yaml);
        change(&mut config);
        config.validate().map_or_else(|err| err.to_string(), |()| "valid".to_owned())
    };

    assert_eq!(config(|_| {}), "valid");
    assert_eq!(
        config(|config| config.path = "limits.yaml".into()),
        "path is limits.yaml; expected the absolute path of a file"
    );
    assert_eq!(
        config(|config| config.quiet = Duration::from_secs(61)),
        "quiet is 61s; expected at most 60 s"
    );
    assert_eq!(config(|config| config.max_bytes = 0), "max_bytes is 0; expected 1 to 16777216");
}
