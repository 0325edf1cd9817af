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
    /// When what has not stopped by then is left behind.
    pub(super) killed_until: Option<Stamp>,
    /// A worker's task was dropped by its runtime.
    pub(super) is_runtime_gone: bool,
    /// Whether any worker was ever stuck.
    pub(super) has_stuck: bool,
    pub(super) is_finished: bool,
    /// Keeps an outer engine from taking this one for ended.
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
