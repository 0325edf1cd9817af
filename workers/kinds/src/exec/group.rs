//! The process group of a command.
//!
//! Invariant: the group gets a signal only while its leader is not reaped. Until then the leader's
//! pid, which is the group's id, is not recycled, so no signal can reach a stranger.

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;

/// The group that a child leads, which is killed when this is dropped before the leader is reaped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    /// Readable when the leader has ended.
    ended: Option<AsyncFd<OwnedFd>>,
}

impl Group {
    /// Takes a child that was just spawned as the leader of a group of its own.
    ///
    /// # Errors
    ///
    /// Returns an error, and kills the group, if the leader cannot be watched.
    pub(super) fn new(leader: Child) -> io::Result<Self> {
        let mut group = Self { leader, ended: None };
        let id = group.id().ok_or_else(|| io::Error::other("the child has no process id"))?;
        group.ended = Some(watch(pidfd_open(id, PidfdFlags::NONBLOCK)?)?);
        Ok(group)
    }

    /// Waits until the leader has ended; it stays unreaped. Cancel safe.
    pub(super) async fn leader_ended(&self) -> io::Result<()> {
        match &self.ended {
            Some(ended) => ended.readable().await.map(drop),
            None => Ok(()),
        }
    }

    /// Sends a signal to every process of the group, unless the leader was reaped.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(group) = self.id() else { return };
        match kill_process_group(group, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(err) => tracing::warn!(group = group.as_raw_pid(), error = %err, "cannot signal"),
        }
    }

    /// Waits until the leader has ended, and reaps it; what is left of the group is left alone from
    /// then on. Cancel safe.
    pub(super) async fn reap(&mut self) -> io::Result<ExitStatus> {
        self.leader.wait().await
    }

    /// Returns the group's id; none once the leader was reaped.
    fn id(&self) -> Option<Pid> {
        self.leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Registers a process with the runtime.
#[expect(
    deprecated,
    reason = "the constructor is unsound only for a type that closes or changes its descriptor, \
              which this one never does, and the replacement needs unsafe code"
)]
fn watch(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(process, Interest::READABLE)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::process::Stdio;

    use rustix::process::Signal;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::process::{ChildStdin, ChildStdout, Command};

    use super::Group;

    type TestResult = Result<(), Box<dyn Error>>;

    /// Starts a group whose leader ends and leaves a process that repeats what it is told.
    fn echoing() -> Result<(Group, ChildStdin, ChildStdout), Box<dyn Error>> {
        let mut leader = Command::new("/bin/sh")
            .args(["-c", "exec 3<&0; cat <&3 & exit 0"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (told, said) = (leader.stdin.take(), leader.stdout.take());
        Ok((Group::new(leader)?, told.ok_or("no stdin")?, said.ok_or("no stdout")?))
    }

    #[tokio::test]
    async fn what_is_left_gets_no_signal_once_the_leader_was_reaped() -> TestResult {
        let (mut group, mut told, mut said) = echoing()?;
        group.reap().await?;

        group.signal(Signal::KILL);
        drop(group);

        told.write_all(b"still here").await?;
        drop(told);
        let mut text = String::new();
        said.read_to_string(&mut text).await?;
        assert_eq!(text, "still here");
        Ok(())
    }

    #[tokio::test]
    async fn what_is_left_is_killed_after_the_leader_has_ended() -> TestResult {
        let (group, told, mut said) = echoing()?;
        group.leader_ended().await?;

        group.signal(Signal::KILL);

        // It ends although more may be told.
        let mut text = String::new();
        said.read_to_string(&mut text).await?;
        assert_eq!(text, "");
        drop(told);
        Ok(())
    }
}
