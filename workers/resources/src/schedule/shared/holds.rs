//! The holds of people, for the workers of the resources.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::state::Hold;

/// The resources that people hold, by their names.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// The resources that are paused, and left alone.
    pub(super) paused: BTreeMap<Arc<str>, Hold>,
    /// The resources that are on record as parked, and that the engine has not parked yet: their
    /// workers do nothing.
    pub(super) to_park: HashSet<String>,
}
