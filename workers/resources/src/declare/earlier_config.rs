//! A config that a resource had before.

use std::collections::BTreeSet;
use std::fmt;

use crate::base::shape::Shape;
use crate::declare::declaration::Config;

/// A config that a resource had before, with what is secret in it: another declaration of the
/// resource need not know.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EarlierConfig {
    pub(crate) config: Config,
    /// The attributes whose values come from secrets. They are shown to nobody.
    pub(crate) hidden: BTreeSet<String>,
}

/// Shows the names of the attributes, and no values.
impl fmt::Debug for EarlierConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("EarlierConfig");
        shown.field("config", &Shape::of_map(&self.config)).field("hidden", &self.hidden).finish()
    }
}
