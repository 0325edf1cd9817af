use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::CheckContext;
use crankcase_workers::{OpenRegularError, open_regular};
use sha2::{Digest as _, Sha256};

use crate::file::error::FileError;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// How large a template may be, in bytes.
const TEMPLATE_LIMIT: u64 = 16 * 1024 * 1024;

/// How much of a file is read at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// How much of a file is kept to show a difference line by line, in bytes.
pub(super) const KEPT: usize = 64 * 1024;

/// Where a file's content comes from.
#[derive(Debug)]
pub(super) enum ContentFrom {
    Text(String),
    Source(PathBuf),
    Template(PathBuf),
}

impl ContentFrom {
    /// Returns the file that the content is read from.
    pub(super) fn path(&self, context: &CheckContext) -> Option<PathBuf> {
        match self {
            Self::Text(_) => None,
            Self::Source(path) | Self::Template(path) => Some(context.folder.join(path)),
        }
    }

    /// Makes the content.
    pub(super) fn load(&self, context: &CheckContext) -> Result<Content, FileError> {
        match self {
            Self::Text(text) => Ok(Content::from(text.as_str())),
            Self::Source(path) => Content::at(context.folder.join(path), &context.stop),
            Self::Template(path) => {
                let path = context.folder.join(path);
                let text = read_template(&path)?;
                let aliases = context.scope.unknown_in(&text);
                if !aliases.is_empty() {
                    return Err(FileError::Unknown { aliases });
                }
                let rendered = context
                    .scope
                    .render_text(&path, &text)
                    .map_err(|source| FileError::Render { path, source })?;
                Ok(Content::from(rendered.as_str()))
            }
        }
    }
}

fn read_template(path: &Path) -> Result<String, FileError> {
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(TEMPLATE_LIMIT + 1).read_to_end(&mut bytes).map_err(FileError::io("read", path))?;
    if bytes.len() as u64 > TEMPLATE_LIMIT {
        return Err(FileError::TooLarge { path: path.to_owned(), limit: TEMPLATE_LIMIT });
    }
    let text = String::from_utf8(bytes);
    let mut text = text.map_err(|_| FileError::NotText { path: path.to_owned() })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        // It says how the template is written, and is no part of it; so it is at load.
        text.remove(0);
    }
    Ok(text)
}

/// Opens a file beside the manifest.
fn open(path: &Path) -> Result<File, FileError> {
    match open_regular(path) {
        Ok((file, _)) => Ok(file),
        Err(OpenRegularError::Other(kind)) => {
            let found = if kind.is_dir() { "a folder" } else { "something else" };
            Err(FileError::WrongType { path: path.to_owned(), found, wanted: "a file" })
        }
        Err(OpenRegularError::Refused(err)) => Err(FileError::io("read", path)(err)),
    }
}

/// Reads a file piece by piece to its end, however large it is, or until the run is to end.
fn pieces(
    mut file: File,
    (path, stop): (&Path, &Stop),
    mut each: impl FnMut(&[u8]) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut buffer = vec![0; PIECE];
    loop {
        if stop.is_stopped() {
            return Err(FileError::Stopped);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&buffer[..count])?,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(FileError::io("read", path)(err)),
        }
    }
}

/// A content that is known, and where its bytes are.
#[derive(Debug, Clone)]
pub(super) struct Content {
    pub(super) digest: Digest,
    bytes: Bytes,
}

#[derive(Debug, Clone)]
enum Bytes {
    Here(Arc<[u8]>),
    At(PathBuf),
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        let digest = Digest {
            size: text.len() as u64,
            sha256: Sha256::digest(text).into(),
            kept: (text.len() <= KEPT).then(|| text.as_bytes().into()),
        };
        Self { digest, bytes: Bytes::Here(text.as_bytes().into()) }
    }
}

impl Content {
    fn at(path: PathBuf, stop: &Stop) -> Result<Self, FileError> {
        let digest = Digest::read(open(&path)?, &path, stop)?;
        Ok(Self { digest, bytes: Bytes::At(path) })
    }

    /// Writes the bytes to `file`; an error names `path`, which the file is for.
    pub(super) fn write(&self, file: &mut File, path: &Path, stop: &Stop) -> Result<(), FileError> {
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(FileError::io("write", path));
        match &self.bytes {
            Bytes::Here(bytes) => write(bytes),
            Bytes::At(source) => pieces(open(source)?, (source, stop), write),
        }
    }
}

/// What tells one content from another.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    pub(super) size: u64,
    pub(super) sha256: [u8; 32],
    /// The bytes themselves, if they are few.
    pub(super) kept: Option<Arc<[u8]>>,
}

impl Digest {
    /// Reads a file, which errors call `path`, to its end.
    pub(super) fn read(file: File, path: &Path, stop: &Stop) -> Result<Self, FileError> {
        let (mut size, mut hasher) = (0, Sha256::new());
        let mut kept = Vec::new();
        pieces(file, (path, stop), |bytes| {
            size += bytes.len() as u64;
            hasher.update(bytes);
            if size <= KEPT as u64 {
                kept.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        let kept = (size <= KEPT as u64).then(|| kept.into());
        Ok(Self { size, sha256: hasher.finalize().into(), kept })
    }

    /// Returns whether both are of the same content.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.sha256 == other.sha256
    }

    /// Returns the digest in hexadecimal.
    pub(super) fn hex(&self) -> String {
        self.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.size == 1 { "byte" } else { "bytes" };
        write!(f, "{} {unit}, sha256 {}", self.size, &self.hex()[..12])
    }
}
