//! What people do to a worker, and what it would do to others.

use std::fmt;

use crankcase_engine::{Change, ChangeError, Engine, Name, Origin, WorkerState};
use hyper::{Response, StatusCode};

use super::Served;
use super::answer::{Refusal, json};
use super::query::Query;
use crate::http::Body;
use crate::wire::{Act, ControlRequest, Controlled, FailureCode, Preview};

/// What a person asks of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// What the engine does.
    Act(Act),
    /// A bounce, also of a worker that cannot start again.
    ForcedBounce,
    /// What the holder does.
    Pause,
    /// The end of a pause.
    Resume,
}

/// Returns what a request with this target asks for.
pub(super) fn asked_of(target: &str) -> Option<Asked> {
    match target.strip_prefix("/v1/")? {
        "pause" => Some(Asked::Pause),
        "resume" => Some(Asked::Resume),
        word => Act::read(word).map(Asked::Act),
    }
}

impl Asked {
    /// Returns what is asked for with the parameters of the request, of which only a bounce has one.
    pub(super) fn forced(self, query: &mut Query) -> Result<Self, Refusal> {
        let is_forced = self == Self::Act(Act::Bounce) && query.is_forced()?;
        Ok(if is_forced { Self::ForcedBounce } else { self })
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Act(act) => act.fmt(f),
            Self::ForcedBounce => f.pad("forced bounce"),
            Self::Pause => f.pad("pause"),
            Self::Resume => f.pad("resume"),
        }
    }
}

fn change_of(act: Act, name: Name<()>) -> Change {
    match act {
        Act::Bounce => Change::new().bounce(name),
        Act::Park => Change::new().park(name),
        Act::Unpark => Change::new().unpark(name),
    }
}

/// Refuses to bounce a worker that cannot start again: one that is held back, as a new one would be
/// too, and one that does not run because it is parked or waits for others.
async fn refuse_lasting_stop(engine: &Engine, name: &Name<()>) -> Result<(), Refusal> {
    let cannot_start =
        |state| matches!(state, WorkerState::HeldBack | WorkerState::Parked | WorkerState::Waiting);
    let why = engine.why(name.as_str()).await;
    let why = why.filter(|why| why.steps.first().is_some_and(|step| cannot_start(step.state)));
    why.map_or(Ok(()), |why| Err(Refusal::cannot_start(&why)))
}

fn done_of(act: Act, path: String) -> Controlled {
    match act {
        Act::Bounce => Controlled::Bounced(path),
        Act::Park => Controlled::Parked(path),
        Act::Unpark => Controlled::Unparked(path),
    }
}

impl Served {
    /// Carries out what a person asks of a worker. Events name the person.
    pub(super) async fn control(
        &self,
        asked: Asked,
        request: ControlRequest,
        user: u32,
    ) -> Result<Response<Body>, Refusal> {
        let path = self.absolute(&request.path);
        self.refuse_engine(&path)?;
        let (engine, name) = self.find(&path).await?;
        if asked == Asked::Act(Act::Bounce) {
            refuse_lasting_stop(&engine, &name).await?;
        }
        let who = format!("{} (uid {user})", request.who);
        let why = &request.why;
        tracing::info!(act = %asked, path, who, why, "a change of a worker was asked for");
        let by = Origin::new(who, request.why);
        match asked {
            Asked::Act(act) => self.change(act, (&engine, name), &path, by).await?,
            Asked::ForcedBounce => self.change(Act::Bounce, (&engine, name), &path, by).await?,
            Asked::Pause => self.pause((&engine, &name), &path, Some(&by)).await?,
            Asked::Resume => self.pause((&engine, &name), &path, None).await?,
        }
        let done = match asked {
            Asked::Act(act) => done_of(act, path),
            Asked::ForcedBounce => Controlled::Bounced(path),
            Asked::Pause => Controlled::Paused(path),
            Asked::Resume => Controlled::Resumed(path),
        };
        Ok(json(StatusCode::OK, &done))
    }

    /// Has the engine change a worker. A park is on record before, also if nobody waits for the end of
    /// the worker.
    async fn change(
        &self,
        act: Act,
        (engine, name): (&Engine, Name<()>),
        path: &str,
        by: Origin,
    ) -> Result<(), Refusal> {
        if act == Act::Park {
            self.note_park(path, Some(&by)).await?;
        }
        let changed = engine.asked_by(by.who, by.why).apply(change_of(act, name)).await;
        let is_in_force = matches!(changed, Ok(()) | Err(ChangeError::Stuck { .. }));
        if (act == Act::Park && !is_in_force) || (act == Act::Unpark && is_in_force) {
            self.note_park(path, None).await?;
        }
        match changed {
            Ok(()) => Ok(()),
            Err(error) => Err(self.unchanged(path, &error).await),
        }
    }

    /// Puts on record who has parked a worker, or that nobody has.
    async fn note_park(&self, path: &str, by: Option<&Origin>) -> Result<(), Refusal> {
        let Some(holder) = &self.config.holder else { return Ok(()) };
        let noted = holder.note_park(path, by).await;
        noted.map_err(|message| Refusal::new(FailureCode::Conflict, message))
    }

    /// Has a worker paused by a person, or resumed by nobody.
    async fn pause(
        &self,
        (engine, name): (&Engine, &Name<()>),
        path: &str,
        by: Option<&Origin>,
    ) -> Result<(), Refusal> {
        let why = engine.why(name.as_str()).await;
        let state = why.as_ref().and_then(|why| why.steps.first()).map(|step| step.state);
        if state.is_none_or(|state| state == WorkerState::Absent) {
            return Err(self.unknown(path).await);
        }
        let paused = match &self.config.holder {
            Some(holder) => holder.pause(path, by).await,
            None => Err("this agent pauses no worker".to_owned()),
        };
        paused.map_err(|message| Refusal::new(FailureCode::Conflict, message))
    }

    /// Answers with what an act would do to other workers.
    pub(super) async fn preview(&self, act: Act, path: &str) -> Result<Response<Body>, Refusal> {
        self.refuse_engine(path)?;
        let (engine, name) = self.find(path).await?;
        match engine.preview(change_of(act, name)).await {
            Ok(mut preview) => {
                for paths in [&mut preview.bounced, &mut preview.stopped] {
                    paths.retain(|other| other != path);
                }
                let inside = self.count_inside(path).await;
                Ok(json(StatusCode::OK, &Preview { inside, ..preview.into() }))
            }
            Err(error) => Err(self.unchanged(path, &error).await),
        }
    }

    /// Returns how many workers are in the engine at a path; 0 if none is there.
    async fn count_inside(&self, path: &str) -> usize {
        let Some(engine) = self.engine.engine_at(path) else { return 0 };
        let nodes = engine.graph().await.map_or_else(Vec::new, |graph| graph.nodes);
        nodes.iter().filter(|node| node.state != WorkerState::Absent).count()
    }

    /// Refuses with why an engine does not change a worker.
    async fn unchanged(&self, path: &str, error: &ChangeError) -> Refusal {
        match error {
            ChangeError::NotInstalled { .. } => self.unknown(path).await,
            error => Refusal::of_change(error),
        }
    }
}
