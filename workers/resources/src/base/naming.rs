//! What the resources of a `for_each` are called, and what their workers are.
//!
//! Invariants:
//! 1. A resource's own name never has two dots in a row, nor a dot at its end, so the first two dots
//!    of a worker's name stand between the resource and its item.
//! 2. In an item each byte stands for itself, or is a dot and two digits, so no two items are one.

use std::fmt::Write as _;

/// What stands between the two parts of a worker's name.
const BETWEEN: &str = "..";

/// Returns the name of the resource for one item of a `for_each`, as people see and write it:
/// `home["ada"]`. The item is written as in JSON.
///
/// # Examples
///
/// ```
/// use crankcase_resources::front::item_name;
///
/// assert_eq!(item_name("home", "ada"), r#"home["ada"]"#);
/// assert_eq!(item_name("home", "a\"b"), r#"home["a\"b"]"#);
/// ```
pub fn item_name(resource: &str, item: &str) -> String {
    format!("{resource}[{}]", serde_json::Value::from(item))
}

/// Returns the name of a part of a resource: `web["page"]`. A part of `home["ada"]`, or of such a part,
/// has both in its name: `home["ada/page"]`.
pub(crate) fn part_name(owner: &str, part: &str) -> String {
    match split(owner) {
        Some((owner, item)) => item_name(owner, &format!("{item}/{part}")),
        None => item_name(owner, part),
    }
}

/// Returns the name of a resource's worker, under which its engine knows it.
///
/// A plain name stays as it is. `home["ada"]` becomes `home..ada`: two dots, and then the item with
/// its ASCII letters, digits, `_` and `-` as they are, and each other byte as a dot and two
/// hexadecimal digits. So no two resources of a manifest have workers of one name, and
/// [`resource_name`] leads back.
///
/// # Examples
///
/// ```
/// use crankcase_resources::front::worker_name;
///
/// assert_eq!(worker_name("index"), "index");
/// assert_eq!(worker_name(r#"home["ada"]"#), "home..ada");
/// assert_eq!(worker_name(r#"mount["/srv"]"#), "mount...2fsrv");
/// ```
pub fn worker_name(resource: &str) -> String {
    let Some((resource, item)) = split(resource) else { return resource.to_owned() };
    let mut name = format!("{resource}{BETWEEN}");
    for byte in item.bytes() {
        if is_plain(byte) {
            name.push(byte.into());
        } else {
            write!(name, ".{byte:02x}").expect("a string takes what is written");
        }
    }
    name
}

/// Returns the name of the resource that a worker keeps: what [`worker_name`] was given.
///
/// # Examples
///
/// ```
/// use crankcase_resources::front::resource_name;
///
/// assert_eq!(resource_name("index"), "index");
/// assert_eq!(resource_name("home..ada"), r#"home["ada"]"#);
/// ```
pub fn resource_name(worker: &str) -> String {
    let parts = worker.split_once(BETWEEN);
    let parts = parts.and_then(|(resource, item)| Some((resource, decode(item)?)));
    parts.map_or_else(|| worker.to_owned(), |(resource, item)| item_name(resource, &item))
}

/// Returns whether a resource may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let worker = worker_name(name);
    crankcase_engine::Name::<()>::parse(&worker).is_ok() && resource_name(&worker) == name
}

/// Splits the name of a resource of a `for_each` into the name before it and the item.
fn split(name: &str) -> Option<(&str, String)> {
    let (resource, item) = name.strip_suffix(']')?.split_once('[')?;
    Some((resource, serde_json::from_str(item).ok()?))
}

/// Returns the names of the resources that one with this name may be a part or an item of, the nearest first:
/// `home["ada"]` and `home` for `home["ada/page"]`.
pub(crate) fn owners_of(name: &str) -> Vec<String> {
    let Some((owner, item)) = split(name) else { return Vec::new() };
    let items = item.rmatch_indices('/').map(|(at, _)| item_name(owner, &item[..at]));
    items.chain([owner.to_owned()]).collect()
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

fn decode(item: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(item.len());
    let mut rest = item;
    while let Some(first) = rest.bytes().next() {
        let (byte, length) = match first {
            b'.' => (u8::from_str_radix(rest.get(1..3)?, 16).ok()?, 3),
            plain if is_plain(plain) => (plain, 1),
            _ => return None,
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::{item_name, owners_of, part_name, resource_name, worker_name};

    proptest! {
        #[test]
        fn the_name_of_a_worker_leads_back_to_its_resource(
            resource in "[A-Za-z](\\.?[A-Za-z0-9_-]){0,9}",
            item in ".{0,20}",
        ) {
            let name = item_name(&resource, &item);

            let worker = worker_name(&name);

            prop_assert!(crankcase_engine::Name::<()>::parse(&worker).is_ok(), "{}", worker);
            prop_assert_eq!(resource_name(&worker), name);
            prop_assert_eq!(worker_name(&resource), resource.clone());
            prop_assert_eq!(resource_name(&resource), resource);
        }
    }

    #[test]
    fn parts_of_parts_are_told_apart() {
        let page = part_name("web", "page");
        assert_eq!(page, "web[\"page\"]");
        assert_eq!(part_name(&page, "rights"), "web[\"page/rights\"]");
    }

    #[test]
    fn a_part_belongs_to_all_that_it_may_be_a_part_of() {
        let page = part_name("home[\"ada\"]", "page");
        assert_eq!(owners_of(&page), ["home[\"ada\"]", "home"]);
        let rights = part_name(&page, "rights");
        assert_eq!(owners_of(&rights), ["home[\"ada/page\"]", "home[\"ada\"]", "home"]);
        assert!(owners_of("home").is_empty());
    }

    #[test]
    fn what_is_no_name_of_ours_stays_as_it_is() {
        for name in ["a..b..c", "a...zz", "a..b.2", "a[b]", "a[\"b\"", ""] {
            assert_eq!(resource_name(name), name);
            assert_eq!(worker_name(name), name);
        }
    }
}
