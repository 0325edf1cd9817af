//! What is known of a process that has ended.

use std::io;
use std::process::ExitStatus;

use super::Process;
use super::error::ProcessEnd;
use super::output::Writer;

impl Process {
    /// Kills what is left of the group, reaps the leader, and reads the output to its end; returns
    /// how it ended.
    pub(super) async fn ended(mut self) -> (String, io::Result<(Option<ExitStatus>, ProcessEnd)>) {
        let reaped = self.group.reap().await;
        let is_daemon = self.config.pid_file.is_some();
        let name = self.config.name;
        if !self.readers.finish(Writer::HasEnded).await {
            tracing::warn!(process = name, "output held open by a process outside of the group");
        }
        let last_words = self.handle.output().counts().last_words;
        let ended = reaped.map(|(status, left_behind)| {
            (status, ProcessEnd { is_daemon, left_behind, last_words, ..ProcessEnd::default() })
        });
        (name, ended)
    }

    /// Does the same for a process that has ended by itself, and says whether it has daemonised.
    pub(super) async fn own_end(self) -> (String, io::Result<(Option<ExitStatus>, ProcessEnd)>) {
        let escaped = self.group.escaped().await;
        let (name, ended) = self.ended().await;
        let ended = ended.map(|(status, end)| match escaped {
            Some(escaped) => {
                let has_daemonised = end.left_behind > 0 || !escaped.is_empty();
                (status, ProcessEnd { escaped, has_daemonised, ..end })
            }
            None => (status, end),
        });
        (name, ended)
    }
}
