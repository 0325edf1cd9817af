//! Paths of workers as people write and read them: a resource goes by its own name.

use crankcase_resources::front::{resource_name, worker_name};

/// The name of the engine in which each resource is a worker.
pub(crate) const RESOURCES: &str = "resources";

/// The name of the worker that tells how the resources have fared.
pub(crate) const TALLY: &str = "tally";

/// Returns the path by which the agent knows a worker: that of
/// `/agent/resources/home["ada"]` ends in `home..ada`.
pub(crate) fn worker_path(path: &str) -> String {
    // An item may hold slashes.
    let item = path.find('[').unwrap_or(path.len());
    let start = path[..item].rfind('/').map_or(0, |slash| slash + 1);
    format!("{}{}", &path[..start], worker_name(&path[start..]))
}

/// Returns the path of a worker as people write it.
pub(crate) fn resource_path(path: &str) -> String {
    let start = path.rfind('/').map_or(0, |slash| slash + 1);
    format!("{}{}", &path[..start], resource_name(&path[start..]))
}

/// Returns the name of the resource that a path leads to.
pub(crate) fn resource_of(path: &str) -> String {
    // An item may hold slashes.
    let item = path.find('[').unwrap_or(path.len());
    let start = path[..item].rfind('/').map_or(0, |slash| slash + 1);
    resource_name(&path[start..])
}

#[cfg(test)]
mod tests {
    use super::{resource_of, resource_path, worker_path};

    #[test]
    fn a_path_leads_to_a_resource_by_its_name() {
        for (path, name) in [
            ("page", "page"),
            ("resources/page", "page"),
            ("/agent/resources/mount[\"/srv/resources/a\"]", "mount[\"/srv/resources/a\"]"),
            ("/agent/resources/home..ada", "home[\"ada\"]"),
        ] {
            assert_eq!(resource_of(path), name);
        }
    }

    #[test]
    fn a_resource_of_an_item_is_found_by_its_own_name() {
        for (shown, known) in [
            ("/agent/resources/home[\"ada\"]", "/agent/resources/home..ada"),
            ("/agent/resources/mount[\"/srv/a\"]", "/agent/resources/mount...2fsrv.2fa"),
            ("home[\"a b\"]", "home..a.20b"),
            ("/agent/resources", "/agent/resources"),
            ("index", "index"),
            ("/", "/"),
        ] {
            assert_eq!(worker_path(shown), known);
            assert_eq!(resource_path(known), shown);
        }
    }
}
