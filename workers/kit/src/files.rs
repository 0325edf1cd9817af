//! Safe work with files, in folders where other users may be at work too.
//!
//! A [`Folder`] is opened once, by a walk that does not follow a symlink of somebody else, and all
//! that is done in it goes from the open folder to a name in it: what was judged is what is changed.
//! A file is written under a temporary name and then put in its place, so it is the old or the new
//! one at every instant.
//!
//! All of it blocks: call it on the blocking pool.

mod entry;
mod error;
mod folder;
mod held;
mod kind;
mod overwrite;
mod owner;
mod path;
mod read;
mod temporary;
mod walk;

pub use entry::{Entry, Found};
pub use error::FileError;
pub use folder::{Entries, Folder, forget_file};
pub use held::HeldFolder;
pub use kind::EntryKind;
pub use overwrite::{OVERWRITE_LIMIT, Overwrite, finish_overwrites};
pub use owner::{group_id, group_name, user_id, user_name};
pub use path::{EntryPath, NotAnEntry};
pub use read::{open_file, read_file};
pub use temporary::{Temporary, is_temporary, replace_file, temporary_name};
