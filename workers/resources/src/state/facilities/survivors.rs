//! The programs that an earlier agent has left running, until they are adopted or ended.

use std::sync::atomic::{AtomicBool, Ordering};

use crankcase_workers::Survivor;
use parking_lot::Mutex;

/// The programs that an earlier agent has left running, until they are adopted or ended. A name has
/// several if one could not be ended before the next one was started.
#[derive(Debug, Default)]
pub(crate) struct Survivors {
    left: Mutex<Vec<Survivor>>,
    /// Whether all are left to a later agent.
    are_kept: AtomicBool,
}

impl Survivors {
    pub(crate) fn add(&self, survivors: impl IntoIterator<Item = Survivor>) {
        self.left.lock().extend(survivors);
    }

    /// Leaves all to a later agent: nobody can take one from now on.
    pub(crate) fn keep(&self) {
        self.are_kept.store(true, Ordering::Release);
    }

    /// Returns whether there is a program of this resource.
    pub(crate) fn has(&self, resource: &str) -> bool {
        self.left.lock().iter().any(|survivor| survivor.name() == resource)
    }

    /// Returns whether there is a program of this resource that was started with this digest.
    pub(crate) fn has_equal(&self, resource: &str, digest: &str) -> bool {
        let left = self.left.lock();
        left.iter().any(|survivor| survivor.name() == resource && survivor.digest() == digest)
    }

    /// Takes all programs for which `is_right` is true.
    pub(crate) fn take_all(&self, is_right: impl Fn(&Survivor) -> bool) -> Vec<Survivor> {
        if self.are_kept.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.left.lock().extract_if(.., |survivor| is_right(survivor)).collect()
    }

    /// Takes the first program for which `is_right` is true.
    pub(crate) fn take(&self, is_right: impl Fn(&Survivor) -> bool) -> Option<Survivor> {
        if self.are_kept.load(Ordering::Acquire) {
            return None;
        }
        let mut survivors = self.left.lock();
        let place = survivors.iter().position(is_right)?;
        Some(survivors.remove(place))
    }
}
