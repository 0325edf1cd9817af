//! Serves HTTP/1, one request for each connection, to clients that may be slow, silent or hostile.
//!
//! Invariants:
//! 1. Every wait for a client has an end: for its head, its body, and for it to take the answer.
//! 2. A connection carries one request, so an idle one is one that still owes its head.
//! 3. There are never more connections than the limit. One more is held, and the rest wait in the
//!    kernel's queue.
//! 4. Whoever has not sent a whole request gives way to the one that is held, oldest first. So only
//!    requests that are being answered can keep others waiting.

mod body;
mod paced;
mod peer;
mod serve;
mod stream;
mod unfinished;

pub(crate) use body::{Lines, Streamed, Unread, read_body};
pub(crate) use peer::Peer;
pub(crate) use serve::{Body, Handler, Limits, respond, serve};
pub(crate) use stream::Listener;
