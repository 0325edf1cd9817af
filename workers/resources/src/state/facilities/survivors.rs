//! The programs that an earlier agent has left running, until they are adopted or ended.

use crankcase_workers::Survivor;
use parking_lot::Mutex;

/// The programs that an earlier agent has left running, until they are adopted or ended. A name has
/// several if one could not be ended before the next one was started.
#[derive(Debug, Default)]
pub(crate) struct Survivors(Mutex<Vec<Survivor>>);

impl Survivors {
    pub(crate) fn add(&self, survivors: impl IntoIterator<Item = Survivor>) {
        self.0.lock().extend(survivors);
    }

    /// Returns whether there is one of a resource.
    pub(crate) fn has(&self, resource: &str) -> bool {
        self.0.lock().iter().any(|survivor| survivor.name() == resource)
    }

    /// Takes all that are as they are to be.
    pub(crate) fn take_all(&self, is_right: impl Fn(&Survivor) -> bool) -> Vec<Survivor> {
        self.0.lock().extract_if(.., |survivor| is_right(survivor)).collect()
    }

    /// Takes the first one that is as it is to be.
    pub(crate) fn take(&self, is_right: impl Fn(&Survivor) -> bool) -> Option<Survivor> {
        let mut survivors = self.0.lock();
        let place = survivors.iter().position(is_right)?;
        Some(survivors.remove(place))
    }
}
