//! A latch that many wait for, and that is unlocked once.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::{Outcome, Stop, Worker};
use tokio::sync::watch;

use crate::flag::Flag;

/// A latch that is locked at first and unlocked once, for ever.
///
/// It lets some workers wait until another has done something, such as an upgrade, without either
/// depending on the other: all depend on the gate. It is cheap to clone, and its clones are one
/// gate. It is a worker too, which does nothing; so a gate can live as long as its worker, or outlive
/// it.
///
/// A start that waits at a gate says so with `Context::awaiting`, and `Engine::why` then shows it:
/// `ctx.awaiting("the gate \"upgraded\"", waiter.unlocked()).await`.
///
/// Like every lock, gates can deadlock those who use several: nobody should wait at one gate before
/// it unlocks another that is waited for on the way to the first.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{Flag, Gate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let gate = Gate::new();
/// let (unlocker, waiter) = (gate.unlocker(), gate.waiter());
/// assert_eq!(*gate.flag().borrow(), Flag::UNSET);
/// let upgrade = async { unlocker.unlock() };
/// tokio::join!(waiter.unlocked(), upgrade);
/// assert!(waiter.is_unlocked());
/// assert_eq!(*gate.flag().borrow(), Flag::SET);
/// # }
/// ```
#[derive(Clone)]
pub struct Gate {
    flag: Arc<watch::Sender<Flag>>,
}

impl Gate {
    /// Returns a gate that is locked.
    pub fn new() -> Self {
        Self { flag: Arc::new(watch::Sender::new(Flag::UNSET)) }
    }

    /// Returns a gate that is unlocked, for where nothing is to be waited for.
    pub fn unlocked() -> Self {
        let gate = Self::new();
        gate.unlocker().unlock();
        gate
    }

    /// Returns what unlocks it.
    pub fn unlocker(&self) -> Unlocker {
        Unlocker { gate: self.clone() }
    }

    /// Returns what waits for it.
    pub fn waiter(&self) -> Waiter {
        Waiter { gate: self.clone() }
    }

    /// Follows whether it is unlocked.
    pub fn flag(&self) -> watch::Receiver<Flag> {
        self.flag.subscribe()
    }

    fn is_unlocked(&self) -> bool {
        self.flag.borrow().is_set()
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Worker for Gate {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("is_unlocked", &self.is_unlocked()).finish()
    }
}

/// Unlocks a [`Gate`]. Cheap to clone; dropping it unlocks nothing.
#[derive(Debug, Clone)]
pub struct Unlocker {
    gate: Gate,
}

impl Unlocker {
    /// Unlocks the gate; later calls change nothing.
    pub fn unlock(&self) {
        self.gate.flag.send_if_modified(|flag| {
            let was_set = std::mem::replace(flag, Flag::SET).is_set();
            !was_set
        });
    }
}

/// Waits for a [`Gate`]. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Waiter {
    gate: Gate,
}

impl Waiter {
    /// Returns whether the gate is unlocked.
    pub fn is_unlocked(&self) -> bool {
        self.gate.is_unlocked()
    }

    /// Waits until the gate is unlocked, which may be never.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number may wait.
    pub async fn unlocked(&self) {
        let mut flag = self.gate.flag();
        // It cannot be closed: this has a hold on its sender.
        drop(flag.wait_for(|flag| flag.is_set()).await);
    }
}
