//! A resource that a worker keeps, from its open to its close, with its program.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

use crankcase_engine::{Exit, Live, Stop};
use crankcase_workers::{Ledger, ProcessError, ProcessHandle, Watches};
use serde_json::Value;

use crate::account::{Done, Outcome};
use crate::action::Action;
use crate::blocking::blocking;
use crate::context::{Context, Notice};
use crate::converge::Convergence;
use crate::declaration::{Config, Declaration, DependencyState};
use crate::facilities::FileStamp;
use crate::found::{Difference, listed};
use crate::halting::Halting;
use crate::inputs::Inputs;
use crate::make::Made;
use crate::notifying::Promise;
use crate::opened::Opened;
use crate::planned::Change;
use crate::reconcile::armed::{Armed, Unarmed};
use crate::reconcile::supervised::Supervised;
use crate::shape::Shape;
use crate::text::cut_after;
use crate::visit::Visit;

/// The length of the line of a failed action that its error quotes, in characters.
const MAX_SAID: usize = 200;

/// A resource from its open to its close.
pub(super) struct Held {
    pub(super) opened: Opened,
    pub(super) armed: Armed,
    pub(super) running: Running,
    /// The files that it reads, with paths that may begin in the folder of its manifest.
    reads: Vec<PathBuf>,
    /// What it saw at its last look that succeeded, if nobody has looked since it sees something
    /// else.
    before: Option<Context>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("opened", &self.opened).finish_non_exhaustive()
    }
}

/// The program of a resource. It goes on while the resource is opened anew.
#[derive(Default)]
pub(super) struct Running {
    pub(super) program: Option<Supervised>,
    /// What the program was started by, if there is one; it is left to run until another one may
    /// replace it.
    started_by: Option<Config>,
}

/// A resource that could not be opened, and the program of the one before it.
pub(super) struct Unopened {
    pub(super) reason: String,
    pub(super) running: Running,
}

/// Why a round did not come to its end.
#[derive(Debug)]
pub(super) enum Failure {
    /// It is not watched.
    Watch(Unarmed),
    /// The resource could not be made or looked at.
    Look(String),
    /// Its config is wrong, and the resource was kept as it was before.
    KeptAsBefore { wrong: String, is_holding: bool },
    /// It is tried again.
    Again(String),
    /// The schedule does not allow what is to be done.
    NotAllowed,
    /// It was told to stop.
    Interrupted,
    /// The engine decides.
    Ended(Exit),
}

impl Failure {
    /// Returns the least number of failures in a row, and what people are told.
    pub(super) fn told(self) -> (u32, String) {
        match self {
            Self::Watch(Unarmed { reason, failures }) => (failures, reason),
            Self::Look(reason) | Self::Again(reason) => (1, reason),
            Self::KeptAsBefore { wrong, .. } => (1, wrong),
            Self::NotAllowed | Self::Interrupted => (1, "it was interrupted".to_owned()),
            Self::Ended(exit) => (1, exit.to_string()),
        }
    }
}

/// How a program is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Without a question: it has run with an equal config, and does not run.
    Again,
    /// If the schedule allows it: for the first time, with another config, or because of a
    /// notification.
    Asked,
}

/// How a convergence went.
#[derive(Default)]
pub(super) struct Judgement {
    /// The state, if the resource is valid or left alone.
    pub(super) state: Option<Arc<Value>>,
    pub(super) is_changed: bool,
    /// Whether an action has begun.
    pub(super) has_acted: bool,
    /// What was not as declared.
    pub(super) differences: Vec<Difference>,
    /// The actions that were done, with what they said.
    pub(super) done: Vec<Done>,
    /// The action that has failed, with what it said.
    pub(super) failed: Option<Done>,
    /// The actions that were done.
    pub(super) actions: Arc<[Action]>,
    /// What the actions said, the failed one included.
    pub(super) output: Vec<String>,
    pub(super) failure: Option<Failure>,
    /// Why the resource is not as declared, though nothing failed.
    pub(super) remark: Option<String>,
    /// Why the run is not at its end, though the resource is as declared.
    pub(super) holds: Option<String>,
}

impl fmt::Debug for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Judgement");
        shown.field("state", &self.state.as_deref().map(Shape::of));
        shown.field("is_changed", &self.is_changed).field("failure", &self.failure);
        shown.finish_non_exhaustive()
    }
}

impl Judgement {
    /// Returns the attributes that were not as declared.
    pub(super) fn differing(&self) -> Vec<String> {
        self.differences.iter().map(|difference| difference.attribute.clone()).collect()
    }

    pub(super) fn actions_in_words(&self) -> String {
        self.actions.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// Checks the resource, and changes it if need be.
    pub(super) async fn converge(
        opened: &Opened,
        halting: &Halting,
        (declaration, notices): (&Declaration, &[Notice]),
        promise: &Promise<'_>,
    ) -> Self {
        let mut visit = Visit::new(declaration, notices.to_vec());
        let inputs = &Inputs::default();
        let convergence = Convergence { opened, declaration, inputs, halting, promise };
        let ended = convergence.run(&mut visit).await;
        visit.close(ended);
        let cannot_look = visit.has_failed_to_look();
        let output = visit.done.iter().flat_map(|done| done.log.clone()).collect();
        let Visit { actions, done, change: Change { differences, .. }, end, .. } = visit;
        let (is_changed, listed) = (!actions.is_empty(), listed(&differences));
        let mut judgement =
            Self { is_changed, differences, done, actions, output, ..Self::default() };
        judgement.has_acted = is_changed || end.unfinished().is_some();
        match end {
            Outcome::Failed { at: Some(done), error } => {
                let said = done.log.iter().rfind(|line| !line.trim().is_empty());
                let said = said.filter(|line| !error.contains(line.trim()));
                let said = said.map(|line| format!("; it said: {}", cut_after(line, MAX_SAID)));
                let said = said.unwrap_or_default();
                let failure = format!("{}: {error}{said}", done.action);
                judgement.failure = Some(Failure::Again(failure));
                judgement.output.extend(done.log.iter().cloned());
                judgement.failed = Some(done);
            }
            Outcome::Failed { at: None, error } if cannot_look => {
                judgement.failure = Some(Failure::Look(error));
            }
            Outcome::Failed { at: None, error } => judgement.failure = Some(Failure::Again(error)),
            Outcome::Skipped { .. } => judgement.failure = Some(Failure::NotAllowed),
            // What was broken off is not done, and what it was told still has to be. That this is
            // so is said by nobody: a worker that is told to stop has no health any more.
            Outcome::Halted { at, .. } => {
                judgement.failure = Some(Failure::Interrupted);
                judgement.output.extend(at.into_iter().flat_map(|done| done.log));
            }
            Outcome::Noop => {
                judgement.remark = Some(format!("it is left alone (noop): {listed}"));
            }
            _ => {}
        }
        match visit.state {
            Some(DependencyState::Known(state)) => judgement.state = Some(state),
            None if declaration.readonly && judgement.failure.is_none() => {
                judgement.remark = Some("it is only read, and does not exist".to_owned());
            }
            _ => {}
        }
        judgement
    }
}

impl Held {
    /// Closes the old resource and opens the one that was made. A program goes on.
    pub(super) async fn open(
        old: Option<Self>,
        made: Made,
        watches: &Live<Watches>,
    ) -> Result<Self, Unopened> {
        let mut running = Running::default();
        if let Some(mut old) = old {
            running = std::mem::take(&mut old.running);
            old.close().await;
        }
        Self::open_with(running, made, watches).await
    }

    /// Opens a resource whose program may run already.
    pub(super) async fn open_with(
        running: Running,
        made: Made,
        watches: &Live<Watches>,
    ) -> Result<Self, Unopened> {
        let reads = made.claimed().reads.into_iter().map(|read| read.path).collect();
        match Opened::new(made).await {
            Ok(opened) => {
                let armed = Armed::new(watches.clone());
                Ok(Self { opened, armed, running, reads, before: None })
            }
            Err(reason) => Err(Unopened { reason, running }),
        }
    }

    /// Returns how the files are now that it reads. The future does not hold the resource, whose
    /// program cannot be shared between threads.
    pub(super) fn sources(&self) -> impl Future<Output = Vec<FileStamp>> + use<> {
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
    /// until somebody has looked.
    pub(super) fn see(&mut self, context: Context, may_stay: bool) {
        let last = self.opened.see(context);
        self.before = self.before.take().or(Some(last)).filter(|_| may_stay);
    }

    /// Shows the resource what it saw before, but nothing of what it was notified of: that is
    /// answered when the resource sees it again.
    pub(super) fn step_back(&mut self) {
        if let Some(before) = self.before.take() {
            self.opened.see(before);
        }
        self.opened.forget_notices();
    }

    /// Checks the resource, and changes it if need be. If it cannot be looked at with what it sees
    /// now, it is kept with what it saw before; then what was wrong is returned too.
    pub(super) async fn converge(
        &mut self,
        halting: &Halting,
        (declaration, notices): (&Declaration, &[Notice]),
        promise: &Promise<'_>,
    ) -> (Judgement, Option<String>) {
        let asked = (declaration, notices);
        let judgement = Judgement::converge(&self.opened, halting, asked, promise).await;
        // What was changed is told, and not taken back.
        let may_stay = self.before.is_some() && !judgement.is_changed;
        let wrong = match &judgement.failure {
            Some(Failure::Look(wrong)) if may_stay => wrong.clone(),
            _ => {
                self.before = None;
                return (judgement, None);
            }
        };
        self.step_back();
        let asked = (declaration, &[][..]);
        let stayed = Judgement::converge(&self.opened, halting, asked, promise).await;
        match stayed.failure {
            Some(Failure::Look(_)) => (judgement, None),
            _ => (stayed, Some(wrong)),
        }
    }

    /// Returns how the program is to be started, if the resource is one and it is to be. It runs
    /// with the config `ran_with` if it was started before, by any worker.
    pub(super) fn start(&self, is_notified: bool, ran_with: Option<&Config>) -> Option<Start> {
        self.opened.program()?;
        let is_started = self.running.program.is_some() && self.is_started_by_config();
        match &self.running.program {
            None if ran_with == Some(&self.opened.config()) => Some(Start::Again),
            _ if !is_started || is_notified => Some(Start::Asked),
            _ => None,
        }
    }

    fn is_started_by_config(&self) -> bool {
        self.running.started_by.as_ref() == Some(&self.opened.config())
    }

    /// Starts the program; one that runs is ended before. Returns a view of it, unless the worker
    /// was told to stop.
    pub(super) async fn supervise(
        &mut self,
        name: &str,
        (worker, ledger): (&Stop, Option<&Ledger>),
    ) -> Result<Option<Weak<ProcessHandle>>, ProcessError> {
        let Some(mut config) = self.opened.program().cloned() else { return Ok(None) };
        name.clone_into(&mut config.name);
        config.secrets = self.opened.secrets().clone();
        self.running.end().await;
        // The old one may have used its whole grace; a new one would have to be ended at once.
        if worker.is_stopped() {
            return Ok(None);
        }
        self.running.started_by = Some(self.opened.config());
        let started = Supervised::spawn(worker, config, ledger).await?;
        let program = self.running.program.insert(started);
        Ok(Some(program.handle()))
    }

    /// Returns in what the program is not as declared, if the resource is one.
    pub(super) fn amiss(&self) -> Option<&'static str> {
        self.opened.program()?;
        match &self.running.program {
            None => Some("it does not run"),
            Some(_) if !self.is_started_by_config() => Some("it runs with the config before"),
            Some(_) => None,
        }
    }

    /// Ends the program and closes the resource.
    pub(super) async fn close(mut self) {
        self.running.end().await;
        if let Err(error) = self.opened.close().await {
            tracing::warn!(error, "resource was not closed in good order");
        }
    }
}

impl Running {
    /// Returns the pid of the program, if there is one.
    pub(super) fn pid(&self) -> Option<i32> {
        self.program.as_ref().map(Supervised::pid)
    }

    /// Ends the program in good order, if there is one.
    pub(super) async fn end(&mut self) {
        if let Some(program) = self.program.take() {
            program.end().await;
        }
    }
}
