//! Follows the agent for all pages that are open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::view::{Batch, View};
use crate::client::{Client, ClientError, Follower};
use crate::wire::{EngineReport, EventLine, Selection, Subject};

/// How long changes are collected before the pages are told.
const TOGETHER: Duration = Duration::from_millis(200);

/// The wait before the next attempt to reach the agent. Nothing tells that one has started.
const AGAIN: Duration = Duration::from_millis(500);

/// How many lines a page may be behind; then it gets the whole again.
const BEHIND: usize = 64;

/// What all pages are told.
#[derive(Debug)]
pub(super) struct Feed {
    state: Mutex<State>,
    lines: broadcast::Sender<Arc<str>>,
    viewers: watch::Sender<usize>,
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
    /// Whether it has to get the whole next.
    is_new: bool,
}

impl Feed {
    pub(super) fn new(name: fn(&str) -> String) -> Self {
        let state = State { view: None, lost: None };
        let (lines, _) = broadcast::channel(BEHIND);
        Self { state: Mutex::new(state), lines, viewers: watch::Sender::new(0), name }
    }

    /// Adds an open page.
    pub(super) fn view(self: &Arc<Self>) -> Viewer {
        self.viewers.send_modify(|count| *count += 1);
        Viewer { feed: Arc::clone(self), lines: self.lines.subscribe(), is_new: true }
    }

    /// Follows the agent of a state folder while there are pages, until it is dropped.
    pub(super) async fn run(&self, state_dir: &Path) {
        let mut viewers = self.viewers.subscribe();
        while viewers.wait_for(|count| *count > 0).await.is_ok() {
            let followed = tokio::select! {
                followed = self.follow(state_dir) => followed,
                _ = viewers.wait_for(|count| *count == 0) => Ok(()),
            };
            let reason = match followed {
                Ok(()) if *viewers.borrow() == 0 => {
                    *self.state.lock() = State { view: None, lost: None };
                    continue;
                }
                // Events were missed: all is asked for anew.
                Ok(()) => continue,
                Err(error) => format!("{error:?}"),
            };
            self.lose(reason);
            sleep(AGAIN).await;
        }
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
        // What the events up to this one have changed is in the report already.
        let known = whole.last_event();
        let mut at = None;
        while at < known {
            if let EventLine::Event(event) = next(&mut events).await? {
                at = Some(event.sequence);
                if at <= known {
                    view.remember(&event);
                } else {
                    batch.add(&event);
                    due = Some(Instant::now() + TOGETHER);
                }
            }
        }
        self.begin(view);
        loop {
            let line = tokio::select! {
                biased;
                line = next(&mut events) => Some(line?),
                () = until(due) => None,
            };
            match line {
                Some(EventLine::Event(event)) => {
                    batch.add(&event);
                    due.get_or_insert_with(|| Instant::now() + TOGETHER);
                }
                Some(EventLine::Missed { .. }) => return Ok(()),
                None => {
                    part.since = batch.first();
                    let changed = engine(client.report_part(None, &part).await?)?;
                    self.update(&changed, std::mem::take(&mut batch));
                    due = None;
                }
            }
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
        // Nobody may be there to be told.
        drop(self.lines.send(written(line)));
    }
}

impl Viewer {
    /// Returns the next line. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            if self.is_new {
                self.is_new = false;
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
                Err(broadcast::error::RecvError::Lagged(_)) => self.is_new = true,
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
