//! The tasks that read the output of a process.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::Instrument;

use super::group::ProcessGroup;
use super::output::{Output, Writer};
use super::spool::Spool;
use super::stream::Stream;

/// How long the output is read after the group is gone, while an escaped process holds it open.
const DRAIN: Duration = Duration::from_secs(1);

/// The tasks that read the output of a process. They end when they are dropped.
#[derive(Debug)]
pub(super) struct Readers {
    tasks: JoinSet<()>,
    /// Tells the readers of files whether the process may write more; pipes show their own end.
    writer: watch::Sender<Writer>,
}

impl Readers {
    /// Begins to log the output that comes through the pipes of a group.
    pub(super) fn of_pipes(group: &mut ProcessGroup, output: &Arc<Output>) -> Self {
        let mut tasks = JoinSet::new();
        let (stdout, stderr) = group.take_output();
        if let Some(stdout) = stdout {
            tasks.spawn(Arc::clone(output).log(Stream::Stdout, stdout).in_current_span());
        }
        if let Some(stderr) = stderr {
            tasks.spawn(Arc::clone(output).log(Stream::Stderr, stderr).in_current_span());
        }
        Self { tasks, writer: watch::Sender::new(Writer::Runs) }
    }

    /// Begins to log the output that comes to files, from the place up to which it was read. Output
    /// that cannot be read is not logged: that is no reason to end a process.
    pub(super) async fn of_files(spool: Option<Spool>, output: &Arc<Output>) -> Self {
        let (mut tasks, writer) = (JoinSet::new(), watch::Sender::new(Writer::Runs));
        let open = move || {
            let spool = spool?;
            Some(Stream::BOTH.map(|stream| (stream, spool.reader(stream))))
        };
        let opened = tokio::task::spawn_blocking(open).await.ok().flatten();
        for (stream, reader) in opened.into_iter().flatten() {
            match reader {
                Ok(reader) => {
                    let follow = Arc::clone(output).follow(stream, reader, writer.subscribe());
                    tasks.spawn(follow.in_current_span());
                }
                Err(err) => output.tell_unread(stream, &err),
            }
        }
        Self { tasks, writer }
    }

    /// Waits until the output of a process that has ended, or is left, is read as far as it should
    /// be; returns whether the readers ended in time.
    pub(super) async fn finish(mut self, writer: Writer) -> bool {
        self.writer.send_replace(writer);
        let read = async { while self.tasks.join_next().await.is_some() {} };
        timeout(DRAIN, read).await.is_ok()
    }
}
