use std::fmt;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

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
        let Some(begun) = follower.read::<EventsBegun>().await? else {
            return Err(ClientError::Broken("the stream of events ended before it began".into()));
        };
        follower.life = begun.life;
        Ok(follower)
    }

    /// Returns the life of the agent: another text after each start. The numbers of events belong to it.
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
        self.read().await
    }

    async fn read<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(line) = self.take_line() {
                return serde_json::from_slice(&line).map(Some).map_err(ClientError::Answer);
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
