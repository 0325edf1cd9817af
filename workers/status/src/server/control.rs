//! What people do to a worker, and what it would do to others.

use crankcase_engine::{Change, ChangeError, Engine, Name, WorkerState};
use hyper::{Response, StatusCode};

use super::Served;
use super::answer::{Refusal, json};
use crate::http::Body;
use crate::wire::{Act, ControlRequest, Controlled, Preview};

/// Returns what a request with this target asks for.
pub(super) fn act_of(target: &str) -> Option<Act> {
    Act::read(target.strip_prefix("/v1/")?)
}

fn change_of(act: Act, name: Name<()>) -> Change {
    match act {
        Act::Bounce => Change::new().bounce(name),
        Act::Park => Change::new().park(name),
        Act::Unpark => Change::new().unpark(name),
    }
}

/// Refuses to bounce a worker that is held back: a new one would be too.
async fn refuse_held_back(engine: &Engine, name: &Name<()>) -> Result<(), Refusal> {
    let why = engine.why(name.as_str()).await;
    let held_back =
        why.filter(|why| why.steps.first().is_some_and(|step| step.state == WorkerState::HeldBack));
    held_back.map_or(Ok(()), |why| Err(Refusal::held_back(&why)))
}

fn done_of(act: Act, path: String) -> Controlled {
    match act {
        Act::Bounce => Controlled::Bounced(path),
        Act::Park => Controlled::Parked(path),
        Act::Unpark => Controlled::Unparked(path),
    }
}

impl Served {
    /// Carries out a change of a worker. Events name the person who asked for it.
    pub(super) async fn control(
        &self,
        act: Act,
        request: ControlRequest,
        user: u32,
    ) -> Result<Response<Body>, Refusal> {
        let path = self.absolute(&request.path);
        self.refuse_engine(&path)?;
        let (engine, name) = self.find(&path).await?;
        if act == Act::Bounce {
            refuse_held_back(&engine, &name).await?;
        }
        let who = format!("{} (uid {user})", request.who);
        tracing::info!(%act, path, who, why = request.why, "a change of a worker was asked for");
        match engine.asked_by(who, request.why).apply(change_of(act, name)).await {
            Ok(()) => Ok(json(StatusCode::OK, &done_of(act, path))),
            Err(error) => Err(self.unchanged(&path, &error).await),
        }
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
