//! What resources get in addition to their configs.

use std::convert::Infallible;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_workers::{Cgroups, FileError, Folder, Ledger, Secrets, Survivor, finish_overwrites};

pub(crate) use self::programs::{FileStamp, Programs};
pub(crate) use self::services::Services;
pub use self::services::Shared;
pub(crate) use self::survivors::Survivors;
use crate::base::blocking::blocking;
use crate::base::naming::worker_name;
use crate::report::observer::Observer;
use crate::state::Records;
use crate::state::world::World;

mod programs;
mod services;
mod survivors;

/// The folder in the state folder with the contents of files that are written in place.
const OVERWRITES: &str = "overwrites";

/// What resources get in addition to their configs: a record of the commands that run, services
/// that they share, folders of their own, and the [`Records`] of what is to outlive the process.
/// Cheap to clone; clones are the same.
///
/// Without a state folder, which is the default, nothing outlives the process: no command is on
/// record, no resource has a folder of its own, and the records are in memory.
#[derive(Debug, Clone, Default)]
pub struct Facilities {
    inner: Arc<Inner>,
    secrets: Secrets,
    observer: Option<Arc<dyn Observer>>,
    world: Option<Arc<dyn World>>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Option<PathBuf>,
    ledger: Option<Ledger>,
    cgroups: Option<Cgroups>,
    services: Services,
    records: Records,
    programs: Programs,
    survivors: Survivors,
    /// Whether the agent ends.
    is_ending: AtomicBool,
    is_plan: bool,
}

impl Facilities {
    /// Returns the facilities of the only agent that uses this state folder, with the records of the
    /// folder. Nothing is made in it before it is needed. What a crash has interrupted of a file that
    /// is [written in place](crate::Context::overwrites) is ended. Programs get cgroups of their
    /// own if this process may make any. Blocks for the disk.
    pub fn open(state: &Path, records: Records) -> Self {
        if let Err(error) = finish_overwrites(&state.join(OVERWRITES)) {
            tracing::warn!(%error, "cannot look for files that a crash has left partly written");
        }
        let ledger = Ledger::new(&Self::processes(state)).keeping_room();
        Self::with(state, records, Some(ledger))
    }

    /// Returns the facilities of a plan, which may be made while an agent uses the state folder:
    /// nothing in it is changed, so guards that run are on no record, and the private folder of a
    /// resource may not be there. A plan reads the records, and adds none.
    pub fn of_plan(state: &Path, records: Records) -> Self {
        Self::with(state, records, None)
    }

    fn with(state: &Path, records: Records, ledger: Option<Ledger>) -> Self {
        let (state, is_plan) = (Some(state.to_owned()), ledger.is_none());
        let cgroups = if is_plan { None } else { find_cgroups() };
        let inner = Inner { state, ledger, cgroups, records, is_plan, ..Inner::default() };
        Self { inner: Arc::new(inner), ..Self::default() }
    }

    /// Returns where in a state folder the commands and programs that run are on record, for
    /// [`sort_leftovers`](crankcase_workers::sort_leftovers).
    pub fn processes(state: &Path) -> PathBuf {
        state.join("processes")
    }

    /// Hands over the programs that an earlier agent has left running. A resource adopts the
    /// program of its name if that was started with an equal config, and ends any other of its name
    /// before it starts one.
    pub fn hand_over_survivors(&self, survivors: Vec<Survivor>) {
        self.inner.survivors.add(survivors);
    }

    /// Shows the programs that an earlier agent has left running to resources that are only looked
    /// at: no resource adopts or ends one, and a later agent finds them as they are.
    pub fn show_survivors(&self, survivors: Vec<Survivor>) {
        self.inner.survivors.keep();
        self.inner.survivors.add(survivors);
    }

    pub(crate) fn survivors(&self) -> &Survivors {
        &self.inner.survivors
    }

    /// Says that the agent ends. A resource that ends from now on leaves its program running, if
    /// that is declared so, for the next agent.
    pub fn leave_programs(&self) {
        self.inner.is_ending.store(true, Ordering::Release);
    }

    pub(crate) fn leaves_programs(&self) -> bool {
        self.inner.is_ending.load(Ordering::Acquire)
    }

    /// Returns the ledger of the commands and programs that run, which the next agent ends or
    /// adopts.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.inner.ledger.as_ref()
    }

    /// Returns where programs get cgroups of their own, if this agent may make any.
    pub(crate) fn cgroups(&self) -> Option<&Cgroups> {
        self.inner.cgroups.as_ref()
    }

    /// Returns the folder of the sockets to which programs say that they are ready, if there is a
    /// state folder. The path is absolute: a program may run in another folder.
    pub(crate) fn notify_sockets(&self) -> Option<PathBuf> {
        absolute(self.state()?.join("notify")).ok()
    }

    /// Returns the same facilities for the resources of a site with these secrets, which are hidden in all
    /// that is said of the resources. Default: none but the values of sensitive attributes.
    #[must_use]
    pub fn hiding(&self, secrets: &Secrets) -> Self {
        Self { secrets: secrets.clone(), ..self.clone() }
    }

    /// Returns the same facilities for resources that someone observes. Default: nobody.
    #[must_use]
    pub fn observed_by(&self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self.clone() }
    }

    /// Returns the same facilities for resources that may read facts, and write their own. Default: there
    /// are none.
    #[must_use]
    pub fn in_world(&self, world: Arc<dyn World>) -> Self {
        Self { world: Some(world), ..self.clone() }
    }

    pub(crate) fn world(&self) -> Option<&Arc<dyn World>> {
        self.world.as_ref()
    }

    pub(crate) fn observer(&self) -> Option<&dyn Observer> {
        self.observer.as_deref()
    }

    /// Has the observer, if there is one, see something for which it may block for the disk.
    pub(crate) async fn observe(&self, see: impl FnOnce(&dyn Observer) + Send + 'static) {
        if let Some(observer) = self.observer.clone() {
            let see = move || {
                see(&*observer);
                Ok::<_, Infallible>(())
            };
            // It fails only if the runtime ends.
            drop(blocking(see).await);
        }
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn services(&self) -> &Services {
        &self.inner.services
    }

    /// Returns what is on record of the resources.
    pub fn records(&self) -> &Records {
        &self.inner.records
    }

    /// Returns whether what is put on record outlives the process: there is a state folder, and no
    /// plan is made. Otherwise nothing is kept for a later agent.
    pub(crate) fn are_lasting(&self) -> bool {
        self.state().is_some() && !self.inner.is_plan
    }

    pub(crate) fn programs(&self) -> &Programs {
        &self.inner.programs
    }

    pub(crate) fn state(&self) -> Option<&Path> {
        self.inner.state.as_deref()
    }

    /// Returns where contents are kept of files that are written in place, if there is a state folder.
    pub(crate) fn overwrites(&self) -> Option<PathBuf> {
        Some(self.state()?.join(OVERWRITES))
    }

    /// Returns the file for the output of a resource's program: in the state folder, by the name of
    /// the resource, unless its kind says where. None if there is no state folder.
    pub(crate) fn log_file(&self, resource: &str, file: PathBuf) -> Option<PathBuf> {
        if file.is_absolute() {
            return Some(file);
        }
        let name = format!("{}.log", worker_name(resource));
        Some(self.state()?.join("output").join(name))
    }

    /// Returns the folder of the private folders, if there is a state folder, and that of a resource in it.
    fn private(&self, resource: &str) -> Option<(PathBuf, PathBuf)> {
        let all = self.inner.state.as_ref()?.join("private");
        let path = all.join(worker_name(resource));
        Some((all, path))
    }

    /// Makes the private folder of a resource, unless it is there. Returns the path at which it is now.
    pub(crate) fn make_private(&self, resource: &str) -> Result<Option<PathBuf>, FileError> {
        let Some((all, path)) = self.private(resource) else { return Ok(None) };
        if self.inner.is_plan {
            return Ok(Some(path));
        }
        Folder::make_own(&all)?;
        Folder::make_own(&path)?.current_path().map(Some)
    }

    /// Removes the private folder of a resource with all that is in it, if it is there.
    pub(crate) fn remove_private(&self, resource: &str) -> Result<(), FileError> {
        let Some((all, _)) = self.private(resource).filter(|_| !self.inner.is_plan) else {
            return Ok(());
        };
        match Folder::open_own(&all) {
            Err(err) if err.is_missing() => Ok(()),
            all => all?.remove_all(worker_name(resource)),
        }
    }
}

/// Returns where programs get cgroups of their own, if this agent may make any. Blocks for `/proc`.
fn find_cgroups() -> Option<Cgroups> {
    match Cgroups::find() {
        Ok(cgroups) => Some(cgroups),
        Err(error) => {
            tracing::debug!(%error, "programs get no cgroups of their own");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::thread::{self, ThreadId};

    use parking_lot::Mutex;

    use super::Facilities;
    use crate::report::observer::Observer;
    use crate::state::Records;

    /// Notes on which threads it sees failures.
    #[derive(Debug, Default)]
    struct Threads(Mutex<Vec<ThreadId>>);

    impl Observer for Threads {
        fn failed_again(&self, _: &str) {
            self.0.lock().push(thread::current().id());
        }
    }

    #[test]
    fn notify_sockets_have_an_absolute_path_also_in_a_relative_state_folder() -> std::io::Result<()>
    {
        let facilities = Facilities::of_plan(Path::new("state"), Records::default());

        let folder = std::env::current_dir()?.join("state/notify");
        assert_eq!(facilities.notify_sockets(), Some(folder));
        assert_eq!(Facilities::default().notify_sockets(), None);
        Ok(())
    }

    #[tokio::test]
    async fn an_observer_that_may_block_is_called_off_the_runtime() {
        let threads = Arc::new(Threads::default());
        let facilities = Facilities::default().observed_by(threads.clone());

        facilities.observe(|observer| observer.failed_again("page")).await;

        let seen = threads.0.lock();
        assert_eq!(seen.len(), 1);
        assert_ne!(seen[0], thread::current().id());
    }
}
