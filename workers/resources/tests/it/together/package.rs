//! Packages, which are installed together, and what happens to those of one folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crankcase_resources::{
    AbsPath, Actions, BoxError, Check, Claim, Claimed, Context, Declaration, Grouping, Kinds,
    Member, PATH, Params, Resource, Stale, Unfinished, kind,
};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::{TempDir, tempdir};
use tokio::sync::Notify;

use crate::support::declare;

/// What happens to the packages of each folder: each test has its own.
static WATCHED: Mutex<BTreeMap<PathBuf, Arc<Watched>>> = Mutex::new(BTreeMap::new());

/// What happens to the packages of one folder.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// How many are installed alone at this moment, and the most that were.
    at_once: AtomicUsize,
    pub(super) most_at_once: AtomicUsize,
    /// Wakes the test when packages are installed together that end only when they are to stop.
    pub(super) slow: Notify,
    /// How many have asked to be installed together, or are looked at without an end.
    waiting: AtomicUsize,
    waits: Notify,
    /// Wakes the test when a look without an end was dropped.
    pub(super) dropped: Notify,
}

impl Watched {
    /// Waits until so many wait.
    pub(super) async fn wait_for(&self, count: usize) {
        while self.waiting.load(Ordering::Relaxed) < count {
            self.waits.notified().await;
        }
    }

    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.waits.notify_one();
    }
}

/// A look without an end.
struct EndlessLook(Arc<Watched>);

impl Drop for EndlessLook {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

fn watched(folder: &Path) -> Arc<Watched> {
    Arc::clone(WATCHED.lock().entry(folder.to_owned()).or_default())
}

/// keeps a package installed
#[derive(Debug, Clone, PartialEq, Params)]
struct Package {
    /// the file that it consists of
    path: AbsPath,
    /// the packages that it is installed together with; alone if not given
    set: Option<String>,
    /// what is wrong with it
    #[param(default = "nothing")]
    fault: String,
}

/// The state of a package.
#[derive(Debug, Clone, PartialEq, Params)]
struct PackageState {
    /// whether it is installed
    installed: bool,
}

#[derive(Debug, Actions)]
enum Do {
    /// installs it
    Install,
    /// stops what uses it
    Stop,
}

/// Returns what a package, or a snap, is at this moment.
fn look<R: Resource<State = PackageState, Action = Do>>(path: &Path) -> Check<R> {
    if path.exists() {
        return Check::valid(PackageState { installed: true });
    }
    Stale::<R>::absent().differs("installed", false, true).act(Do::Install).into()
}

impl Package {
    fn path(&self) -> &Path {
        self.path.as_ref()
    }

    fn watched(&self) -> Arc<Watched> {
        watched(self.path().parent().expect("the path of a file"))
    }

    fn name(&self) -> String {
        self.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Adds a line to the journal beside the packages, if there is one: what was installed at once.
    fn install(packages: &[&Self]) -> Result<(), BoxError> {
        if let Some(wrong) = packages.iter().find(|package| package.fault == "unknown") {
            return Err(format!("there is no package {}", wrong.name()).into());
        }
        let journal = packages[0].path().with_file_name("journal");
        let mut names: Vec<_> = packages.iter().map(|package| package.name()).collect();
        names.sort();
        if let Ok(before) = fs::read_to_string(&journal) {
            fs::write(&journal, format!("{before}{}\n", names.join(" ")))?;
        }
        packages.iter().try_for_each(|package| fs::write(package.path(), ""))?;
        Ok(())
    }
}

impl Resource for Package {
    const NAME: &'static str = "package";
    type State = PackageState;
    type Action = Do;

    fn claims(partial: &PackagePartial) -> Claimed {
        let path = partial.path.as_given().map(|path| path.as_ref().display().to_string());
        let mut claimed = Claimed::of(path.into_iter().map(|it| Claim::keeps(PATH, it)).collect());
        (claimed.is_open, claimed.may_make_any) = (partial.path.is_unknown(), true);
        claimed
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        if self.fault == "hidden" {
            return Err("nobody can see it".into());
        }
        if self.fault == "endless" {
            let look = EndlessLook(self.watched());
            look.0.wait();
            std::future::pending::<()>().await;
        }
        Ok(match look::<Self>(self.path()) {
            Check::Stale(stale) if self.fault == "in use" => stale.shutdown(Do::Stop).into(),
            found => found,
        })
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        if matches!(action, Do::Stop) {
            return Ok(());
        }
        context.log("alone");
        let watched = self.watched();
        let at_once = watched.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        watched.most_at_once.fetch_max(at_once, Ordering::Relaxed);
        // Others that may act at the same time begin meanwhile.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        watched.at_once.fetch_sub(1, Ordering::Relaxed);
        Ok(Self::install(&[self])?)
    }
}

impl Grouping for Package {
    fn group(&self) -> Option<String> {
        self.watched().wait();
        self.set.clone()
    }

    async fn act_together(members: &[Member<'_, Self>]) -> Result<(), Unfinished> {
        let packages: Vec<_> = members.iter().map(|member| member.config).collect();
        let fault = packages.iter().find(|it| ["slow", "locked"].contains(&it.fault.as_str()));
        if let Some(package) = fault {
            package.watched().slow.notify_one();
            members[0].context.stop().wait().await;
            let is_slow = package.fault == "slow";
            return Err(if is_slow { Unfinished::Interrupted } else { "it is locked".into() });
        }
        assert!(packages.iter().all(|package| package.fault != "panics"), "bang");
        Self::install(&packages)?;
        members.iter().for_each(|member| member.context.log("together"));
        Ok(())
    }
}

/// keeps a snap installed, as others do packages of the set apt
#[derive(Debug, Clone, PartialEq, Params)]
struct Snap {
    /// the file that it consists of
    path: AbsPath,
}

impl Snap {
    fn package(&self) -> Package {
        let (set, fault) = (Some("apt".to_owned()), "nothing".to_owned());
        Package { path: self.path.clone(), set, fault }
    }
}

impl Resource for Snap {
    const NAME: &'static str = "snap";
    type State = PackageState;
    type Action = Do;

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        Ok(look(self.path.as_ref()))
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        self.package().act(action, context).await
    }
}

impl Grouping for Snap {
    fn group(&self) -> Option<String> {
        self.package().group()
    }

    async fn act_together(members: &[Member<'_, Self>]) -> Result<(), Unfinished> {
        let packages: Vec<_> = members.iter().map(|member| member.config.package()).collect();
        Ok(Package::install(&packages.iter().collect::<Vec<_>>())?)
    }
}

/// Returns two kinds that group.
pub(super) fn kinds() -> Kinds {
    Kinds::default().with(kind::<Package>().grouping()).with(kind::<Snap>().grouping())
}

/// A folder with a journal of what was installed at once.
pub(super) struct World(TempDir);

impl World {
    pub(super) fn new() -> io::Result<Self> {
        let world = Self(tempdir()?);
        fs::write(world.path("journal"), "")?;
        Ok(world)
    }

    pub(super) fn watched(&self) -> Arc<Watched> {
        watched(self.0.path())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn package(&self, name: &str, set: Option<&str>, fault: &str) -> Declaration {
        let config = json!({"path": self.path(name), "set": set, "fault": fault});
        declare(name, "package", config)
    }

    pub(super) fn snap(&self, name: &str) -> Declaration {
        declare(name, "snap", json!({"path": self.path(name)}))
    }

    pub(super) fn packages<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Declaration> {
        names.into_iter().map(|name| self.package(name, Some("apt"), "nothing")).collect()
    }

    /// Returns what was installed at once, in order of the names.
    pub(super) fn installed(&self) -> Vec<String> {
        let journal = fs::read_to_string(self.path("journal")).unwrap_or_default();
        let mut lines: Vec<_> = journal.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}
