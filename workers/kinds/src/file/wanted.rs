//! What the last look has decided, kept until the actions have carried it out.

use crankcase_resources::Context;
use parking_lot::Mutex;

use crate::file::content::Content;
use crate::file::error::EntryError;
use crate::file::rights::Rights;

/// What the last look at an entry wants of it. It is kept until the actions are done, so that what was
/// shown is what is done: a content is rendered and read once, and what takes the place of an entry
/// has the rights of the entry that was looked at.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) rights: Rights,
    pub(super) content: Option<Content>,
}

/// Boxed, as the resource keeps the place for it until it is closed.
type Kept = Mutex<Option<Box<Wanted>>>;

impl Wanted {
    /// Keeps it for the actions.
    pub(super) fn keep(self, context: &Context) {
        *context.memory::<Kept>().lock() = Some(Box::new(self));
    }

    /// Forgets what an earlier look wanted.
    pub(super) fn forget(context: &Context) {
        *context.memory::<Kept>().lock() = None;
    }

    /// Returns what is to be done.
    pub(super) fn recall(context: &Context) -> Result<Self, EntryError> {
        let kept = context.memory::<Kept>().lock().clone();
        kept.map(|wanted| *wanted).ok_or(EntryError::NotLookedAt)
    }
}
