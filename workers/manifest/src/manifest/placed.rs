//! The resources of a manifest, each with what is known of it.

use std::sync::Arc;

use crankcase_resources::Claimed;

use crate::manifest::config::Template;
use crate::manifest::problem::Problem;

/// Where a resource was declared, and what is known of it.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) template: Arc<Template>,
    /// Where the resource's name stands.
    pub(crate) offset: usize,
    pub(crate) claimed: Claimed,
    /// Whether it is a part: the template is its owner's.
    pub(crate) is_part: bool,
    /// What is wrong with its config because of facts, and is deferred.
    pub(crate) wrong: Vec<Problem>,
}
