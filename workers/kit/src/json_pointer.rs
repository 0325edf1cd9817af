//! The segments of JSON pointers (RFC 6901).

use std::borrow::Cow;

/// Returns a name as it stands in a JSON pointer.
///
/// # Examples
///
/// ```
/// use crankcase_workers::{pointer_segment, read_pointer_segment};
///
/// assert_eq!(pointer_segment("a/b~c"), "a~1b~0c");
/// assert_eq!(read_pointer_segment("a~1b~0c").as_deref(), Ok("a/b~c"));
/// assert_eq!(read_pointer_segment("a~b"), Err(1));
/// ```
pub fn pointer_segment(name: &str) -> Cow<'_, str> {
    match name.contains(['~', '/']) {
        true => name.replace('~', "~0").replace('/', "~1").into(),
        false => name.into(),
    }
}

/// Returns the name that a segment of a JSON pointer stands for.
///
/// # Errors
///
/// The offset in bytes of a `~` that is followed by neither `0` nor `1`.
pub fn read_pointer_segment(segment: &str) -> Result<Cow<'_, str>, usize> {
    let is_wrong = |at: &usize| !segment[at + 1..].starts_with(['0', '1']);
    match segment.match_indices('~').map(|(at, _)| at).find(is_wrong) {
        Some(at) => Err(at),
        None if segment.contains('~') => Ok(segment.replace("~1", "/").replace("~0", "~").into()),
        None => Ok(segment.into()),
    }
}
