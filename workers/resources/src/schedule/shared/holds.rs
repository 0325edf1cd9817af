//! What people hold, for the workers of the resources.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::state::Hold;

/// The resources that people hold, by their names.
#[derive(Debug, Default)]
pub(super) struct Holds {
    /// Those that are left alone.
    pub(super) paused: BTreeMap<Arc<str>, Hold>,
    /// Those that are on record as parked, and that the engine has not parked yet: their workers do nothing.
    pub(super) to_park: HashSet<String>,
}
