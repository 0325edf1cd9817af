//! A resource under `run` while it is open, with its watch and its program.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crankcase_engine::{Live, Stop};
use crankcase_workers::{ProcessConfig, ProcessError, ProcessHandle, Readiness, Survivor, Watches};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::base::blocking::blocking;
use crate::declare::declaration::{Config, Declaration};
use crate::kind::context::Context;
use crate::state::facilities::{Facilities, FileStamp};
use crate::visit::Visit;
use crate::visit::active_watches::ActiveWatches;
use crate::visit::announcement::Announcement;
use crate::visit::converge::Convergence;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::inputs::Inputs;
use crate::visit::opened::Opened;
use crate::visit::prepared::Prepared;
use crate::visit::supervised::Supervised;

/// A resource from its open to its close.
pub(crate) struct OpenResource {
    pub(crate) opened: Opened,
    pub(crate) watches: ActiveWatches,
    pub(crate) running: Running,
    /// The files that it reads, with paths that may begin in the folder of its manifest.
    reads: Vec<PathBuf>,
    /// What it saw at its last look that succeeded, until it is looked at with what it sees now.
    /// Boxed, as few resources have it.
    before: Option<Box<Context>>,
}

impl fmt::Debug for OpenResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenResource").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// The program of a resource. It goes on while the resource is opened anew.
#[derive(Default)]
pub(crate) struct Running {
    pub(crate) program: Option<Supervised>,
    /// The config with which the program was started, if there is one. The program runs until
    /// another one may replace it. Boxed, as few resources are programs.
    started_by: Option<Box<Config>>,
}

/// A resource that could not be opened, and the program of the one before it.
pub(crate) struct Unopened {
    pub(crate) reason: String,
    pub(crate) running: Running,
}

/// The refresh that notifications ask of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProgramRefresh {
    /// To read its configuration anew, if it can, and else to restart.
    Reload,
    Restart,
}

/// How a program is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Without a question: it has run with an equal config, and does not run.
    Again,
    /// If the schedule allows it: for the first time, with another config, or because of a
    /// notification.
    Asked,
    /// It is not started: it reads its configuration anew, if the schedule allows it.
    Reload,
}

impl OpenResource {
    /// Closes the old resource and opens the one that was prepared. A program goes on.
    pub(crate) async fn open(
        old: Option<Self>,
        prepared: Prepared,
        watches: &Live<Watches>,
    ) -> Result<Self, Unopened> {
        let (mut running, mut watches) = (Running::default(), ActiveWatches::new(watches.clone()));
        if let Some(mut old) = old {
            running = std::mem::take(&mut old.running);
            watches.take_edits(&mut old.watches);
            old.close().await;
        }
        Self::open_with(running, prepared, watches).await
    }

    /// Opens a resource whose program may run already.
    pub(crate) async fn open_with(
        running: Running,
        prepared: Prepared,
        watches: ActiveWatches,
    ) -> Result<Self, Unopened> {
        let reads = prepared.claimed().reads.into_iter().map(|read| read.path).collect();
        match prepared.open().await {
            Ok(opened) => Ok(Self { opened, watches, running, reads, before: None }),
            Err(reason) => Err(Unopened { reason, running }),
        }
    }

    /// Returns how the files are now that it reads. The future does not hold the resource, whose
    /// program cannot be shared between threads.
    pub(crate) fn sources(&self) -> impl Future<Output = Vec<FileStamp>> + use<> {
        let folder = self.opened.folder();
        let paths: Vec<_> = self.reads.iter().map(|path| folder.join(path)).collect();
        async move {
            if paths.is_empty() {
                return Vec::new();
            }
            let look = move || Ok::<_, Infallible>(paths.into_iter().map(FileStamp::now).collect());
            blocking(look).await.unwrap_or_default()
        }
    }

    /// Shows the resource something else from now on. If it `may_stay`, what it saw before is kept
    /// until the next look.
    pub(crate) fn see(&mut self, context: Context, may_stay: bool) {
        let last = self.opened.see(context);
        self.before = may_stay.then(|| self.before.take().unwrap_or_else(|| Box::new(last)));
    }

    /// Shows the resource what it saw before, but nothing of what it was notified of: that is
    /// answered when the resource sees it again.
    pub(crate) fn step_back(&mut self) {
        if let Some(before) = self.before.take() {
            self.opened.see(*before);
        }
        self.opened.forget_notices();
    }

    /// Makes the resource as declared. If it cannot be looked at with what it sees now, it is kept
    /// with what it saw before; then the error of the look is returned.
    pub(crate) async fn converge(
        &mut self,
        gatekeeper: &Gatekeeper,
        declaration: &Declaration,
        announcement: &Announcement,
        visit: &mut Visit,
    ) -> Option<String> {
        converge(&self.opened, declaration, gatekeeper, announcement, visit).await;
        // A change that was made is reported, and not taken back.
        // What is to be put back is not back while it is as before.
        let may_stay = self.before.is_some() && visit.done.is_empty() && !declaration.is_put_back();
        let Some(wrong) = visit.look_error().filter(|_| may_stay).map(str::to_owned) else {
            self.before = None;
            return None;
        };
        self.step_back();
        let mut stayed = Visit::new(declaration, Vec::new());
        converge(&self.opened, declaration, gatekeeper, announcement, &mut stayed).await;
        if stayed.look_error().is_some() {
            return None;
        }
        *visit = stayed;
        Some(wrong)
    }

    /// Returns how the program is to be started, if the resource is one and it is to be. It runs
    /// with the config `ran_with` if it was started before, by any worker.
    pub(crate) fn start(
        &self,
        refresh: Option<ProgramRefresh>,
        ran_with: Option<&Config>,
    ) -> Option<Start> {
        let can_reload = self.opened.program()?.reload.is_some();
        let is_started = self.running.program.is_some() && self.is_started_by_config();
        match (&self.running.program, refresh) {
            (None, _) if ran_with == Some(&self.opened.config()) => Some(Start::Again),
            _ if !is_started => Some(Start::Asked),
            (_, None) => None,
            // A program that is not ready yet may not know the signal, which would end it.
            (Some(program), Some(ProgramRefresh::Reload)) if can_reload && program.is_ready() => {
                Some(Start::Reload)
            }
            (_, Some(_)) => Some(Start::Asked),
        }
    }

    fn is_started_by_config(&self) -> bool {
        self.running.started_by.as_deref() == Some(&self.opened.config())
    }

    /// Returns the config of the program, if the resource is one.
    pub(crate) fn program_config(
        &self,
        name: &str,
        facilities: &Facilities,
    ) -> Option<ProcessConfig> {
        let mut config = self.opened.program()?.clone();
        name.clone_into(&mut config.name);
        if let Readiness::Notify { folder } = &mut config.readiness {
            *folder = facilities.notify_sockets().unwrap_or_default();
        }
        config.log_file = config.log_file.and_then(|file| facilities.log_file(name, file));
        config.secrets = self.opened.secrets().clone();
        config.cgroups = facilities.cgroups().cloned();
        if config.survives {
            config.digest = digest(self.opened.config());
        }
        Some(config)
    }

    /// Adopts a program that an earlier agent has started with an equal config. Returns a view of
    /// it; nothing if it has ended.
    pub(crate) async fn adopt(
        &mut self,
        worker: &Stop,
        (config, facilities): (ProcessConfig, &Facilities),
        survivor: &Survivor,
    ) -> Result<Option<Weak<ProcessHandle>>, ProcessError> {
        let Some(adopted) =
            Supervised::adopt(worker, config, facilities.ledger(), survivor).await?
        else {
            return Ok(None);
        };
        self.running.started_by = Some(Box::new(self.opened.config()));
        Ok(Some(self.running.program.insert(adopted).handle()))
    }

    /// Starts the program; one that runs is ended before. Returns a view of it, unless the worker
    /// was told to stop.
    pub(crate) async fn supervise(
        &mut self,
        name: &str,
        worker: &Stop,
        facilities: &Facilities,
    ) -> Result<Option<Weak<ProcessHandle>>, ProcessError> {
        let Some(config) = self.program_config(name, facilities) else { return Ok(None) };
        self.running.end().await;
        // The old one may have used its whole grace; a new one would have to be ended at once.
        if worker.is_stopped() {
            return Ok(None);
        }
        self.running.started_by = Some(Box::new(self.opened.config()));
        let started = match Supervised::spawn(worker, config, facilities.ledger()).await {
            // The wait for a daemon was given up.
            Err(_) if worker.is_stopped() => return Ok(None),
            started => started?,
        };
        let program = self.running.program.insert(started);
        Ok(Some(program.handle()))
    }

    /// Returns in what the program is not as declared, if the resource is one.
    pub(crate) fn amiss(&self) -> Option<&'static str> {
        self.opened.program()?;
        match &self.running.program {
            None => Some("it does not run"),
            Some(_) if !self.is_started_by_config() => Some("it runs with the config before"),
            Some(_) => None,
        }
    }

    /// Closes the resource, and leaves its program running if that is allowed. Returns the program
    /// if it was left.
    pub(crate) async fn leave(mut self) -> Option<Survivor> {
        let left = self.running.leave().await;
        self.close().await;
        left
    }

    /// Ends the program and closes the resource.
    pub(crate) async fn close(mut self) {
        self.running.end().await;
        if let Err(error) = self.opened.close().await {
            tracing::warn!(error, "resource was not closed in good order");
        }
    }
}

impl Running {
    /// Returns a view of the program, if there is one.
    pub(crate) fn handle(&self) -> Option<Arc<ProcessHandle>> {
        self.program.as_ref().and_then(|program| program.handle().upgrade())
    }

    /// Returns whether there is a program, and it was ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.program.as_ref().is_some_and(Supervised::is_ready)
    }

    /// Returns why the program is unhealthy, if it is.
    pub(crate) fn unhealthy(&self) -> Option<String> {
        let reason = self.program.as_ref()?.unhealthy()?;
        Some(format!("its program is unhealthy: {reason}"))
    }

    /// Returns the pid of the program, if there is one.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.program.as_ref().map(Supervised::pid)
    }

    /// Leaves the program running if there is one and it may be left; returns it if it was left.
    async fn leave(&mut self) -> Option<Survivor> {
        let program = self.program.take_if(|program| program.survives())?;
        program.leave().await
    }

    /// Ends the program in good order, if there is one.
    pub(crate) async fn end(&mut self) {
        if let Some(program) = self.program.take() {
            program.end().await;
        }
    }
}

/// Returns the digest of a config, by which another agent recognizes an equal one. The config may
/// have secrets, and so may the environment of the program: a user who can read the agent's records
/// can read the program's environment too.
fn digest(config: Config) -> String {
    let mut value = Value::Object(config);
    // Two equal configs may have their keys in different orders, as their manifests do.
    value.sort_all_objects();
    base16ct::lower::encode_string(&Sha256::digest(value.to_string()))
}

async fn converge(
    opened: &Opened,
    declaration: &Declaration,
    gatekeeper: &Gatekeeper,
    announcement: &Announcement,
    visit: &mut Visit,
) {
    let inputs = &Inputs::default();
    let convergence = Convergence { opened, declaration, inputs, gatekeeper, announcement };
    let ended = convergence.run(visit).await;
    visit.close(ended);
}
