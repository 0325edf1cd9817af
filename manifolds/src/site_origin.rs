//! In whose name the resources of a site are installed and released. The journal of an agent leaves those
//! changes to the site, which logs them together.

/// The name, as events and the log have it.
pub(crate) const ORIGIN: &str = "site";
