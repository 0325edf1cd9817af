//! What is known of a resource before anything is looked at.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::attributes::AttributeError;
use crate::declaration::Config;

/// A config as far as it is known while its manifest is loaded.
#[derive(Debug, Clone, Copy)]
pub struct KnownConfig<'a> {
    /// The config; attributes that are not known yet are null.
    pub config: &'a Config,
    /// The names of those: they use states of other resources, or are wrong in the manifest.
    pub unknown: &'a BTreeSet<String>,
}

impl KnownConfig<'_> {
    /// Returns an attribute's text, if it is known and one.
    pub fn text(&self, attribute: &str) -> Option<&str> {
        self.config.get(attribute)?.as_str()
    }

    /// Returns whether nothing is left to become known of an attribute.
    pub fn is_known(&self, attribute: &str) -> bool {
        !self.unknown.contains(attribute)
    }

    /// Keeps what is wrong with attributes that are known, of all that a validation says.
    ///
    /// It is right only where no attribute is wrong because another one is null.
    pub fn errors<T>(&self, validated: Result<T, Vec<AttributeError>>) -> Vec<AttributeError> {
        let mut errors = validated.err().unwrap_or_default();
        errors.retain(|error| self.is_known(&error.attribute));
        errors
    }
}

/// What a resource has to do with files, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Files {
    /// The absolute path that the resource keeps, and that no other may; without a slash at its
    /// end.
    pub keeps: Option<PathBuf>,
    /// The files that it reads.
    pub reads: Vec<FileRead>,
    /// Whether it may make files that are not named here, such as those that others read.
    pub may_make_any: bool,
    /// Whether it renders texts that are not in its config, such as files: what they use of the
    /// dependencies' states nobody can foresee.
    pub renders_any: bool,
}

impl Files {
    /// Returns the files of a resource that keeps and reads none.
    pub fn none() -> Self {
        Self { keeps: None, reads: Vec::new(), may_make_any: false, renders_any: false }
    }

    /// Returns the files of a resource that runs a command: it may make any, and renders none.
    pub fn of_command() -> Self {
        Self { may_make_any: true, ..Self::none() }
    }

    /// Returns the files of a resource of which nothing is known.
    pub fn any() -> Self {
        Self { renders_any: true, ..Self::of_command() }
    }
}

/// A file that a resource reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRead {
    /// The attribute that names it.
    pub attribute: &'static str,
    /// The file; a relative path begins at the folder of the manifest.
    pub path: PathBuf,
    /// Whether its text is rendered.
    pub is_template: bool,
}

/// What a kind says of a config before anything is looked at.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) errors: Vec<AttributeError>,
    pub(crate) files: Files,
}

/// What is known where there is no kind to ask.
impl Default for Judged {
    fn default() -> Self {
        Self { errors: Vec::new(), files: Files::any() }
    }
}
