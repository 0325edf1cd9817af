//! Documents of bounded size.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value on record, as JSON. Cheap to clone.
///
/// Its `Debug` shows only its size, because a document may have secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Document(Arc<str>);

/// Why a value and a document cannot be made of each other.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The value has no form in JSON.
    #[error("cannot write a document")]
    Write(#[source] serde_json::Error),
    /// The document is too large to be put on record.
    #[error("a document has {size} bytes; expected at most {}", Document::LARGEST)]
    TooLarge {
        /// Its size, in bytes.
        size: usize,
    },
    /// The document is no JSON, or has another value than the expected one.
    #[error("cannot read a document")]
    Read(#[source] serde_json::Error),
}

impl Document {
    /// The size of the largest document, in bytes: 512 MiB. A store must take each document.
    pub const LARGEST: usize = 512 * 1024 * 1024;

    /// Returns the document with a value.
    ///
    /// # Errors
    ///
    /// [`DocumentError::Write`] and [`DocumentError::TooLarge`].
    pub fn of(value: &impl Serialize) -> Result<Self, DocumentError> {
        Self::from_text(serde_json::to_string(value).map_err(DocumentError::Write)?)
    }

    /// Returns the document with a text, which is looked at when the document is read.
    ///
    /// # Errors
    ///
    /// [`DocumentError::TooLarge`].
    pub fn from_text(text: impl Into<Arc<str>>) -> Result<Self, DocumentError> {
        let text = text.into();
        match text.len() {
            size if size > Self::LARGEST => Err(DocumentError::TooLarge { size }),
            _ => Ok(Self(text)),
        }
    }

    /// Returns the value of the document.
    ///
    /// # Errors
    ///
    /// [`DocumentError::Read`].
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        serde_json::from_str(&self.0).map_err(DocumentError::Read)
    }

    /// Returns the text of the document.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, DocumentError};

    #[test]
    fn a_document_shows_no_value() -> Result<(), DocumentError> {
        let document = Document::of(&"secret")?;

        assert_eq!(format!("{document:?}"), "Document(8 bytes)");
        assert_eq!(document.read::<String>()?, "secret");
        Ok(())
    }
}
