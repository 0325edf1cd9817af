use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::UnixStream;

use super::unfinished::Entry;

/// The client of one connection.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its user.
    pub(super) user: u32,
    pub(super) stream: Arc<UnixStream>,
    pub(super) entry: Entry,
}

/// Waits until the client has closed the stream, or its half of it. It may have sent bytes before
/// that nobody reads.
pub(super) async fn closed(stream: &UnixStream) {
    // Bytes do not meet this interest, as they do that in reading; the end of the stream does. An
    // error says that the runtime ends.
    drop(stream.ready(Interest::PRIORITY).await);
}
