//! How far the end of an engine has come.

use std::time::Duration;

use tokio::sync::watch;

use super::life::{Fatal, Life};
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::wake::wake;
use crate::worker::stop::cell::Linger;

/// How far the end of the engine has come.
pub(super) struct Ending {
    pub(super) life: watch::Sender<Life>,
    pub(super) fatal: Option<Fatal>,
    pub(super) kill_deadline: Option<Duration>,
    /// The end of the kill's deadline. Workers that have not stopped by then are left behind.
    pub(super) killed_until: Option<Stamp>,
    /// Whether a runtime has dropped the task of a worker before a kill.
    pub(super) is_runtime_gone: bool,
    /// Whether any worker was ever stuck.
    pub(super) has_stuck: bool,
    pub(super) is_finished: bool,
    /// Keeps the outer engine from counting this engine as gone.
    pub(super) linger: Option<Linger>,
}

impl Ending {
    pub(super) fn new(
        life: watch::Sender<Life>,
        kill_deadline: Option<Duration>,
        linger: Option<Linger>,
    ) -> Self {
        Self {
            life,
            fatal: None,
            kill_deadline,
            killed_until: None,
            is_runtime_gone: false,
            has_stuck: false,
            is_finished: false,
            linger,
        }
    }

    pub(super) fn set_life(&self, life: Life) {
        wake(|| drop(self.life.send_replace(life)));
    }
}
