//! Whether the resources of a site are at rest.

/// Whether resources are at rest. One that has failed, or is held back by one that has, is at rest
/// until it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rest {
    /// All are.
    #[default]
    AtRest,
    /// All are but those that wait only for their start.
    Starting,
    /// One has a reason to be looked at, is looked at, or [holds up](crate::Resource::holds) the
    /// end of the run.
    AtWork,
}
