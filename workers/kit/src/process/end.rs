//! What is known of a process that has ended.

use std::io;
use std::process::ExitStatus;

use super::Process;
use super::error::ProcessEnd;
use super::escaped::{Unfound, kill_escaped};
use super::output::Writer;

/// The name of a process, and how it has ended, as far as that can be known.
type Ended = (String, io::Result<(Option<ExitStatus>, ProcessEnd)>);

/// The status of a reaped leader, if it can be known, and how many others its group had.
type Reaped = io::Result<(Option<ExitStatus>, usize)>;

impl Process {
    /// Kills what is left of the group, reaps the leader, and reads the output to its end; returns
    /// how it ended.
    pub(super) async fn ended(mut self) -> Ended {
        let reaped = self.group.reap().await;
        self.finished(reaped).await
    }

    /// Does the same as `ended` for a program whose daemon was not found, and kills the processes
    /// that have left its group.
    pub(super) async fn ended_without_daemon(mut self, unfound: Unfound) -> Ended {
        let reaped = self.group.reap().await;
        // After the group, which may start others, and before the output is read to its end: they
        // may hold it open.
        unfound.kill().await;
        self.finished(reaped).await
    }

    /// Does the same as `ended`, and kills what has left its group: after the group, which may start
    /// others until then.
    pub(super) async fn killed_end(mut self) -> Ended {
        let entry = self.group.without_cgroup().cloned();
        let reaped = self.group.reap().await;
        if let Some(entry) = entry {
            kill_escaped(&entry).await;
        }
        self.finished(reaped).await
    }

    /// Does the same as `ended` for a process that has ended by itself, and says whether it has
    /// daemonised. What a program that has daemonised leaves outside of its group is named, and not
    /// killed.
    pub(super) async fn own_end(self) -> Ended {
        let escaped = self.group.escaped().await;
        let (name, ended) = match &escaped {
            Some(_) => self.ended().await,
            None => self.killed_end().await,
        };
        let ended = ended.map(|(status, end)| match escaped {
            Some(escaped) => {
                let has_daemonised = end.left_behind > 0 || !escaped.is_empty();
                (status, ProcessEnd { escaped, has_daemonised, ..end })
            }
            None => (status, end),
        });
        (name, ended)
    }

    /// Reads the output of a reaped process to its end.
    async fn finished(self, reaped: Reaped) -> Ended {
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
}
