//! A bounded file of lines, and the file before it.

use std::ffi::OsString;
use std::fs::{File, rename};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::Folder;

/// How long a file may become, in bytes.
pub(super) const LONGEST: u64 = 4 * 1024 * 1024;

/// A file of lines. A file that is too long gets the extension `1`, replaces the earlier file of
/// that name, and a new file is begun.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    open: Option<(File, u64)>,
}

impl LogFile {
    /// Returns the file at `path`, which is opened or made with the first lines.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: None }
    }

    /// Appends whole lines. Blocks for the disk.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        let known = self.open.take().filter(|(file, _)| is_there(file));
        let (mut file, mut size) = known.map_or_else(|| self.open(), Ok)?;
        if size > 0 && size.saturating_add(length) > LONGEST {
            rename(&self.path, self.before())?;
            (file, size) = self.open()?;
        }
        file.write_all(lines)?;
        self.open = Some((file, size.saturating_add(length)));
        Ok(())
    }

    /// Opens the file, in a folder of the agent's own; returns how long it is.
    fn open(&self) -> io::Result<(File, u64)> {
        let (folder, name) =
            self.path.parent().zip(self.path.file_name()).ok_or(ErrorKind::NotFound)?;
        let file = Folder::make_own(folder)?.append(name)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    /// Returns the path of the file before this one.
    fn before(&self) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(".1");
        name.into()
    }
}

/// Returns whether a file still has a name.
fn is_there(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fs;

    use tempfile::TempDir;

    use super::{LONGEST, LogFile};

    #[test]
    fn a_file_that_is_too_long_makes_room_and_the_one_before_it_is_kept()
    -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let path = folder.path().join("web.log");
        let long = vec![b'x'; usize::try_from(LONGEST)? - 2];
        let mut file = LogFile::new(&path);

        file.append(&long)?;
        file.append(b"a\n")?;
        file.append(b"b\n")?;
        LogFile::new(&path).append(b"c\n")?;

        let before = fs::metadata(folder.path().join("web.log.1"))?;
        assert_eq!((fs::read(&path)?, before.len()), (b"b\nc\n".to_vec(), LONGEST));
        assert_eq!(fs::read_dir(folder.path())?.count(), 2);
        Ok(())
    }

    #[test]
    fn a_file_that_somebody_has_removed_is_made_anew() -> Result<(), Box<dyn Error>> {
        let folder = TempDir::new()?;
        let path = folder.path().join("made/web.log");
        let mut file = LogFile::new(&path);
        file.append(b"a\n")?;
        fs::remove_file(&path)?;

        file.append(b"b\n")?;

        assert_eq!(fs::read(&path)?, b"b\n");
        Ok(())
    }
}
