use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

/// The process group of a command, which is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// Returns the group that a process leads.
    pub(super) fn of(leader: Option<u32>) -> Self {
        let leader = leader.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    /// Sends a signal to every process of the group.
    pub(super) fn signal(&self, signal: Signal) {
        let Some(leader) = self.leader else { return };
        match kill_process_group(leader, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(err) => tracing::warn!(group = leader.as_raw_pid(), error = %err, "cannot signal"),
        }
    }

    /// Leaves alone what is left of the group: the command has ended as it wanted to.
    pub(super) fn release(mut self) {
        self.leader = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
