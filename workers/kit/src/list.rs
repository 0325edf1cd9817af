//! Lists of things in a sentence.

use std::fmt::Display;

/// Names the first of some things, and counts the others: `a, b and 3 more`.
///
/// # Examples
///
/// ```
/// use crankcase_workers::name_first;
///
/// let names = ["disk", "door", "page"];
/// assert_eq!(name_first(3, names.iter()), "disk, door, page");
/// assert_eq!(name_first(2, names.iter()), "disk, door and 1 more");
/// assert_eq!(name_first(2, names[..0].iter()), "");
/// ```
pub fn name_first(most: usize, all: impl ExactSizeIterator<Item = impl Display>) -> String {
    let more = all.len().saturating_sub(most);
    let named: Vec<_> = all.take(most).map(|it| it.to_string()).collect();
    let named = named.join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}
