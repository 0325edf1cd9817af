//! The resources of a manifest, each with what is known of it.

use std::sync::Arc;

use crankcase_resources::Claimed;

use crate::manifest::config::Template;

/// Where a resource was declared, and what is known of it.
pub(crate) struct Placed {
    pub(crate) template: Arc<Template>,
    /// Where the resource's name stands.
    pub(crate) offset: usize,
    pub(crate) claimed: Claimed,
}
