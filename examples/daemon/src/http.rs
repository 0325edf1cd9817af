//! The HTTP server.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /health` | 200, or 503 with a line for each part that is not well |
//! | `GET /tenants/NAME` | the notes of a tenant, and the number of its desk |
//! | `GET /tenants/NAME?after=N` | the same, once its desk has a higher number |
//! | `POST /tenants/NAME` | 201 when the note in the body is on the disk |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{BoxError, Desk};

/// The longest note, in bytes.
const LONGEST: usize = 64 * 1024;

type Answer = (StatusCode, String);

/// What the server sees of the rest of the daemon.
pub trait View: Clone + Send + Sync + 'static {
    /// Returns the desk of a tenant, if there is one now.
    fn desk(&self, tenant: &str) -> Option<Desk>;

    /// Waits until other desks are there than at the last call, or at the clone.
    fn changed(&mut self) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Returns a line for each part of the daemon that is not well.
    fn complaints(&self) -> impl Future<Output = Vec<String>> + Send;
}

/// Listens at an address.
///
/// # Errors
///
/// When that cannot be; it names the address.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BoxError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| format!("cannot listen at {address}: {error}"))?;
    tracing::info!(address = %listener.local_addr()?, "listens");
    Ok(listener)
}

/// Serves until `stop` is there, and then until all requests that have begun are answered.
pub async fn serve(listener: TcpListener, view: impl View, stop: impl Future<Output = ()>) {
    let mut stop = std::pin::pin!(stop);
    let ending = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, view.clone(), ending.clone()));
                }
                // A client that has left, or too many open files: others are still served.
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(listener);
    tracing::info!("takes no more connections");
    ending.cancel();
    while connections.join_next().await.is_some() {}
    tracing::info!("serves no more");
}

async fn connection(stream: TcpStream, view: impl View, ending: CancellationToken) {
    let service = service_fn(|request| async {
        let (status, body) = answer(request, view.clone(), &ending).await;
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        Ok::<_, Infallible>(response)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = &mut connection => served,
        () = ending.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "lost a client");
    }
}

async fn answer(request: Request<Incoming>, view: impl View, ending: &CancellationToken) -> Answer {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match (method, path.strip_prefix("/tenants/")) {
        (Method::GET, None) if path == "/health" => health(&view).await,
        (Method::GET, Some(tenant)) => match after(request.uri().query()) {
            None => view.desk(tenant).map_or_else(missing, |desk| notes(&desk)),
            Some(number) => tokio::select! {
                answer = later(tenant, number, view) => answer,
                () = ending.cancelled() => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
            },
        },
        (Method::POST, Some(tenant)) => add(tenant, request.into_body(), &view).await,
        _ => missing(),
    }
}

fn missing() -> Answer {
    (StatusCode::NOT_FOUND, String::new())
}

async fn health(view: &impl View) -> Answer {
    let complaints = view.complaints().await;
    let is_well = complaints.is_empty();
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, complaints.join("\n"))
}

/// Returns the number in `after=N`.
fn after(query: Option<&str>) -> Option<u64> {
    query?.strip_prefix("after=")?.parse().ok()
}

fn notes(desk: &Desk) -> Answer {
    match desk.notes() {
        Ok(notes) => {
            (StatusCode::OK, json!({ "started": desk.started(), "notes": notes }).to_string())
        }
        Err(_) => missing(),
    }
}

/// Answers once the desk of a tenant has a higher number than this.
async fn later(tenant: &str, number: u64, mut view: impl View) -> Answer {
    loop {
        match view.desk(tenant) {
            Some(desk) if desk.started() > number => return notes(&desk),
            _ => {}
        }
        if let Err(error) = view.changed().await {
            return (StatusCode::SERVICE_UNAVAILABLE, error.to_string());
        }
    }
}

async fn add(tenant: &str, body: Incoming, view: &impl View) -> Answer {
    // A client that is slow must not hold a desk, and with it the store.
    let text = match Limited::new(body, LONGEST).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()),
    };
    let Some(desk) = view.desk(tenant) else { return missing() };
    match desk.add(text).await {
        Ok(()) => (StatusCode::CREATED, String::new()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}
