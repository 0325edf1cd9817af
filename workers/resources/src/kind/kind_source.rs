//! Kinds that are made when a manifest names them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::kind::contract::Kind;

/// Makes kinds that nobody knows before a manifest names them, such as programs in other languages.
pub trait KindSource: fmt::Debug + Send + Sync {
    /// Returns the name of the kind that a `type` of a manifest means, if it is one of this source: the
    /// same for all that mean the same. A relative path in it begins at `folder`, that of the manifest.
    /// Pure: it looks at the text alone.
    ///
    /// # Errors
    ///
    /// When it can only be a type of this source, and is written wrongly. The error says what would
    /// be right.
    fn name(&self, kind: &str, folder: &Path) -> Result<Option<String>, String>;

    /// Makes the kinds of some resources. It may start programs, and blocks for them.
    fn make(&self, wanted: &KindRequest) -> MadeKinds;
}

/// The resources for which a source makes kinds.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct KindRequest {
    /// The resources whose types are the source's.
    pub resources: Vec<WantedKind>,
    /// What the manifest offers to them.
    pub plugs: Vec<Plug>,
}

impl KindRequest {
    /// Returns these.
    pub fn new(resources: Vec<WantedKind>, plugs: Vec<Plug>) -> Self {
        Self { resources, plugs }
    }
}

/// A resource for which a kind is made.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct WantedKind {
    /// The [name](KindSource::name) of the kind.
    pub kind: String,
    /// The name of the resource.
    pub resource: String,
    /// The folder of its manifest; absolute.
    pub folder: PathBuf,
    /// The aliases of what it depends on, each with its type. None by default.
    pub dependencies: Vec<(String, String)>,
    /// How long each call may take that is made for the resource, as [`Meta::timeout`](crate::Meta::timeout).
    /// None by default.
    pub timeout: Option<Duration>,
}

impl WantedKind {
    /// Returns a resource without dependencies and timeout.
    pub fn new(kind: &str, resource: &str, folder: PathBuf) -> Self {
        let (kind, resource) = (kind.to_owned(), resource.to_owned());
        Self { kind, resource, folder, dependencies: Vec::new(), timeout: None }
    }
}

/// A file or folder of the machine that a manifest offers to kinds of a source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plug {
    /// The name by which kinds ask for it.
    pub name: String,
    /// Where it is; absolute.
    pub path: PathBuf,
    /// Whether nobody may change it. False by default.
    pub is_read_only: bool,
    /// Regular expressions for the beginnings of names of resources that may have it.
    pub resource_names: Vec<String>,
    /// The same for their types. With neither, all may have it.
    pub resource_types: Vec<String>,
}

impl Plug {
    /// Returns a plug that all may have and change.
    pub fn new(name: &str, path: PathBuf) -> Self {
        let (resource_names, resource_types) = (Vec::new(), Vec::new());
        Self { name: name.to_owned(), path, is_read_only: false, resource_names, resource_types }
    }
}

/// The kinds that a source has made for a request.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct MadeKinds {
    /// The kinds, each once.
    pub kinds: Vec<Arc<dyn Kind>>,
    /// What is wrong.
    pub errors: Vec<(RequestError, String)>,
}

impl MadeKinds {
    /// Returns these.
    pub fn new(kinds: Vec<Arc<dyn Kind>>, errors: Vec<(RequestError, String)>) -> Self {
        Self { kinds, errors }
    }
}

/// What is at fault, by its position in the [request](KindRequest).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestError {
    /// A resource, for its type.
    Resource(usize),
    /// The machine, which lacks what the type of this resource needs: nothing is wrong with the manifest.
    Machine(usize),
    /// A plug.
    Plug(usize),
}
