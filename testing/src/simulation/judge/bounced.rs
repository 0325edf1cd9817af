//! The workers that a bounce would stop, certainly or possibly.

use std::collections::BTreeSet;

/// The paths that a bounce would stop.
pub(in crate::simulation) struct Bounced {
    /// The paths of the workers that hold the bounced one, directly or indirectly.
    pub(in crate::simulation) certain: BTreeSet<String>,
    /// The certain paths, and those of workers that run without an input that the bounce may bring
    /// back from its backoff.
    pub(in crate::simulation) possible: BTreeSet<String>,
}
