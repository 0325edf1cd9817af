//! What the page asks for.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crankcase_engine::Stop;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::config::PageConfig;
use super::feed::{Feed, Viewer};
use super::guard::{Gate, random};
use crate::client::{Client, ClientError};
use crate::http::{Body, Handler, Peer, closed, respond};
use crate::picture::Picture;
use crate::wire::{ControlRequest, Controlled, Detail, FailureCode, Graphs, Selection, Subject};

/// The document, in which the marks are replaced by a number that is used once.
const DOCUMENT: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How long nothing may be said on a stream.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// How large the body of a request may be, in bytes, and how long it may take.
const MAX_BODY: usize = 16 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many users of a worker are named.
const USERS: u64 = 50;

/// Answers the requests of the pages.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) gate: Gate,
    pub(super) feed: Arc<Feed>,
    pub(super) config: PageConfig,
}

/// Why something is not answered.
struct Refusal(StatusCode, String);

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Self {
        let status = match &error {
            ClientError::UnknownPath { .. } => StatusCode::NOT_FOUND,
            ClientError::Refused { code: FailureCode::Conflict, .. } => StatusCode::CONFLICT,
            ClientError::Refused { code: FailureCode::Malformed, .. } => StatusCode::BAD_REQUEST,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self(status, format!("{error:?}"))
    }
}

impl Handler for Routes {
    fn admits(&self, _user: Option<u32>) -> bool {
        // Who connects is told by the token.
        true
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Response<Body> {
        let answer = self.route(request, peer, stop).await;
        let mut answer = answer.unwrap_or_else(|Refusal(status, message)| {
            tracing::debug!(%status, message, "a request for the page was refused");
            json(status, &json!({"message": message}))
        });
        harden(answer.headers_mut());
        answer
    }
}

/// A change of a worker.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    path: String,
    why: String,
}

impl Routes {
    async fn route(
        &self,
        request: Request<Incoming>,
        peer: Arc<Peer>,
        stop: Stop,
    ) -> Result<Response<Body>, Refusal> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        self.gate
            .check((&method, &path), request.headers())
            .map_err(|(status, message)| Refusal(status, message.to_owned()))?;
        if method == Method::GET && !peer.entry.finish() {
            return Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, "too many ask".to_owned()));
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let all = |key: &str| {
            let pairs = form_urlencoded::parse(query.as_bytes());
            pairs.filter(|(name, _)| name == key).map(|(_, value)| value.into_owned()).collect()
        };
        let asked: Vec<String> = all("path");
        let asked = asked.first().map(String::as_str);
        match (&method, &*path) {
            (&Method::GET, "/") => document(self.config.allows_changes),
            (&Method::GET, "/api/stream") => {
                let lines = Lines::new(self.feed.view(), stop, peer);
                Ok(respond(StatusCode::OK, "application/x-ndjson", lines.boxed()))
            }
            (&Method::GET, "/api/worker") => {
                let missing = || Refusal(StatusCode::BAD_REQUEST, "which worker?".to_owned());
                self.worker(asked.ok_or_else(missing)?).await
            }
            (&Method::GET, "/api/graph") => self.graph(asked, all("open")).await,
            (&Method::GET, "/api/boot") => self.boot().await,
            (&Method::POST, "/api/bounce" | "/api/park" | "/api/unpark") => {
                let wish = read(request).await?;
                if !peer.entry.finish() {
                    return Err(Refusal(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "too many ask".to_owned(),
                    ));
                }
                self.change(&path, wish).await
            }
            (
                _,
                "/" | "/api/stream" | "/api/worker" | "/api/graph" | "/api/boot" | "/api/bounce"
                | "/api/park" | "/api/unpark",
            ) => {
                let message = format!("{path:?} is not asked with {method}");
                Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, message))
            }
            _ => Err(Refusal(StatusCode::NOT_FOUND, format!("there is no {path:?}"))),
        }
    }

    async fn client(&self) -> Result<Client, Refusal> {
        Ok(Client::connect(&self.config.state_dir).await?)
    }

    /// Answers with all of one worker, why it is as it is, and who uses it.
    async fn worker(&self, path: &str) -> Result<Response<Body>, Refusal> {
        let client = self.client().await?;
        let part = Selection { depth: Some(0), ..Selection::default() };
        let mut subject = client.report_part(Some(path), &part).await?;
        if let Subject::Worker(worker) = &mut subject
            && let Some(Detail::Engine(_)) = worker.report
        {
            // Its workers are in the list.
            worker.report = None;
        }
        let why = client.why(path).await?;
        let near = client.graph_near(path, (1, USERS)).await?;
        let users = users(&near, path);
        let all = client.graph_near(path, (i64::MAX as u64, i64::MAX as u64)).await?;
        let depend = dependents(&all, path);
        let answer = json!({"worker": subject, "why": why, "users": users, "dependents": depend});
        Ok(json(StatusCode::OK, &answer))
    }

    async fn graph(
        &self,
        path: Option<&str>,
        open: Vec<String>,
    ) -> Result<Response<Body>, Refusal> {
        let client = self.client().await?;
        let graphs = match path {
            Some(path) => client.graph_near(path, (1, 20)).await?,
            None => client.graph(None).await?,
        };
        let open: BTreeSet<String> = open.into_iter().collect();
        Ok(svg(Picture::of(&graphs, self.config.name).readable(&open).to_svg()))
    }

    async fn boot(&self) -> Result<Response<Body>, Refusal> {
        let client = self.client().await?;
        Ok(svg(client.boot().await?.to_svg(self.config.name)))
    }

    async fn change(&self, path: &str, wish: Wish) -> Result<Response<Body>, Refusal> {
        if !self.config.allows_changes {
            let message = "this page is for looking only; it was started without --allow-changes";
            return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
        }
        let client = self.client().await?;
        let request =
            ControlRequest { path: wish.path, who: self.config.who.clone(), why: wish.why };
        let done: Controlled = match path {
            "/api/bounce" => client.bounce(&request).await,
            "/api/park" => client.park(&request).await,
            _ => client.unpark(&request).await,
        }?;
        Ok(json(StatusCode::OK, &done))
    }
}

/// Returns who uses a worker, and how many more there are.
fn users(graphs: &Graphs, path: &str) -> Value {
    let Some(graph) = graphs.graphs.first() else { return json!({"paths": [], "more": 0}) };
    let node = graph.nodes.iter().find(|node| node.path == path);
    let of = |name: &str| graph.nodes.iter().find(|node| node.name == name).map(|node| &node.path);
    let edges = graph.edges.iter().filter(|edge| node.is_some_and(|node| node.name == edge.input));
    let paths: BTreeSet<&String> = edges.filter_map(|edge| of(&edge.user)).collect();
    json!({"paths": paths, "more": node.map_or(0, |node| node.more_users)})
}

/// Returns how many workers need a worker, directly or through others.
fn dependents(graphs: &Graphs, path: &str) -> usize {
    let Some(graph) = graphs.graphs.first() else { return 0 };
    let mut users: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for edge in &graph.edges {
        users.entry(&edge.input).or_default().push(&edge.user);
    }
    let first = graph.nodes.iter().find(|node| node.path == path).map(|node| node.name.as_str());
    let mut next: Vec<&str> = first.into_iter().collect();
    let mut found = BTreeSet::new();
    while let Some(name) = next.pop() {
        let of = users.get(name).into_iter().flatten();
        next.extend(of.filter(|user| found.insert(**user)));
    }
    found.len()
}

async fn read(request: Request<Incoming>) -> Result<Wish, Refusal> {
    let malformed = |error: String| Refusal(StatusCode::BAD_REQUEST, error);
    let body = Limited::new(request.into_body(), MAX_BODY).collect();
    let late = |_| Refusal(StatusCode::REQUEST_TIMEOUT, "the body did not come".to_owned());
    let body = timeout(BODY_TIMEOUT, body).await.map_err(late)?;
    let body = body.map_err(|error| Refusal(StatusCode::PAYLOAD_TOO_LARGE, error.to_string()))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| malformed(error.to_string()))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    respond(status, "application/json", Full::from(text).boxed())
}

fn svg(text: String) -> Response<Body> {
    respond(StatusCode::OK, "image/svg+xml", Full::from(text).boxed())
}

/// Returns the document. Its style and its script are allowed by a number that is used once.
fn document(allows_changes: bool) -> Result<Response<Body>, Refusal> {
    let failed =
        |error: std::io::Error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let nonce = random().map_err(failed)?;
    let text = DOCUMENT
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT)
        .replace("{{changes}}", if allows_changes { "yes" } else { "no" })
        .replace("{{nonce}}", &nonce);
    let mut answer = respond(StatusCode::OK, "text/html; charset=utf-8", Full::from(text).boxed());
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(answer)
}

/// Adds what keeps a browser from doing anything else with an answer.
fn harden(headers: &mut HeaderMap) {
    let same = HeaderValue::from_static("same-origin");
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), same.clone());
    headers.insert(HeaderName::from_static("cross-origin-resource-policy"), same);
    headers
        .entry(CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
}

/// One wait for the next line; it gives the source back.
type Wait = Pin<Box<dyn Future<Output = (Source, Option<Bytes>)> + Send + Sync>>;

struct Source {
    viewer: Viewer,
    stop: Stop,
    peer: Arc<Peer>,
}

/// A body of what a page is told; it ends at the stop, or when the client is gone.
struct Lines(Wait);

impl Lines {
    fn new(viewer: Viewer, stop: Stop, peer: Arc<Peer>) -> Self {
        Self(wait(Source { viewer, stop, peer }))
    }
}

fn wait(mut source: Source) -> Wait {
    Box::pin(async move {
        let line = tokio::select! {
            biased;
            line = source.viewer.next() => line.map(|line| Bytes::from(line.as_bytes().to_vec())),
            () = source.stop.wait() => None,
            () = closed(&source.peer.stream) => None,
            () = sleep(SIGN_OF_LIFE) => Some(Bytes::from_static(b"{}\n")),
        };
        (source, line)
    })
}

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Poll::Ready((source, line)) = self.0.as_mut().poll(cx) else { return Poll::Pending };
        self.0 = wait(source);
        Poll::Ready(line.map(|line| Ok(Frame::data(line))))
    }
}
