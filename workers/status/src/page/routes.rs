//! What the page asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::Stop;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::sleep;

use super::config::PageConfig;
use super::feed::{Feed, Viewer};
use super::guard::{Gate, random};
use crate::client::{Client, ClientError};
use crate::http::{Body, Handler, Lines, Peer, Streamed, Unread, read_body, respond};
use crate::picture::Picture;
use crate::wire::{ControlRequest, Detail, FailureCode, Graphs, Selection, Subject, WorkerChange};

/// The document, in which the marks are replaced by a number that is used once.
const DOCUMENT: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(
    include_str!("script/base.js"),
    include_str!("script/address.js"),
    include_str!("script/stream.js"),
    include_str!("script/list.js"),
    include_str!("script/view.js"),
    include_str!("script/detail.js"),
    include_str!("script/keys.js"),
);

/// How long nothing may be said on a stream.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// How large the body of a request may be, in bytes, and how long it may take.
const MAX_BODY: usize = 16 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// How many users of a worker are named.
const USERS: u64 = 50;

/// How many pages are told what happens; the other places are for their requests.
pub(super) const MAX_STREAMS: usize = 32;

/// How many pictures are kept until something changes.
const MAX_PICTURES: usize = 16;

/// What can be asked for.
const LOOKS: [&str; 4] = ["/api/worker", "/api/preview", "/api/graph", "/api/boot"];

/// How many of the workers that a change would bounce are named.
const NAMED: usize = 20;

/// Answers the requests of the pages.
#[derive(Debug)]
pub(super) struct Routes {
    pub(super) gate: Gate,
    pub(super) feed: Arc<Feed>,
    pub(super) config: PageConfig,
    pub(super) streams: Arc<Semaphore>,
    pub(super) pictures: Mutex<Pictures>,
}

/// The pictures that were drawn since the last change, for all pages together.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// The version of the feed that they are of.
    version: u64,
    drawn: BTreeMap<String, Bytes>,
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
struct ChangeRequest {
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
        if request.uri().authority().is_some() {
            let message = "the target of a request is a path".to_owned();
            return Err(Refusal(StatusCode::MISDIRECTED_REQUEST, message));
        }
        self.gate
            .check((&method, &path), request.headers())
            .map_err(|(status, message)| Refusal(status, message.to_owned()))?;
        match (&method, &*path) {
            (&Method::GET, "/") => {
                whole(&peer)?;
                document(self.config.allows_changes)
            }
            (&Method::GET, "/api/stream") => {
                whole(&peer)?;
                self.stream(peer, stop)
            }
            (&Method::GET, path) if LOOKS.contains(&path) => {
                whole(&peer)?;
                self.look(path, request.uri().query().unwrap_or_default()).await
            }
            (&Method::POST, path) if let Some(change) = change_of(path) => {
                let wanted = read(request).await?;
                whole(&peer)?;
                self.change(change, wanted).await
            }
            (_, path)
                if ["/", "/api/stream"].contains(&path)
                    || LOOKS.contains(&path)
                    || change_of(path).is_some() =>
            {
                let message = format!("{path:?} is not asked with {method}");
                Err(Refusal(StatusCode::METHOD_NOT_ALLOWED, message))
            }
            _ => Err(Refusal(StatusCode::NOT_FOUND, format!("there is no {path:?}"))),
        }
    }

    fn stream(&self, peer: Arc<Peer>, stop: Stop) -> Result<Response<Body>, Refusal> {
        let permit = Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_STREAMS} pages are open already");
            Refusal(StatusCode::SERVICE_UNAVAILABLE, message)
        })?;
        let lines = Streamed::new(PageLines(self.feed.view()), (stop, permit), peer);
        Ok(respond(StatusCode::OK, "application/x-ndjson", lines.boxed()))
    }

    /// Answers a request that changes nothing.
    async fn look(&self, target: &str, query: &str) -> Result<Response<Body>, Refusal> {
        let all = |key: &str| {
            let pairs = form_urlencoded::parse(query.as_bytes());
            let values = pairs.filter(|(name, _)| name == key).map(|(_, value)| value.into_owned());
            values.collect::<Vec<_>>()
        };
        let paths = all("path");
        let path = paths.first().map(String::as_str);
        let missing = || Refusal(StatusCode::BAD_REQUEST, "which worker?".to_owned());
        match target {
            "/api/worker" => self.worker(path.ok_or_else(missing)?).await,
            "/api/preview" => {
                let act = all("act").first().and_then(|act| WorkerChange::read(act));
                let wrong = || Refusal(StatusCode::BAD_REQUEST, "which act?".to_owned());
                self.preview(act.ok_or_else(wrong)?, path.ok_or_else(missing)?).await
            }
            picture => {
                let key = format!("{picture}?{query}");
                let version = self.feed.version();
                if let Some(drawn) = self.pictures.lock().find(&key, version) {
                    return Ok(svg(drawn));
                }
                let drawn = if picture == "/api/boot" {
                    self.client().await?.boot().await?.to_svg(self.config.name)
                } else {
                    self.graph(path, all("open")).await?
                };
                let drawn = Bytes::from(drawn);
                self.pictures.lock().keep(key, version, drawn.clone());
                Ok(svg(drawn))
            }
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
        let answer = json!({"worker": subject, "why": why, "users": users(&near, path)});
        Ok(json(StatusCode::OK, &answer))
    }

    /// Answers with what a change would do to other workers, in words.
    async fn preview(&self, change: WorkerChange, path: &str) -> Result<Response<Body>, Refusal> {
        let client = self.client().await?;
        let text = client.effect(change, path, NAMED, self.config.name).await?;
        Ok(json(StatusCode::OK, &json!({"text": text})))
    }

    async fn graph(&self, path: Option<&str>, open: Vec<String>) -> Result<String, Refusal> {
        let client = self.client().await?;
        let graphs = match path {
            Some(path) => client.graph_near(path, (1, 20)).await?,
            None => client.graph(None).await?,
        };
        let open: BTreeSet<String> = open.into_iter().collect();
        Ok(Picture::of(&graphs, self.config.name).readable(&open).to_svg())
    }

    async fn change(
        &self,
        change: WorkerChange,
        wanted: ChangeRequest,
    ) -> Result<Response<Body>, Refusal> {
        if !self.config.allows_changes {
            let message = "this page is for looking only; it was started without --allow-changes";
            return Err(Refusal(StatusCode::FORBIDDEN, message.to_owned()));
        }
        let client = self.client().await?;
        let request =
            ControlRequest { path: wanted.path, who: self.config.who.clone(), why: wanted.why };
        Ok(json(StatusCode::OK, &client.change(change, &request).await?))
    }
}

impl Pictures {
    fn find(&self, key: &str, version: u64) -> Option<Bytes> {
        self.drawn.get(key).filter(|_| self.version == version).cloned()
    }

    fn keep(&mut self, key: String, version: u64, drawn: Bytes) {
        if self.version != version || self.drawn.len() == MAX_PICTURES {
            self.drawn.clear();
        }
        self.version = version;
        self.drawn.insert(key, drawn);
    }
}

/// Returns what a request with this path changes.
fn change_of(path: &str) -> Option<WorkerChange> {
    WorkerChange::read(path.strip_prefix("/api/")?)
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

/// Notes that the whole request is there, and that the connection gives way to no other any more.
fn whole(peer: &Peer) -> Result<(), Refusal> {
    if peer.entry.finish() {
        return Ok(());
    }
    let message = "others have taken its place meanwhile".to_owned();
    Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, message))
}

async fn read(request: Request<Incoming>) -> Result<ChangeRequest, Refusal> {
    let body = read_body(request, MAX_BODY, BODY_TIMEOUT).await.map_err(|unread| match unread {
        Unread::Late => Refusal(StatusCode::REQUEST_TIMEOUT, "the body did not come".to_owned()),
        Unread::TooLong => {
            let message = format!("the body is longer than {MAX_BODY} bytes");
            Refusal(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        Unread::Broken(error) => Refusal(StatusCode::BAD_REQUEST, error),
    })?;
    serde_json::from_slice(&body)
        .map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let text = serde_json::to_vec(value).unwrap_or_default();
    respond(status, "application/json", Full::from(text).boxed())
}

fn svg(text: Bytes) -> Response<Body> {
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

/// What a page is told, and signs of life in between.
struct PageLines(Viewer);

impl Lines for PageLines {
    async fn next(&mut self) -> Option<Bytes> {
        let line = tokio::select! {
            biased;
            line = self.0.next() => line?,
            () = sleep(SIGN_OF_LIFE) => self.0.sign_of_life(),
        };
        Some(Bytes::copy_from_slice(line.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use crankcase_workers::printable_lines;

    use super::SCRIPT;

    /// Reads a character of a class in a regular expression, as the script writes it.
    fn character(text: &str) -> Option<char> {
        let digits = text.strip_prefix("\\u")?.trim_matches(['{', '}']);
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }

    #[test]
    fn the_page_shows_the_same_characters_as_a_terminal() {
        let (_, rest) = SCRIPT.split_once("/[").unwrap();
        let (class, _) = rest.split_once("]/gu").unwrap();
        let ranges = class.replace("\\u", " \\u").replace("- ", "-");
        let ranges = ranges.split_whitespace().map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            character(from).unwrap()..=character(to).unwrap()
        });
        let ranges: Vec<_> = ranges.collect();

        for character in '\0'..=char::MAX {
            let is_hidden = ranges.iter().any(|range| range.contains(&character));
            let is_plain =
                printable_lines(character.encode_utf8(&mut [0; 4])) == character.to_string();
            assert_eq!(is_hidden, !is_plain, "{character:?}");
        }
    }
}
