//! What each request asks for.

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Engine, Name, Stop, WhyStep, WorkerState};
use crankcase_workers::read_json;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Served;
use super::answer::{Refusal, json, plain};
use super::control::asked_of;
use super::extension::Extension;
use super::follow::EventLines;
use super::guard::{METRICS, refuse_browsers, require_own_host, whole};
use super::query::Query;
use crate::http::{Body, Peer, Streamed, Unread, read_body, respond};
use crate::metrics::text;
use crate::wire::{
    Act, ControlRequest, Counts, EngineReport, FailureCode, Graphs, MAX_ORIGIN, Selection, Subject,
    WhyAnswer, WorkerReport,
};

/// In how many nested engines a name is looked for that is not where it was asked for.
const MAX_SEARCHED: usize = 16;

/// How many edges a graph near a worker follows to those that need it, if that is not asked for.
const NEAR_STEPS: u64 = 1;

/// How many users of one worker a graph near a worker has, if that is not asked for.
const NEAR_USERS: u64 = 20;

impl Served {
    /// Answers a request, one way or another.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Response<Body> {
        let method = request.method().clone();
        let target = request.uri().path().to_owned();
        let limit = self.config.answer_timeout;
        let answer = timeout(limit, self.route(request, peer, stop)).await;
        let answer = answer.unwrap_or_else(|_| Err(too_slow(&method, limit)));
        answer.unwrap_or_else(|refusal| {
            tracing::debug!(%method, target, ?refusal, "a request was refused");
            refusal.into_response()
        })
    }

    async fn route(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Result<Response<Body>, Refusal> {
        refuse_browsers(&request)?;
        require_own_host(&request)?;
        if *request.method() != Method::POST {
            whole(&peer)?;
        }
        let target = request.uri().path();
        let extensions = &self.config.extensions;
        let extension = extensions.iter().find(|extension| extension.target() == target);
        let expected = match target {
            _ if extension.is_some() => Method::POST,
            "/v1/report" | "/v1/counts" | "/v1/why" | "/v1/preview" | "/v1/graph"
            | "/v1/events" | METRICS => Method::GET,
            _ if asked_of(target).is_some() => Method::POST,
            _ => {
                let message = format!("there is no {target:?}");
                return Err(Refusal::new(FailureCode::UnknownRequest, message));
            }
        };
        if request.method() != expected {
            let message = format!("{target:?} is asked with {expected}");
            return Err(Refusal::new(FailureCode::WrongMethod, message));
        }
        if expected == Method::POST {
            require_json(&request)?;
        }
        let mut query = Query::read(request.uri().query())?;
        if let Some(extension) = extension {
            query.finish()?;
            let body = self.body(request, extension.max_body()).await?;
            return extended(Arc::clone(extension), body, &peer).await;
        }
        if let Some(asked) = asked_of(target) {
            let asked = asked.forced(&mut query)?;
            query.finish()?;
            let request: ControlRequest = self.read(request).await?;
            whole(&peer)?;
            for (field, text) in [("who", &request.who), ("why", &request.why)] {
                check_text(field, text)?;
            }
            return self.control(asked, request, user_of(&peer)?).await;
        }
        if target == METRICS {
            query.finish()?;
            return Ok(plain(text(&self.engine, self.config.metrics).await));
        }
        self.look(target, query, peer, stop).await
    }

    /// Answers a request that changes nothing.
    async fn look(
        &self,
        target: &str,
        mut query: Query,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Result<Response<Body>, Refusal> {
        if target == "/v1/events" {
            let (since, life) = (query.number("since")?, query.text("life"));
            query.finish()?;
            return self.events((since, life.as_deref()), peer, stop);
        }
        let path = query.text("path").map(|path| self.absolute(&path));
        let path = path.as_deref();
        match target {
            "/v1/report" => {
                let selection = query.selection()?;
                query.finish()?;
                self.report(path, &selection).await
            }
            "/v1/counts" => {
                query.finish()?;
                self.counts(path).await
            }
            "/v1/why" => {
                query.finish()?;
                let missing = || Refusal::malformed("the parameter \"path\" is missing");
                self.why(path.ok_or_else(missing)?).await
            }
            "/v1/preview" => {
                let act = query.text("act");
                query.finish()?;
                let missing = || Refusal::malformed("the parameter \"path\" is missing");
                let wrong =
                    || Refusal::malformed("the parameter \"act\" is bounce, park or unpark");
                let act = act.as_deref().and_then(Act::read).ok_or_else(wrong)?;
                self.preview(act, path.ok_or_else(missing)?).await
            }
            _ => {
                let (steps, most) = (query.number("depth")?, query.number("most")?);
                query.finish()?;
                let limits = (steps.unwrap_or(NEAR_STEPS), most.unwrap_or(NEAR_USERS));
                match (path, steps.is_some() || most.is_some()) {
                    (Some(path), true) => self.graph_near(path, limits).await,
                    (None, true) => Err(Refusal::malformed(
                        "the parameters \"depth\" and \"most\" are for a graph near a path",
                    )),
                    (path, false) => self.graph(path).await,
                }
            }
        }
    }

    pub(super) fn absolute(&self, path: &str) -> String {
        match path.trim_end_matches('/') {
            "" => self.engine.path().to_owned(),
            path => self.engine.path_of(path).into_owned(),
        }
    }

    /// Refuses the path of the engine that is reported, where only one of its workers will do.
    pub(super) fn refuse_engine(&self, path: &str) -> Result<(), Refusal> {
        if path != self.engine.path() {
            return Ok(());
        }
        let worker = format!("{}/NAME", path.trim_end_matches('/'));
        let message =
            format!("{path:?} is the engine itself; name one of its workers, as {worker:?}");
        Err(Refusal::new(FailureCode::Malformed, message))
    }

    /// Finds the engine of a worker, and its name there; refuses with what is wrong on the way.
    pub(super) async fn find(&self, path: &str) -> Result<(Engine, Name<()>), Refusal> {
        match self.engine.find(path) {
            Some(found) => Ok(found),
            None => Err(self.unknown(path).await),
        }
    }

    /// Refuses a path that leads to no worker, and says what is wrong with it.
    pub(super) async fn unknown(&self, path: &str) -> Refusal {
        let Some(why) = self.engine.why(path).await else { return Refusal::unknown_path(path) };
        let Some(step) = why.steps.first() else { return Refusal::unknown_path(path) };
        match step.state {
            WorkerState::Absent => self.absent(step).await,
            WorkerState::Running => Refusal::no_engine(path, &step.path),
            _ => Refusal::engine_down(path, &why),
        }
    }

    /// Refuses a path where nothing is installed. Its engine knows names that are much like it, and
    /// an engine in it may have the very name.
    async fn absent(&self, step: &WhyStep) -> Refusal {
        let path = &*step.path;
        if step.nearest.is_some() {
            return Refusal::unknown_name(path, step.nearest.as_deref());
        }
        let Some((engine, name)) = self.engine.find(path) else {
            return Refusal::unknown_path(path);
        };
        for nested in engine.engines().iter().take(MAX_SEARCHED) {
            let why = nested.why(name.as_str()).await;
            let step = why.as_ref().and_then(|why| why.steps.first());
            if let Some(step) = step.filter(|step| step.state != WorkerState::Absent) {
                return Refusal::misplaced(path, &step.path);
            }
        }
        Refusal::unknown_path(path)
    }

    async fn report(
        &self,
        path: Option<&str>,
        selection: &Selection,
    ) -> Result<Response<Body>, Refusal> {
        let path = path.unwrap_or(self.engine.path());
        if path == self.engine.path() {
            let mut report = self.engine.report().await.into();
            selection.apply(&mut report);
            return Ok(json(StatusCode::OK, &Subject::Engine(report)));
        }
        let (engine, name) = self.find(path).await?;
        let mut report = engine.report().await;
        let Some(worker) = report.workers.remove(name.as_str()) else {
            return Err(self.unknown(path).await);
        };
        let mut worker: WorkerReport = worker.into();
        selection.apply_to_one(&mut worker);
        Ok(json(StatusCode::OK, &Subject::Worker(Box::new(worker))))
    }

    async fn counts(&self, path: Option<&str>) -> Result<Response<Body>, Refusal> {
        let engine = match path.filter(|path| *path != self.engine.path()) {
            None => Some(self.engine.clone()),
            Some(path) => self.engine.engine_at(path),
        };
        match engine {
            Some(engine) => {
                let report = EngineReport::from(engine.report().await);
                Ok(json(StatusCode::OK, &Counts::of(&report)))
            }
            None => Err(self.unknown(path.unwrap_or_default()).await),
        }
    }

    async fn why(&self, path: &str) -> Result<Response<Body>, Refusal> {
        self.refuse_engine(path)?;
        let is_there = |step: &WhyStep| step.path == path && step.state != WorkerState::Absent;
        let why = self.engine.why(path).await;
        match why.filter(|why| why.steps.first().is_some_and(is_there)) {
            Some(why) => {
                let answer = WhyAnswer { text: why.to_string(), why: why.into() };
                Ok(json(StatusCode::OK, &answer))
            }
            None => Err(self.unknown(path).await),
        }
    }

    async fn graph(&self, path: Option<&str>) -> Result<Response<Body>, Refusal> {
        let mut graphs = Vec::new();
        let engines = match path {
            None => self.engine.engines(),
            Some(path) => self.engine.engine_at(path).into_iter().collect(),
        };
        for engine in engines {
            graphs.extend(engine.graph().await.map(Into::into));
        }
        match path {
            Some(path) if graphs.is_empty() => {
                self.graph_near(path, (NEAR_STEPS, NEAR_USERS)).await
            }
            _ => Ok(json(StatusCode::OK, &Graphs { graphs })),
        }
    }

    async fn graph_near(
        &self,
        path: &str,
        (steps, most): (u64, u64),
    ) -> Result<Response<Body>, Refusal> {
        self.refuse_engine(path)?;
        let (engine, name) = self.find(path).await?;
        let graph = engine.graph().await;
        let name = name.as_str();
        match graph.filter(|graph| graph.nodes.iter().any(|node| node.name == name)) {
            Some(graph) => {
                let [steps, most] =
                    [steps, most].map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
                let graph = graph.near(name, (steps, most));
                Ok(json(StatusCode::OK, &Graphs { graphs: vec![graph.into()] }))
            }
            None => Err(self.unknown(path).await),
        }
    }

    fn events(
        &self,
        (since, life): (Option<u64>, Option<&str>),
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Result<Response<Body>, Refusal> {
        if let Some(other) = life.filter(|life| *life != self.life) {
            let message = format!(
                "the numbers of events are of another life of the agent, {other:?}; this one is {:?}, and its numbers begin with 0",
                self.life
            );
            return Err(Refusal::new(FailureCode::Conflict, message));
        }
        let permit = Arc::clone(&self.followers).try_acquire_owned().map_err(|_| {
            let message =
                format!("{} clients follow the events already", self.config.max_followers);
            Refusal::new(FailureCode::Busy, message)
        })?;
        let events = match since {
            Some(since) => self.engine.events_since(since),
            None => self.engine.events(),
        };
        let lines = Streamed::new(EventLines::new(&self.life, events), (stop, permit), peer);
        Ok(respond(StatusCode::OK, "application/x-ndjson", lines.boxed()))
    }

    /// Reads the body of a request.
    async fn read<T: DeserializeOwned>(&self, request: Request<Incoming>) -> Result<T, Refusal> {
        let body = self.body(request, self.config.max_body).await?;
        serde_json::from_slice(&body)
            .map_err(|error| Refusal::malformed(format!("the body is not as expected: {error}")))
    }

    /// Reads the body of a request, at most `most` bytes.
    async fn body(&self, request: Request<Incoming>, most: usize) -> Result<Bytes, Refusal> {
        let limit = self.config.read_timeout;
        read_body(request, most, limit).await.map_err(|unread| match unread {
            Unread::Late => too_slow(&Method::GET, limit),
            Unread::TooLong => {
                let message = format!("the body is longer than {most} bytes");
                Refusal::new(FailureCode::TooLarge, message)
            }
            Unread::Broken(error) => {
                Refusal::malformed(format!("the body cannot be read: {error}"))
            }
        })
    }
}

/// Refuses a body that is not JSON: a form of any page could be sent as such.
fn require_json(request: &Request<Incoming>) -> Result<(), Refusal> {
    match request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes) {
        Some(b"application/json") => Ok(()),
        _ => Err(Refusal::malformed("the content type of a POST is application/json")),
    }
}

/// Lets an extension answer a request.
async fn extended(
    extension: Arc<dyn Extension>,
    body: Bytes,
    peer: &Peer,
) -> Result<Response<Body>, Refusal> {
    let text = std::str::from_utf8(&body).map_err(|error| Refusal::malformed(error.to_string()))?;
    let document = read_json(text).map_err(Refusal::malformed)?;
    whole(peer)?;
    let (user, pid) = (user_of(peer)?, peer.stream.pid());
    let answer = extension.answer_process(document, user, pid).await;
    Ok(json(StatusCode::OK, &answer.map_err(Refusal::malformed)?))
}

/// Returns the user of a client; everyone on the control socket has one.
fn user_of(peer: &Peer) -> Result<u32, Refusal> {
    let unknown = || Refusal::new(FailureCode::Internal, "the system does not say who asks");
    peer.user.ok_or_else(unknown)
}

/// A change does not end with the wait for it.
fn too_slow(method: &Method, limit: Duration) -> Refusal {
    let goes_on = if *method == Method::POST { ", and may go on" } else { "" };
    Refusal::new(FailureCode::TooSlow, format!("it was not done within {limit:?}{goes_on}"))
}

fn check_text(field: &str, text: &str) -> Result<(), Refusal> {
    if text.chars().count() > MAX_ORIGIN {
        return Err(Refusal::malformed(format!(
            "{field:?} is longer than {MAX_ORIGIN} characters"
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::malformed(format!("{field:?} has control characters")));
    }
    Ok(())
}
