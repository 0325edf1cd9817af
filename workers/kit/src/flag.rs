//! A value that says whether something is so, such as whether a worker is to run.

/// Whether something is so; an input that says whether a worker is to run.
///
/// It is a plain value. What offers it as a changing output bounces those who require it whenever
/// it changes, so that for one worker it is constant: the housings of `crankcase-manifolds` start a
/// worker only while its flags are set. A [`Value<Flag>`](crate::Value) is a flag that anyone may
/// set, and a [`Gate`](crate::Gate) offers one that is set once it is unlocked.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{Flag, ValueHandle};
///
/// let migrated = ValueHandle::new(Flag::UNSET);
/// assert!(!migrated.get().is_set());
/// migrated.set(Flag::SET);
/// assert!(migrated.get().is_set());
/// assert_eq!(migrated.get(), Flag::from(true));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flag {
    is_set: bool,
}

impl Flag {
    /// The flag that is set.
    pub const SET: Self = Self { is_set: true };

    /// The flag that is not set; the default.
    pub const UNSET: Self = Self { is_set: false };

    /// Returns whether it is set.
    pub const fn is_set(self) -> bool {
        self.is_set
    }
}

impl From<bool> for Flag {
    fn from(is_set: bool) -> Self {
        Self { is_set }
    }
}
