//! The places, templates and claims of the resources of a manifest.

use std::sync::Arc;

use crankcase_resources::Claimed;

use crate::manifest::config::Template;
use crate::manifest::problem::Problem;

/// The place of a resource, with its template and its claims.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) template: Arc<Template>,
    /// Where the resource's name stands.
    pub(crate) offset: usize,
    pub(crate) claimed: Claimed,
    /// Whether the resource is a part of another one, whose template it has.
    pub(crate) is_part: bool,
    /// The problems of its config that are due to facts and are deferred.
    pub(crate) wrong: Vec<Problem>,
}
