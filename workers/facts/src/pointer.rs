//! Paths to facts.

use std::fmt;
use std::str::FromStr;

use crankcase_workers::{pointer_segment, printable, read_pointer_segment};
use smol_str::SmolStr;

/// How many levels a tree of facts may have.
pub(crate) const DEEPEST: usize = 64;

/// How long a segment of a path may be, in bytes.
pub(crate) const LONGEST_SEGMENT: usize = 1024;

/// The path to a fact or to a subtree of facts: a JSON pointer (RFC 6901).
///
/// Both `""` and `/` are the root. Apart from that no segment is empty: `/a//b` and `/a/` are errors.
///
/// # Examples
///
/// ```
/// use crankcase_facts::Pointer;
///
/// # fn main() -> Result<(), crankcase_facts::PointerError> {
/// let host: Pointer = "/racks/0/hosts/h1.example.com".parse()?;
/// assert_eq!(host.segments().count(), 4);
/// assert!(host.is_within(&"/racks/0".parse()?));
/// assert_eq!(Pointer::root().join("a/b").to_string(), "/a~1b");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pointer(Vec<SmolStr>);

impl Pointer {
    /// Returns the path to all facts.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Returns whether it is the path to all facts.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the segments, decoded.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &str> + DoubleEndedIterator {
        self.0.iter().map(SmolStr::as_str)
    }

    /// Returns the path to a member of the subtree at this path.
    #[must_use]
    pub fn join(&self, segment: &str) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment.into());
        Self(segments)
    }

    /// Returns this path below another one.
    #[must_use]
    pub fn below(&self, above: &Self) -> Self {
        Self(above.0.iter().chain(&self.0).cloned().collect())
    }

    /// Returns the path of the map or list around this one, and the last segment; none for the
    /// root.
    pub fn split_last(&self) -> Option<(Self, &str)> {
        let (last, rest) = self.0.split_last()?;
        Some((Self(rest.to_vec()), last))
    }

    /// Returns the path of the first segments.
    pub(crate) fn up_to(&self, count: usize) -> Self {
        Self(self.0[..count].to_vec())
    }

    /// Returns whether it is the other path or leads to something in the subtree there.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns whether one of the two paths is within the other.
    pub fn touches(&self, other: &Self) -> bool {
        self.is_within(other) || other.is_within(self)
    }

    /// Returns the way from another path to this one; none if it is not within that.
    pub fn strip_prefix(&self, other: &Self) -> Option<Self> {
        self.0.strip_prefix(&other.0[..]).map(|rest| Self(rest.to_vec()))
    }

    /// Returns the path as text, which is empty for the root: members are added at its end.
    pub(crate) fn text(&self) -> String {
        if self.is_root() { String::new() } else { self.to_string() }
    }

    pub(crate) fn parts(&self) -> &[SmolStr] {
        &self.0
    }
}

impl<'a> FromIterator<&'a str> for Pointer {
    fn from_iter<I: IntoIterator<Item = &'a str>>(segments: I) -> Self {
        Self(segments.into_iter().map(SmolStr::new).collect())
    }
}

impl fmt::Display for Pointer {
    /// Writes it as in RFC 6901, but the root as `/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|segment| write!(f, "/{}", pointer_segment(segment)))
    }
}

/// A text that is no path to a fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no path to a fact: at character {column} {why}", printable(text))]
pub struct PointerError {
    /// The text, cut if it is long.
    pub text: String,
    /// The character at which it is wrong, from 1.
    pub column: usize,
    /// What is wrong there, and the expected form.
    pub why: &'static str,
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Self, PointerError> {
        let wrong = |at: usize, why| {
            let column = text[..at].chars().count() + 1;
            PointerError { text: text.chars().take(200).collect(), column, why }
        };
        if matches!(text, "" | "/") {
            return Ok(Self::root());
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(wrong(0, "there is no \"/\", with which a path begins"));
        };
        let (mut segments, mut at) = (Vec::new(), 1);
        for part in rest.split('/') {
            if part.is_empty() {
                return Err(wrong(at, "a segment is empty"));
            }
            if segments.len() == DEEPEST {
                return Err(wrong(at, "it has more than 64 segments"));
            }
            let segment = read_pointer_segment(part).map_err(|offset| {
                wrong(at + offset, "\"~\" is written \"~0\", and \"/\" in a segment \"~1\"")
            })?;
            if segment.len() > LONGEST_SEGMENT {
                return Err(wrong(at, "a segment is longer than 1,024 bytes"));
            }
            segments.push(SmolStr::new(segment));
            at += part.len() + 1;
        }
        Ok(Self(segments))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Pointer;

    #[test]
    fn a_wrong_path_is_told_with_its_place() {
        for (text, with) in [
            ("a/b", "\"a/b\" is no path to a fact: at character 1 there is no \"/\""),
            ("/a//b", "at character 4 a segment is empty"),
            ("/a/", "at character 4 a segment is empty"),
            ("//", "at character 2 a segment is empty"),
            ("/ä~2", "at character 3 \"~\" is written \"~0\""),
            ("/a~", "at character 3"),
            (&"/a".repeat(65), "it has more than 64 segments"),
            (&format!("/{}", "a".repeat(1025)), "a segment is longer than 1,024 bytes"),
        ] {
            let error =
                text.parse::<Pointer>().map_or_else(|err| err.to_string(), |it| it.to_string());
            assert!(error.contains(with), "{error} without {with}");
        }
    }

    #[test]
    fn both_spellings_of_the_root_are_the_root() -> Result<(), super::PointerError> {
        assert!("".parse::<Pointer>()?.is_root() && "/".parse::<Pointer>()?.is_root());
        assert_eq!(Pointer::root().to_string(), "/");
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(segments in proptest::collection::vec("[~/a.:é]{1,6}", 0..5)) {
            let pointer: Pointer = segments.iter().map(String::as_str).collect();
            prop_assert_eq!(pointer.to_string().parse::<Pointer>(), Ok(pointer));
        }
    }
}
