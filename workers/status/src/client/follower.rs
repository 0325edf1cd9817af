//! The events of an agent, read line by line from the control socket.

use std::fmt;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::answer::parse;
use super::error::ClientError;
use crate::wire::{EventLine, EventsBegun};

/// The longest line of an event, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Follows the events of an agent; made by [`Client::events`](super::Client::events).
#[must_use = "it gives nothing until `next` is called"]
pub struct Follower {
    life: String,
    body: Incoming,
    /// What has come and was not given, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    _connection: JoinSet<()>,
}

impl Follower {
    /// Reads the first line of a stream.
    pub(super) async fn begin(
        body: Incoming,
        connection: JoinSet<()>,
    ) -> Result<Self, ClientError> {
        let (life, buffer) = (String::new(), Vec::new());
        let mut follower = Self { life, body, buffer, at: 0, _connection: connection };
        let Some(first) = follower.line().await? else {
            return Err(ClientError::Broken("the stream of events ended before it began".into()));
        };
        follower.life = parse::<EventsBegun>(&first)?.life;
        Ok(follower)
    }

    /// Returns the life of the agent, to which the numbers of events belong; see
    /// [`EventsBegun::life`](crate::wire::EventsBegun::life).
    pub fn life(&self) -> &str {
        &self.life
    }

    /// Waits for the next line; `None` when the agent has ended the stream in good order.
    ///
    /// # Errors
    ///
    /// When the connection breaks or a line cannot be understood.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no line is lost.
    pub async fn next(&mut self) -> Result<Option<EventLine>, ClientError> {
        let line = self.line().await?;
        line.map(|line| serde_json::from_slice(&line).map_err(ClientError::Answer)).transpose()
    }

    async fn line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
            if self.buffer.len() > MAX_LINE {
                let error = format!("a line is longer than {MAX_LINE} bytes");
                return Err(ClientError::Broken(error.into()));
            }
        }
    }

    fn take_line(&mut self) -> Option<Vec<u8>> {
        let rest = &self.buffer[self.at..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
            self.buffer.drain(..self.at);
            self.at = 0;
            return None;
        };
        let line = rest[..length].to_vec();
        self.at += length + 1;
        Some(line)
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}
