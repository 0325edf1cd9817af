//! Asks an agent on its control socket.

mod answer;
mod change;
mod error;
mod follower;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use answer::parse;
pub use error::ClientError;
pub use follower::Follower;

use crate::boot::Boot;
use crate::socket;
use crate::wire::{
    Act, ControlRequest, Controlled, Counts, Failure, FailureCode, Graphs, Preview, Selection,
    Subject, WhyAnswer,
};

/// How long an answer may take; longer than an agent takes to say that it takes too long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);

/// The longest answer, in bytes: the report of tens of thousands of workers.
const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Of how many workers that are not up the agent is asked why.
const EXPLAINED: usize = 20;

/// Asks the agent of a state folder.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use crankcase_status::{Client, ClientError};
///
/// # let folder = tempfile::tempdir()?;
/// let unreached = Client::connect(folder.path()).await.unwrap_err();
/// assert!(matches!(unreached, ClientError::NoAgent { .. }));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

/// A connection, and the task that moves its bytes; dropping it drops the connection.
type Exchange = (Response<Incoming>, JoinSet<()>);

impl Client {
    /// Finds the agent of a state folder, and sees whether it listens.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoAgent`] when none does.
    pub async fn connect(state_dir: &Path) -> Result<Self, ClientError> {
        let no_agent = |source| {
            let source = explained(state_dir, source);
            ClientError::NoAgent { path: state_dir.to_owned(), source }
        };
        let mut failed = None;
        for socket in socket::find(state_dir).map_err(no_agent)? {
            match UnixStream::connect(&socket).await.map(drop) {
                Ok(()) => return Ok(Self { socket }),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(no_agent(failed.unwrap_or_else(|| ErrorKind::NotFound.into())))
    }

    /// Asks for the report of the agent, or of one engine or worker.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when nothing has the path.
    pub async fn report(&self, path: Option<&str>) -> Result<Subject, ClientError> {
        self.get("/v1/report", path_of(path)).await
    }

    /// Asks for a part of a report.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when nothing has the path.
    pub async fn report_part(
        &self,
        path: Option<&str>,
        part: &Selection,
    ) -> Result<Subject, ClientError> {
        let path = path.map(|path| ("path", path.to_owned()));
        self.get("/v1/report", path.into_iter().chain(part.parameters())).await
    }

    /// Asks how many workers of the agent, or of one engine in it, are in which state.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no engine has the path.
    pub async fn counts(&self, path: Option<&str>) -> Result<Counts, ClientError> {
        self.get("/v1/counts", path_of(path)).await
    }

    /// Asks for the chain from a worker to the root cause.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no worker has the path.
    pub async fn why(&self, path: &str) -> Result<WhyAnswer, ClientError> {
        self.get("/v1/why", path_of(Some(path))).await
    }

    /// Asks for the metrics of the agent, as text in the format of Prometheus.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] when the agent is of a version that has none.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        let answer = async {
            let target = "/metrics".to_owned();
            let (response, _connection) = self.exchange(Method::GET, target, Vec::new()).await?;
            let status = response.status();
            let text = collect(response).await?;
            if !status.is_success() {
                return Err(refused(&text));
            }
            String::from_utf8(text.into()).map_err(|error| ClientError::Broken(error.into()))
        };
        within(answer).await
    }

    /// Asks how the agent came up, and why what is not up is not; the latter of at most 20 workers.
    ///
    /// # Errors
    ///
    /// As [`report`](Self::report).
    pub async fn boot(&self) -> Result<Boot, ClientError> {
        let mut part = Selection::default();
        (part.without_inputs, part.without_details) = (true, true);
        let Subject::Engine(report) = self.report_part(None, &part).await? else {
            return Err(ClientError::Broken("the agent reports one worker".into()));
        };
        let mut boot = Boot::of(&report);
        for worker in boot.not_up.iter_mut().take(EXPLAINED) {
            worker.why = self.why(&worker.path).await.ok().map(|answer| answer.text);
        }
        Ok(boot)
    }

    /// Asks for the graphs of all engines, of one, or around one worker.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when nothing has the path.
    pub async fn graph(&self, path: Option<&str>) -> Result<Graphs, ClientError> {
        self.get("/v1/graph", path_of(path)).await
    }

    /// Asks for the graph near a worker: what it needs, directly or through others, and what needs it
    /// within `steps` edges, of the users of each at most `most`.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no worker has the path.
    pub async fn graph_near(
        &self,
        path: &str,
        (steps, most): (u64, u64),
    ) -> Result<Graphs, ClientError> {
        let limits = [("depth", steps.to_string()), ("most", most.to_string())];
        self.get("/v1/graph", path_of(Some(path)).chain(limits)).await
    }

    /// Asks for [`graph_near`](Self::graph_near) with all users of each worker.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no worker has the path.
    pub async fn graph_around(&self, path: &str, depth: usize) -> Result<Graphs, ClientError> {
        let most = i64::MAX as u64;
        self.graph_near(path, (most.min(depth as u64), most)).await
    }

    /// Asks what an act on a worker would do to others.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no worker has the path, [`ClientError::Refused`] when the
    /// engine would not do it.
    pub async fn preview(&self, act: Act, path: &str) -> Result<Preview, ClientError> {
        let act = [("act", act.to_string())];
        self.get("/v1/preview", path_of(Some(path)).chain(act)).await
    }

    /// Bounces a worker; returns when the old one is gone.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownPath`] when no worker has the path, [`ClientError::Refused`] when the
    /// engine does not do it, and when the worker could not start again now.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the bounce.
    pub async fn bounce(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.control(Act::Bounce, request).await
    }

    /// Bounces a worker also if it could not start again now; then it is stopped until it can.
    ///
    /// # Errors
    ///
    /// As [`bounce`](Self::bounce), apart from the last.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the bounce.
    pub async fn force_bounce(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.extension("/v1/bounce?force=true", request).await
    }

    /// Stops a worker and keeps it stopped until it is unparked; returns when it is gone.
    ///
    /// # Errors
    ///
    /// As [`bounce`](Self::bounce).
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the park.
    pub async fn park(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.control(Act::Park, request).await
    }

    /// Lets a parked worker start again; returns when it was told to, if it could be. One that is
    /// not parked is left as it is, but for a wait after failures, which ends.
    ///
    /// # Errors
    ///
    /// As [`bounce`](Self::bounce).
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the unpark.
    pub async fn unpark(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.control(Act::Unpark, request).await
    }

    /// Has a worker leave its work alone and run on, until it is resumed; returns when it begins nothing more.
    ///
    /// # Errors
    ///
    /// As [`bounce`](Self::bounce), and when the agent cannot pause this worker.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the pause.
    pub async fn pause(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.extension("/v1/pause", request).await
    }

    /// Has a paused worker work again; returns when it was told to. One that is not paused is left as it is.
    ///
    /// # Errors
    ///
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the resume.
    pub async fn resume(&self, request: &ControlRequest) -> Result<Controlled, ClientError> {
        self.extension("/v1/resume", request).await
    }

    /// Bounces, parks or unparks a worker, like the method of that name.
    ///
    /// # Errors
    ///
    /// As [`bounce`](Self::bounce).
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops waiting, not the act.
    pub async fn control(
        &self,
        act: Act,
        request: &ControlRequest,
    ) -> Result<Controlled, ClientError> {
        self.extension(&format!("/v1/{act}"), request).await
    }

    /// Follows the events from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] when too many follow already.
    pub async fn events(&self) -> Result<Follower, ClientError> {
        self.follow(&[]).await
    }

    /// Follows the events from a number on: first those that the agent still has, then what comes. How many
    /// it does not have any more is told first. `life` is the life of the agent that the number is of, from
    /// [`Follower::life`]; `None` for the present one.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] when too many follow already, and when the agent has another life now: its
    /// numbers begin with 0 again.
    pub async fn events_since(
        &self,
        sequence: u64,
        life: Option<&str>,
    ) -> Result<Follower, ClientError> {
        let since = ("since", sequence.to_string());
        match life {
            Some(life) => self.follow(&[since, ("life", life.to_owned())]).await,
            None => self.follow(&[since]).await,
        }
    }

    async fn follow(&self, parameters: &[(&str, String)]) -> Result<Follower, ClientError> {
        let target = target("/v1/events", parameters.iter().cloned());
        let (response, connection) = within(self.exchange(Method::GET, target, Vec::new())).await?;
        if response.status().is_success() {
            return within(Follower::begin(response.into_body(), connection)).await;
        }
        Err(refused(&within(collect(response)).await?))
    }

    /// Sends a request to an [`Extension`](crate::Extension) of the agent, and returns its answer.
    ///
    /// # Errors
    ///
    /// [`ClientError::Refused`] when the extension cannot understand the request, or the agent has no such extension.
    ///
    /// # Cancel safety
    ///
    /// Cancelling stops the wait for the answer, not the work that the request asks for.
    pub async fn extension<T: DeserializeOwned>(
        &self,
        target: &str,
        request: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(request).map_err(ClientError::Answer)?;
        self.ask(Method::POST, target.to_owned(), body).await
    }

    async fn get<'a, T: DeserializeOwned>(
        &self,
        of: &str,
        parameters: impl Iterator<Item = (&'a str, String)>,
    ) -> Result<T, ClientError> {
        self.ask(Method::GET, target(of, parameters), Vec::new()).await
    }

    /// Asks, and reads the whole answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        target: String,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        let answer = async {
            let (response, _connection) = self.exchange(method, target, body).await?;
            let status = response.status();
            let text = collect(response).await?;
            if status.is_success() { parse(&text) } else { Err(refused(&text)) }
        };
        within(answer).await
    }

    /// Sends a request and waits for the head of its answer.
    async fn exchange(
        &self,
        method: Method,
        target: String,
        body: Vec<u8>,
    ) -> Result<Exchange, ClientError> {
        let stream = UnixStream::connect(&self.socket)
            .await
            .map_err(|source| ClientError::NoAgent { path: self.socket.clone(), source })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // Its errors are also those of the request.
            drop(connection.await);
        });
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, "agent")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| ClientError::Broken(error.into()))?;
        Ok((sender.send_request(request).await?, tasks))
    }
}

fn path_of(path: Option<&str>) -> impl Iterator<Item = (&'static str, String)> {
    path.map(|path| ("path", path.to_owned())).into_iter()
}

/// Returns the target of a request with these parameters.
fn target<'a>(of: &str, parameters: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    match &*query.finish() {
        "" => of.to_owned(),
        query => format!("{of}?{query}"),
    }
}

async fn collect(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| match error.downcast::<LengthLimitError>() {
        Ok(_) => ClientError::TooLong { limit: MAX_ANSWER },
        Err(error) => ClientError::Broken(error),
    })?;
    Ok(body.to_bytes())
}

/// Says in words why no agent listens with a state folder, where that can be told.
fn explained(state_dir: &Path, error: io::Error) -> io::Error {
    let reason = match error.kind() {
        ErrorKind::NotFound if !state_dir.exists() => "there is no such folder",
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            "no agent runs with this state folder"
        }
        ErrorKind::NotADirectory => "it is not a folder",
        _ => return error,
    };
    io::Error::new(error.kind(), reason)
}

async fn within<T>(answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    let late = |_| Err(ClientError::TooSlow { after: ANSWER_TIMEOUT });
    timeout(ANSWER_TIMEOUT, answer).await.unwrap_or_else(late)
}

fn refused(text: &[u8]) -> ClientError {
    match parse::<Failure>(text) {
        Ok(Failure { code: FailureCode::UnknownPath, message }) => {
            ClientError::UnknownPath { message }
        }
        Ok(Failure { code, message }) => ClientError::Refused { code, message },
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixListener;
    use tokio::task::JoinSet;

    use super::{Client, MAX_ANSWER};

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_told_with_the_bound() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let client = Client { socket: folder.path().join("socket") };
        let listener = UnixListener::bind(&client.socket)?;
        let mut agent: JoinSet<std::io::Result<()>> = JoinSet::new();
        agent.spawn(async move {
            let (mut stream, _) = listener.accept().await?;
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
            // Without an end: the bound alone ends it.
            loop {
                stream.write_all(&[b' '; 64 * 1024]).await?;
            }
        });

        let error = client.report(None).await.err().ok_or("it was taken")?;

        let expected = format!(
            "the answer of the agent is longer than {MAX_ANSWER} bytes; ask for a part of it"
        );
        assert_eq!((error.to_string(), MAX_ANSWER), (expected, 16 << 20));
        Ok(())
    }
}
