use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_workers::ProcessConfig;
use parking_lot::Mutex;

use crate::action::{Action, Unfinished};
use crate::blocking::blocking;
use crate::caught::{PanickedError, caught, caught_async};
use crate::context::Context;
use crate::deadline::{Deadline, too_late};
use crate::error::BoxError;
use crate::facilities::Reversal;
use crate::found::Found;
use crate::kind::Unit;
use crate::text::chain;
use crate::together::{Follower, GroupMember, Place, Turn};
use crate::watch::Watch;

/// A resource between its open and its close; its panics are caught.
#[derive(Debug)]
pub(crate) struct Opened {
    unit: Arc<dyn Unit>,
    context: Context,
    /// How long a look, and each action, may take.
    pub(crate) timeout: Option<Duration>,
    /// Where the resource waits for others that are acted on together with it, unless it has left.
    place: Mutex<Option<Place>>,
}

/// How an action has ended.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) ended: Result<Result<(), Unfinished>, PanickedError>,
    /// Whether it was told to stop because it took too long.
    pub(crate) is_late: bool,
    /// What it has logged.
    pub(crate) log: Vec<String>,
}

impl Opened {
    pub(crate) async fn new(
        unit: Arc<dyn Unit>,
        context: Context,
        timeout: Option<Duration>,
    ) -> Result<Self, String> {
        let this = Self { unit, context, timeout, place: Mutex::default() };
        let opened = this.open().await;
        match opened {
            Ok(()) => Ok(this),
            Err(err) => match this.close().await {
                Ok(()) => Err(format!("cannot open it: {err}")),
                Err(closing) => Err(format!("cannot open it: {err}; {closing}")),
            },
        }
    }

    async fn open(&self) -> Result<(), String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (opened, is_late) = deadline.tell(caught_async(self.unit.open(&call))).await;
        call.trace();
        flatten(opened)
            .map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    /// Takes over what further calls get. What the resource remembers stays.
    pub(crate) fn see(&mut self, context: Context) {
        self.context = context.remembering(&self.context);
    }

    pub(crate) async fn watch(&self) -> Result<Watch, String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (watch, is_late) = deadline.tell(caught_async(self.unit.watch(&call))).await;
        call.trace();
        flatten(watch).map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    /// Returns the folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.context.folder()
    }

    pub(crate) fn program(&self) -> Option<&ProcessConfig> {
        self.unit.program()
    }

    pub(crate) async fn check(&self) -> Result<Found, String> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (found, is_late) = deadline.tell(caught_async(self.unit.check(&call))).await;
        call.trace();
        flatten(found).map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })
    }

    /// Puts on record how the resource is put back as it is now, unless that is on record.
    pub(crate) async fn note_reversal(&self, kind: &str) -> Result<(), String> {
        let facilities = self.context.facilities().clone();
        let name = self.context.name().to_owned();
        if facilities.reversal_file(&name).is_none_or(|file| file.exists()) {
            return Ok(());
        }
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (asked, is_late) = deadline.tell(caught_async(self.unit.reversal(&call))).await;
        call.trace();
        let asked = flatten(asked);
        let config =
            asked.map_err(|error| if is_late { too_late(self.timeout, &error) } else { error })?;
        if config.is_none() {
            tracing::warn!(resource = name, "it cannot be put back as it is now");
        }
        let (kind, folder) = (kind.to_owned(), self.context.folder().to_owned());
        let reversal = Reversal { resource: name, kind, folder, config };
        let noted = blocking(move || facilities.note_reversal(&reversal)).await;
        noted.map_err(|err| chain(&*err))
    }

    /// Gives the resource a place among those that are acted on together with it.
    pub(crate) fn join(&self, place: Option<Place>) {
        *self.place.lock() = place;
    }

    /// Has those that wait for the resource wait for it no more.
    pub(crate) fn leave(&self) {
        drop(self.place.lock().take());
    }

    /// Runs an action: together with those of others, if the resource has a place among some.
    pub(crate) async fn act(&self, action: &Action) -> Acted {
        let place = self.place.lock().take();
        let key = place.as_ref().and_then(|_| caught(|| self.unit.group()).ok().flatten());
        let Some((place, key)) = place.zip(key) else { return self.act_alone(action).await };
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let member = GroupMember::new(Arc::clone(&self.unit), action.clone(), call.clone());
        let ended = match place.gather(key, member.clone()).await {
            Turn::Lead(followers) if !followers.is_empty() => self.lead(member, followers).await,
            Turn::Lead(_) | Turn::Alone => return self.act_alone(action).await,
            Turn::Done => Ok(()),
            Turn::Interrupted => Err(Unfinished::Interrupted),
        };
        match ended {
            // One that is wrong does not fail the others.
            Err(Unfinished::Failed(err)) => {
                call.log(&format!("it is done alone, as together with others it failed: {err}"));
                let mut acted = self.act_alone(action).await;
                acted.log = [call.lines(), acted.log].concat();
                acted
            }
            ended => Acted { ended: Ok(ended), is_late: false, log: call.lines() },
        }
    }

    /// Acts for the resource and for others, and tells them how it has ended.
    async fn lead(&self, own: GroupMember, followers: Vec<Follower>) -> Result<(), Unfinished> {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let (mut members, told): (Vec<_>, Vec<_>) =
            followers.into_iter().map(|follower| (follower.member, follower.told)).unzip();
        members.insert(0, own);
        for member in &mut members {
            member.context = member.context.within(&deadline);
        }
        let (ended, is_late) = deadline.tell(caught_async(self.unit.act_together(&members))).await;
        let ended = match ended {
            Ok(Err(Unfinished::Interrupted)) if is_late => Err("it took too long".into()),
            Ok(ended) => ended,
            Err(panicked) => Err(panicked.into()),
        };
        for told in told {
            let turn = match &ended {
                Ok(()) => Turn::Done,
                Err(Unfinished::Interrupted) => Turn::Interrupted,
                Err(Unfinished::Failed(_)) => Turn::Alone,
            };
            // One that is gone needs to know nothing.
            drop(told.send(turn));
        }
        ended
    }

    async fn act_alone(&self, action: &Action) -> Acted {
        let deadline = Deadline::new(self.timeout, self.context.stop());
        let call = self.call(&deadline);
        let (ended, is_late) = deadline.tell(caught_async(self.unit.act(action, &call))).await;
        Acted { ended, is_late, log: call.lines() }
    }

    pub(crate) fn refresh(&self, done: &[Action]) -> Result<Option<Action>, String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let refresh = caught(|| self.unit.refresh(done, &call));
        call.trace();
        refresh.map_err(|err| err.to_string())
    }

    pub(crate) fn holds(&self) -> Result<Option<String>, String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let holds = caught(|| self.unit.holds(&call));
        call.trace();
        holds.map_err(|err| err.to_string())
    }

    pub(crate) async fn close(self) -> Result<(), String> {
        let call = self.call(&Deadline::new(None, self.context.stop()));
        let closed = caught_async(self.unit.close(&call)).await;
        call.trace();
        closed.map_err(|err| format!("closing it {err}"))
    }

    fn call(&self, deadline: &Deadline<'_>) -> Context {
        self.context.of_call(deadline)
    }
}

fn flatten<T>(result: Result<Result<T, BoxError>, PanickedError>) -> Result<T, String> {
    match result {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(err)) => Err(chain(&*err)),
        Err(err) => Err(chain(&err)),
    }
}
