//! Families: all names that begin in the same way, written as one pattern.

use std::fmt;
use std::marker::PhantomData;

use super::name::{Name, NameError, Text, is_name};
use super::value::name_of;

/// All names that begin in the same way, with the type of the value that stands behind each.
///
/// A family is written as a pattern: the beginning, then `*`. The rest of a name is its *member*:
/// in the family `tenant-*`, the name `tenant-acme` has the member `acme`.
///
/// As an input, [`live`](Self::live) follows the values of all members. Names of the family may be
/// installed and uninstalled at any time.
///
/// # Examples
///
/// ```
/// use crankcase_engine::Family;
///
/// const TENANTS: Family<u32> = Family::new("tenant-*");
/// let acme = TENANTS.name("acme")?;
/// assert_eq!(acme.as_str(), "tenant-acme");
/// assert_eq!(TENANTS.member(acme.as_str()), Some("acme"));
/// # Ok::<(), crankcase_engine::NameError>(())
/// ```
///
/// A bad constant does not compile:
///
/// ```compile_fail
/// const BAD: crankcase_engine::Family<u16> = crankcase_engine::Family::new("tenant-");
/// ```
pub struct Family<T> {
    pattern: Text,
    value: PhantomData<fn() -> T>,
}

impl<T> Family<T> {
    /// Returns the family with this pattern.
    ///
    /// # Panics
    ///
    /// When the text is not a name followed by `*`. In a constant, that is a compile error.
    pub const fn new(pattern: &'static str) -> Self {
        let (beginning, star) = pattern.split_at(pattern.len().saturating_sub(1));
        assert!(
            is_name(beginning) && matches!(star.as_bytes(), b"*"),
            "a family is the beginning of its names, then '*'"
        );
        Self { pattern: Text::new_static(pattern), value: PhantomData }
    }

    /// Returns the name of a member.
    ///
    /// # Errors
    ///
    /// If this is not a name, because of a character in the member or its length.
    pub fn name(&self, member: &str) -> Result<Name<T>, NameError> {
        Name::parse(&[beginning_of(&self.pattern), member].concat())
    }

    /// Returns the member that a name stands for, if the name belongs to the family.
    pub fn member<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(beginning_of(&self.pattern))
    }

    /// Returns the pattern.
    pub fn as_str(&self) -> &str {
        self.pattern.as_str()
    }

    pub(crate) fn pattern(&self) -> &Text {
        &self.pattern
    }
}

/// Whether a name is the pattern of a family. No other name has this sign in it.
pub(crate) fn is_pattern(name: &Text) -> bool {
    name.ends_with('*')
}

/// Returns what the names of a family begin with.
fn beginning_of(pattern: &Text) -> &str {
    pattern.strip_suffix('*').unwrap_or(pattern)
}

impl<T> Clone for Family<T> {
    fn clone(&self) -> Self {
        Self { pattern: self.pattern.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for Family<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({:?}: {})", self.as_str(), name_of::<T>())
    }
}

impl<T> fmt::Display for Family<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
