//! The client of one connection, and the wait for its end.

use std::sync::Arc;

use tokio::io::Interest;

use super::stream::Stream;
use super::unfinished::Entry;

/// The client of one connection.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its user, if the system knows it.
    pub(crate) user: Option<u32>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) entry: Entry,
}

/// Waits until the client has closed the stream, or its half of it. It may have sent bytes before
/// that nobody reads.
pub(crate) async fn closed(stream: &Stream) {
    // Bytes do not meet this interest, as they do that in reading; the end of the stream does. An
    // error says that the runtime ends.
    drop(stream.ready(Interest::PRIORITY).await);
}
