//! The names under which manifolds are installed, and the rules for their texts.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use smol_str::SmolStr;

use super::value::name_of;

/// The longest name, in bytes.
pub(crate) const MAX_LEN: usize = 255;

/// A name under which manifolds are installed, with the type of the value that it stands for.
///
/// A name is one path segment: an ASCII letter, then letters, digits, `_`, `.` and `-`, at most 255
/// bytes. Use constants for names that are known when you write the program, and [`Name::parse`]
/// for others. A clone is cheap: short texts are copied, long ones are shared.
///
/// A name is an input by itself: a *required* one. [`optional`](Self::optional) and
/// [`live`](Self::live) make the other kinds. [`output`](Self::output) asks for a value of another
/// type under the same name.
///
/// # Examples
///
/// ```
/// use crankcase_engine::Name;
///
/// const PORT: Name<u16> = Name::new("port");
/// let tenant: Name<u16> = Name::parse("tenant-17")?;
/// assert_eq!(tenant.as_str(), "tenant-17");
/// assert_eq!(
///     Name::<u16>::parse("7th floor").unwrap_err().to_string(),
///     "bad name \"7th floor\": it begins with \"7\"; expected a letter, then letters, digits, \
///      \"_\", \".\" and \"-\"",
/// );
/// # Ok::<(), crankcase_engine::NameError>(())
/// ```
///
/// A bad constant does not compile:
///
/// ```compile_fail
/// const BAD: crankcase_engine::Name<u16> = crankcase_engine::Name::new("a/b");
/// ```
pub struct Name<T> {
    text: Text,
    value: PhantomData<fn() -> T>,
}

impl<T> Name<T> {
    /// Returns the name with this text.
    ///
    /// # Panics
    ///
    /// When the text is not a name. In a constant, that is a compile error. Use [`Name::parse`] for
    /// texts that are not known at compile time.
    pub const fn new(text: &'static str) -> Self {
        assert!(
            is_name(text),
            "a name is a letter, then letters, digits, '_', '.' and '-', at most 255 bytes"
        );
        Self { text: Text::new_static(text), value: PhantomData }
    }

    /// Returns the name with a text that is not known at compile time.
    ///
    /// # Errors
    ///
    /// When the text is not a name. The error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        match find_fault(text.as_bytes()) {
            None => Ok(Self::from_text(Text::new(text))),
            Some(fault) => {
                let sign = match fault {
                    Fault::Sign(at) => text.get(at..).and_then(|rest| rest.chars().next()),
                    Fault::Empty | Fault::TooLong(_) => None,
                };
                Err(NameError { text: text.chars().take(80).collect(), fault, sign })
            }
        }
    }

    /// Returns the name's text.
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Returns the same name with another type, to ask for another output of its manifold.
    #[must_use]
    pub fn output<U>(&self) -> Name<U> {
        Name::from_text(self.text.clone())
    }

    pub(crate) fn from_text(text: Text) -> Self {
        Self { text, value: PhantomData }
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn into_text(self) -> Text {
        self.text
    }
}

impl<T> Clone for Name<T> {
    fn clone(&self) -> Self {
        Self::from_text(self.text.clone())
    }
}

impl<T> fmt::Debug for Name<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({:?}: {})", self.as_str(), name_of::<T>())
    }
}

impl<T> fmt::Display for Name<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<T> PartialEq for Name<T> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<T> Eq for Name<T> {}

impl<T> Hash for Name<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// A name's text. Most texts are short enough to be copied. Each clone and each drop of a shared
/// text costs an access to distant memory.
pub(crate) type Text = SmolStr;

/// What is wrong with a text that is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Empty,
    TooLong(usize),
    /// The first character that is not allowed in its place, by the index of its first byte.
    Sign(usize),
}

pub(crate) const fn is_name(text: &str) -> bool {
    find_fault(text.as_bytes()).is_none()
}

const fn find_fault(text: &[u8]) -> Option<Fault> {
    if text.is_empty() {
        return Some(Fault::Empty);
    }
    if text.len() > MAX_LEN {
        return Some(Fault::TooLong(text.len()));
    }
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        let may_follow = byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-');
        if !(byte.is_ascii_alphabetic() || (at > 0 && may_follow)) {
            return Some(Fault::Sign(at));
        }
        at += 1;
    }
    None
}

/// A text that is not a name.
#[derive(Clone, PartialEq, Eq)]
pub struct NameError {
    /// The text, cut after 80 characters.
    text: String,
    fault: Fault,
    /// The character that is not allowed. It may come after the cut.
    sign: Option<char>,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad name {:?}: ", self.text)?;
        match self.fault {
            Fault::Empty => write!(f, "it is empty")?,
            Fault::TooLong(len) => write!(f, "it is {len} bytes long, the most is {MAX_LEN}")?,
            Fault::Sign(0) => write!(f, "it begins with {:?}", self.sign())?,
            Fault::Sign(_) => write!(f, "it contains {:?}", self.sign())?,
        }
        write!(f, "; expected a letter, then letters, digits, \"_\", \".\" and \"-\"")
    }
}

impl NameError {
    fn sign(&self) -> String {
        self.sign.map(String::from).unwrap_or_default()
    }
}

impl fmt::Debug for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NameError {}

#[cfg(test)]
mod tests {
    use super::Name;

    #[test]
    fn every_kind_of_bad_name_says_what_is_wrong() {
        let long = "a".repeat(256);
        let far = "a".repeat(100) + "/";
        let cases = [
            ("", "it is empty"),
            ("a b", "it contains \" \""),
            ("a/b", "it contains \"/\""),
            (".a", "it begins with \".\""),
            ("é", "it begins with \"é\""),
            ("aé", "it contains \"é\""),
            (&*far, "it contains \"/\""),
            (&*long, "it is 256 bytes long, the most is 255"),
        ];
        for (text, expected) in cases {
            let error = Name::<()>::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn names_are_equal_by_their_text() -> Result<(), super::NameError> {
        const FIXED: Name<u8> = Name::new("x-1.y_Z");
        assert_eq!(FIXED, Name::parse("x-1.y_Z")?);
        Ok(())
    }
}
