//! The watch of one resource: its files, instants, signals and facts.

use std::future::poll_fn;
use std::path::PathBuf;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use crankcase_engine::{Live, Stop};
use crankcase_workers::Watches;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use crate::base::caught::caught;
use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::kind::watch::{Instants, Watch};
use crate::schedule::cause::Why;
use crate::state::world::WatchedFact;
use crate::visit::opened::Opened;
use crate::visit::reads::Reads;
use crate::visit::watching::{Signal, Watching};

/// How often to look at the wall clock, which somebody may set.
const CLOCK: Duration = Duration::from_secs(60);

/// How many signals of a channel are taken as one event.
const TAKEN: usize = 1_000;

/// The watch of a resource under `run`.
#[derive(Debug)]
pub(crate) struct ActiveWatches {
    files: Watching,
    /// The files that the resource reads. Boxed, as most resources read none.
    reads: Option<Box<Reads>>,
    /// How often to look.
    pub(crate) every: Option<Duration>,
    instants: Vec<WatchedInstant>,
    signals: Vec<mpsc::Receiver<Result<(), BoxError>>>,
    facts: Vec<WatchedFact>,
    /// The folder of the manifest for which the kind was asked; none if it is to be asked.
    asked_in: Option<PathBuf>,
    since: Instant,
    /// What has failed since it was armed.
    failed: Option<String>,
    /// How often in a row it has failed. A failure after a long life begins at 1.
    pub(crate) failures: u32,
}

impl ActiveWatches {
    /// Returns what watches nothing yet.
    pub(crate) fn new(watches: Live<Watches>) -> Self {
        Self {
            files: Watching::new(watches),
            reads: None,
            every: None,
            instants: Vec::new(),
            signals: Vec::new(),
            facts: Vec::new(),
            asked_in: None,
            since: Instant::now(),
            failed: None,
            failures: 0,
        }
    }

    /// Takes over the edits that go on from the watch before: the files may be the same ones.
    pub(crate) fn take_edits(&mut self, before: &mut Self) {
        self.reads = before.reads.take();
    }

    /// Watches, if that is still to be done. What is looked at afterwards is watched.
    ///
    /// A watch that lasts for as long as `lasting` is a good one. A file that the resource reads is left alone until it
    /// was `quiet` for so long.
    pub(crate) async fn arm(
        &mut self,
        opened: &Opened,
        (lasting, quiet): (Duration, Duration),
        stop: &Stop,
    ) -> Result<(), String> {
        let panicked = self.instants.iter_mut().find_map(|due| due.panicked.take());
        if let Some(reason) = self.failed.take().or(panicked) {
            return Err(self.fail(format!("its watch has failed: {reason}"), lasting));
        }
        let folder = opened.folder();
        if self.asked_in.as_deref() != Some(folder) {
            let watch = opened.watch().await;
            let watch =
                watch.map_err(|reason| self.fail(format!("cannot watch it: {reason}"), lasting))?;
            self.asked_in = Some(folder.to_owned());
            self.exchange(watch, quiet);
        }
        self.files.renew(stop).await;
        if let Some(reads) = &mut self.reads {
            reads.renew(stop).await;
        }
        Ok(())
    }

    /// Waits while somebody edits a file that the resource reads. Returns the change, if there was one.
    pub(crate) async fn rest(&mut self, stop: &Stop) -> Option<Why> {
        self.reads.as_mut()?.rest(stop).await
    }

    /// Counts a failure, and returns its reason.
    fn fail(&mut self, reason: String, lasting: Duration) -> String {
        let has_lasted = self.asked_in.take().is_some() && self.since.elapsed() >= lasting;
        self.failures = if has_lasted { 1 } else { self.failures.saturating_add(1) };
        reason
    }

    fn exchange(&mut self, watch: Watch, quiet: Duration) {
        let Watch { paths, reads, every, instants, signals, facts } = watch;
        self.facts = facts;
        let now = wall_clock();
        self.files.exchange(paths);
        if reads.is_empty() {
            self.reads = None;
        } else {
            let new = || Box::new(Reads::new(self.files.beside(), quiet));
            self.reads.get_or_insert_with(new).exchange(reads);
        }
        (self.every, self.signals, self.since) = (every, signals, Instant::now());
        self.instants = instants.into_iter().map(|next| WatchedInstant::new(next, now)).collect();
    }

    /// Returns a signal for each thing that is watched.
    pub(crate) fn signals(&mut self) -> Vec<Signal<'_>> {
        if self.asked_in.is_none() {
            // It is to be asked for anew, after the backoff.
            return Vec::new();
        }
        let Self { files, reads, instants, signals, facts, failed, .. } = self;
        let mut told = files.signals();
        told.extend(reads.iter_mut().map(|reads| -> Signal<'_> { Box::pin(reads.left_alone()) }));
        told.extend(instants.iter_mut().map(|due| -> Signal<'_> {
            Box::pin(async move {
                due.wait().await;
                Why::Poll
            })
        }));
        told.extend(facts.iter_mut().map(|WatchedFact { path, changes }| -> Signal<'_> {
            Box::pin(async move {
                changes.changed().await;
                Why::Fact(path.clone())
            })
        }));
        if !signals.is_empty() {
            told.push(Box::pin(async move {
                poll_fn(|context| poll(signals, failed, context)).await;
                Why::Signal
            }));
        }
        told
    }
}

/// Takes all signals that are there, and what has failed.
fn poll(
    signals: &mut Vec<mpsc::Receiver<Result<(), BoxError>>>,
    failed: &mut Option<String>,
    context: &mut Context<'_>,
) -> Poll<()> {
    let mut is_told = false;
    for channel in &mut *signals {
        for _ in 0..TAKEN {
            match channel.poll_recv(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(()))) => is_told = true,
                Poll::Ready(Some(Err(error))) => *failed = Some(chain(&*error)),
                Poll::Ready(None) => {
                    failed.get_or_insert_with(|| "its signals have ended".to_owned());
                    break;
                }
            }
        }
    }
    if failed.is_some() {
        // The kind is asked for new channels; the old ones must not report twice.
        signals.clear();
    }
    if is_told || failed.is_some() { Poll::Ready(()) } else { Poll::Pending }
}

#[expect(clippy::disallowed_methods, reason = "what is due by the wall clock moves with it")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// The instants of a watch, and the next of them.
struct WatchedInstant {
    next: Instants,
    at: Option<SystemTime>,
    /// What the kind said when it panicked instead of an answer.
    panicked: Option<String>,
}

impl WatchedInstant {
    fn new(next: Instants, now: SystemTime) -> Self {
        let mut due = Self { next, at: None, panicked: None };
        due.ask(now);
        due
    }

    /// Asks for the first instant after this one. What is not after it would be due for ever.
    fn ask(&mut self, now: SystemTime) {
        match caught(|| (self.next)(now)) {
            Ok(at) => self.at = at.filter(|at| *at > now),
            Err(panicked) => (self.at, self.panicked) = (None, Some(panicked.to_string())),
        }
    }

    /// Waits for the next instant, and turns to the one after it. Cancel safe.
    async fn wait(&mut self) {
        loop {
            let now = wall_clock();
            let is_due = self.at.is_some_and(|at| at <= now);
            // Asked in any case: the clock may have been set.
            self.ask(now);
            if is_due || self.panicked.is_some() {
                return;
            }
            let left = self.at.and_then(|at| at.duration_since(now).ok());
            sleep(left.unwrap_or(CLOCK).min(CLOCK)).await;
        }
    }
}

impl std::fmt::Debug for WatchedInstant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WatchedInstant").field(&self.at).finish()
    }
}
