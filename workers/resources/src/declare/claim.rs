//! The things that a resource keeps, makes or needs, by a space and a name.

use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The space of files and folders. Its names are absolute paths without a slash at their end, and a
/// resource that needs one comes after the resource that makes it, or that makes the nearest folder
/// above it.
pub const PATH: &str = "path";

/// The longest path that the system takes, in bytes.
const PATH_LIMIT: usize = 4095;

/// Returns the name that a path has in the space [`PATH`]: without `.`, `..` and needless slashes.
/// None for the root folder, which is always there, for a relative path, for a path of more than
/// 4,095 bytes, and for one that is not UTF-8.
///
/// Nothing is looked at: where a folder is a symlink, `..` behind it leads elsewhere.
///
/// # Examples
///
/// ```
/// use std::path::Path;
///
/// use crankcase_resources::dynamic::path_name;
///
/// assert_eq!(path_name(Path::new("/srv//www/./a/../b/")).as_deref(), Some("/srv/www/b"));
/// assert_eq!(path_name(Path::new("/srv/../..")), None);
/// ```
pub fn path_name(path: &Path) -> Option<String> {
    if path.as_os_str().len() > PATH_LIMIT {
        return None;
    }
    let mut name = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(name.pop()),
            Component::CurDir => {}
            part => name.push(part),
        }
    }
    let is_below_root = name.is_absolute() && name.parent().is_some();
    name.into_os_string().into_string().ok().filter(|_| is_below_root)
}

/// What a resource keeps, makes or needs.
///
/// A claim is known before anything is looked at. From the claims of all resources come conflicts
/// (one thing has one keeper) and automatic edges (a resource comes after those that make what it
/// needs).
///
/// # Examples
///
/// ```
/// use crankcase_resources::Claim;
///
/// // A file with its content, which somebody owns.
/// let file = [
///     Claim::keeps("path", "/srv/www/index.html"),
///     Claim::needs("path", "/srv/www"),
///     Claim::needs("user", "www-data"),
/// ];
/// // One line of a file, which a service is told of.
/// let line = Claim::keeps("path", "/etc/ssh/sshd_config").part("line \"Port\"");
/// let service = [Claim::keeps("unit", "ssh"), Claim::needs("path", "/etc/ssh/sshd_config").told()];
/// # let _ = (file, line, service);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// What kind of thing it is: `path`, `user`, `group`, `package`, `unit`, `port`, or a word of the
    /// kind's own.
    pub space: Cow<'static, str>,
    /// Its name in the space.
    pub name: String,
    /// What the resource has to do with it.
    pub role: Role,
}

/// What a resource has to do with a thing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// It keeps the thing, or a part of it, as declared; nobody else may keep the same.
    Keeps {
        /// The part; `None` is the whole.
        part: Option<String>,
        /// Whether the thing is there afterwards, or is gone.
        is_there: bool,
    },
    /// It makes the thing, and does not keep it.
    Makes,
    /// It needs the thing to be there.
    Needs {
        /// Whether a change of the thing is a notification.
        is_told: bool,
    },
}

impl Claim {
    /// Returns the claim of a resource that keeps a thing as a whole.
    pub fn keeps(space: &'static str, name: impl Into<String>) -> Self {
        Self::new(space, name.into(), Role::Keeps { part: None, is_there: true })
    }

    /// Returns the claim of a resource that keeps a thing away.
    pub fn removes(space: &'static str, name: impl Into<String>) -> Self {
        Self::new(space, name.into(), Role::Keeps { part: None, is_there: false })
    }

    /// Returns the claim of a resource that makes a thing and does not keep it.
    pub fn makes(space: &'static str, name: impl Into<String>) -> Self {
        Self::new(space, name.into(), Role::Makes)
    }

    /// Returns the claim of a resource that needs a thing.
    pub fn needs(space: &'static str, name: impl Into<String>) -> Self {
        Self::new(space, name.into(), Role::Needs { is_told: false })
    }

    /// Returns the claim of a resource that keeps no more than this part.
    #[must_use]
    pub fn part(self, part: &str) -> Self {
        let is_there = !matches!(self.role, Role::Keeps { is_there: false, .. });
        Self { role: Role::Keeps { part: Some(part.to_owned()), is_there }, ..self }
    }

    /// Returns the claim of a resource that is notified when what it needs changes.
    #[must_use]
    pub fn told(self) -> Self {
        Self { role: Role::Needs { is_told: true }, ..self }
    }

    fn new(space: &'static str, name: String, role: Role) -> Self {
        Self { space: Cow::Borrowed(space), name, role }
    }

    /// Returns the claim of a resource that is looked at and never changed: it needs what it would keep.
    /// None if it would only make or remove the thing.
    pub(crate) fn looked_at(self) -> Option<Self> {
        match self.role {
            Role::Keeps { is_there: true, .. } => {
                Some(Self { role: Role::Needs { is_told: false }, ..self })
            }
            Role::Needs { .. } => Some(self),
            Role::Keeps { is_there: false, .. } | Role::Makes => None,
        }
    }

    /// Returns whether two resources cannot both have their claim.
    pub(crate) fn is_against(&self, other: &Self) -> bool {
        (&self.space, &self.name) == (&other.space, &other.name) && self.overlaps(other)
    }

    /// Returns whether two claims on one thing exclude each other, whatever the names of the thing: one keeps the
    /// whole, or both keep the same part.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (&self.role, &other.role) {
            (Role::Keeps { part: one, .. }, Role::Keeps { part: two, .. }) => {
                one.is_none() || two.is_none() || one == two
            }
            _ => false,
        }
    }

    /// Returns whether a resource with this claim makes sure that the thing is there.
    pub fn is_made(&self) -> bool {
        self.makes_it_be() == Some(true)
    }

    /// Returns whether a resource with this claim makes sure that the thing is there, or that it is
    /// gone; none if it does neither.
    pub(crate) fn makes_it_be(&self) -> Option<bool> {
        match self.role {
            Role::Keeps { is_there, .. } => Some(is_there),
            Role::Makes => Some(true),
            Role::Needs { .. } => None,
        }
    }
}

impl fmt::Display for Claim {
    /// Writes what it is about: the space, the name, and the part if it is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Role::Keeps { part: Some(part), .. } = &self.role {
            write!(f, "{part} of ")?;
        }
        write!(f, "{} {:?}", self.space, self.name)
    }
}
