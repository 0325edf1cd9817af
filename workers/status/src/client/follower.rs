use std::fmt;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::error::ClientError;
use crate::wire::EventLine;

/// The longest line of an event, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Follows the events of an agent; made by [`Client::events`](super::Client::events).
#[must_use = "it gives nothing until `next` is called"]
pub struct Follower {
    body: Incoming,
    /// What has come and was not given, from `at` on.
    buffer: Vec<u8>,
    at: usize,
    _connection: JoinSet<()>,
}

impl Follower {
    pub(super) fn new(body: Incoming, connection: JoinSet<()>) -> Self {
        Self { body, buffer: Vec::new(), at: 0, _connection: connection }
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
