//! Follows the agent for all pages that are open.
//!
//! Invariants:
//! 1. A page is told the whole first, and then each change of it, without a gap. One that is too slow gets the whole
//!    again.
//! 2. A row is as new as the last event that was told: after an event that a report may not know yet, all is asked for
//!    that has changed since.
//! 3. The agent is asked nothing while no page is open, and one small question in 30 seconds while nothing happens.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::view::{Batch, View};
use crate::client::{Client, ClientError, Follower};
use crate::wire::{EngineReport, EventLine, Selection, Subject};

/// How long changes are collected before the pages are told, and the wait before all is asked for again.
const COLLECT_FOR: Duration = Duration::from_millis(200);

/// The wait before the next attempt to reach the agent. Nothing tells that one has started.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// How many lines a page may be behind; then it gets the whole again.
const MAX_LINES_BEHIND: usize = 64;

/// How often it is looked whether the agent still answers, and how long it may take to.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What all pages are told.
#[derive(Debug)]
pub(super) struct Feed {
    state: Mutex<State>,
    lines: broadcast::Sender<Arc<str>>,
    viewers: watch::Sender<usize>,
    version: AtomicU64,
    name: fn(&str) -> String,
}

#[derive(Debug)]
struct State {
    view: Option<View>,
    /// Why the agent is not there; none while it is asked.
    lost: Option<String>,
}

/// One open page.
pub(super) struct Viewer {
    feed: Arc<Feed>,
    lines: broadcast::Receiver<Arc<str>>,
    /// Whether it has to get the whole next: it was opened now, or was too slow.
    needs_whole: bool,
}

impl Feed {
    pub(super) fn new(name: fn(&str) -> String) -> Self {
        let state = State { view: None, lost: None };
        let (lines, _) = broadcast::channel(MAX_LINES_BEHIND);
        Self {
            state: Mutex::new(state),
            lines,
            viewers: watch::Sender::new(0),
            version: AtomicU64::new(0),
            name,
        }
    }

    /// Adds an open page.
    pub(super) fn view(self: &Arc<Self>) -> Viewer {
        self.viewers.send_modify(|count| *count += 1);
        Viewer { feed: Arc::clone(self), lines: self.lines.subscribe(), needs_whole: true }
    }

    /// Follows the agent of a state folder while there are pages. Never returns.
    pub(super) async fn run(&self, state_dir: &Path) {
        let mut viewers = self.viewers.subscribe();
        while viewers.wait_for(|count| *count > 0).await.is_ok() {
            let followed = tokio::select! {
                followed = self.follow(state_dir) => followed,
                _ = viewers.wait_for(|count| *count == 0) => {
                    *self.state.lock() = State { view: None, lost: None };
                    continue;
                }
            };
            match followed {
                // Events were missed: all is asked for anew.
                Ok(()) => sleep(COLLECT_FOR).await,
                Err(error) => {
                    self.lose(format!("{error:?}"));
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Returns what is told of now: that the agent is lost, or nothing new.
    pub(super) fn sign_of_life(&self) -> Arc<str> {
        match &self.state.lock().lost {
            Some(reason) => written(&json!({"lost": reason})),
            None => written(&json!({})),
        }
    }

    /// Returns a number that is another one after each change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn lose(&self, reason: String) {
        let mut state = self.state.lock();
        let is_news = state.view.take().is_some() || state.lost.as_ref() != Some(&reason);
        if is_news {
            self.tell(&json!({"lost": reason}));
            state.lost = Some(reason);
        }
    }

    /// Follows one agent; returns when events were missed.
    async fn follow(&self, state_dir: &Path) -> Result<(), ClientError> {
        let client = Client::connect(state_dir).await?;
        let mut events = client.events_since(0, None).await?;
        let mut part = Selection::default();
        (part.without_inputs, part.without_details) = (true, true);
        let whole = engine(client.report_part(None, &part).await?)?;
        let mut view = View::new(&whole, self.name);
        let (mut batch, mut due) = (Batch::default(), None);
        let (newest, mut at) = (whole.last_event(), None);
        // The report is of no single moment, and later than when it was begun.
        let mut is_first = true;
        while at < newest {
            match next(&mut events).await? {
                EventLine::Event(event) => {
                    at = Some(event.sequence);
                    if event.at < whole.at {
                        view.remember(&event);
                    } else {
                        batch.add(&event);
                        due = Some(Instant::now() + COLLECT_FOR);
                    }
                }
                // What is not in the log any more was before the report.
                EventLine::Missed { .. } if is_first => {}
                EventLine::Missed { .. } => return Ok(()),
            }
            is_first = false;
        }
        self.begin(view);
        let mut look = Instant::now() + LOOK_EVERY;
        loop {
            tokio::select! {
                biased;
                () = until(due) => {
                    part.since = batch.first();
                    let changed = engine(client.report_part(None, &part).await?)?;
                    self.update(&changed, std::mem::take(&mut batch));
                    due = None;
                }
                () = sleep_until(look) => {
                    let late = |_| ClientError::TooSlow { after: ANSWER_WITHIN };
                    timeout(ANSWER_WITHIN, client.counts(None)).await.map_err(late)??;
                    look = Instant::now() + LOOK_EVERY;
                }
                line = next(&mut events) => match line? {
                    EventLine::Event(event) => {
                        batch.add(&event);
                        due.get_or_insert_with(|| Instant::now() + COLLECT_FOR);
                    }
                    EventLine::Missed { .. } if is_first => {}
                    EventLine::Missed { .. } => return Ok(()),
                },
            }
            is_first = false;
        }
    }

    fn begin(&self, view: View) {
        let mut state = self.state.lock();
        state.lost = None;
        let view = state.view.insert(view);
        self.tell(&json!({"whole": view.whole()}));
    }

    fn update(&self, changed: &EngineReport, batch: Batch) {
        let mut state = self.state.lock();
        if let Some(view) = &mut state.view {
            let change = view.update(changed, batch);
            self.tell(&change);
        }
    }

    fn tell(&self, line: &impl Serialize) {
        self.version.fetch_add(1, Ordering::AcqRel);
        // Nobody may be there to be told.
        drop(self.lines.send(written(line)));
    }
}

impl Viewer {
    /// Returns a line for a page that was told nothing for a while.
    pub(super) fn sign_of_life(&self) -> Arc<str> {
        self.feed.sign_of_life()
    }

    /// Returns the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            if self.needs_whole {
                self.needs_whole = false;
                let state = self.feed.state.lock();
                // What was told before is in it.
                self.lines = self.feed.lines.subscribe();
                match (&state.view, &state.lost) {
                    (Some(view), _) => return Some(written(&json!({"whole": view.whole()}))),
                    (None, Some(reason)) => return Some(written(&json!({"lost": reason}))),
                    (None, None) => {}
                }
            }
            match self.lines.recv().await {
                Ok(line) => return Some(line),
                Err(broadcast::error::RecvError::Lagged(_)) => self.needs_whole = true,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.viewers.send_modify(|count| *count -= 1);
    }
}

fn written(line: &impl Serialize) -> Arc<str> {
    let text = serde_json::to_string(line).unwrap_or_else(|error| {
        tracing::error!(%error, "a line for the pages cannot be written");
        String::new()
    });
    Arc::from(text + "\n")
}

async fn next(events: &mut Follower) -> Result<EventLine, ClientError> {
    match events.next().await? {
        Some(line) => Ok(line),
        None => Err(ClientError::Broken("the agent has ended".into())),
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn engine(subject: Subject) -> Result<EngineReport, ClientError> {
    match subject {
        Subject::Engine(report) => Ok(report),
        Subject::Worker(_) => Err(ClientError::Broken("the agent reports one worker".into())),
    }
}
