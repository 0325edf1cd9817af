//! The content that a file is to have: where it comes from, and how it is read and compared.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::dynamic::{Foreseen, path_name};
use crankcase_resources::front::RenderedText;
use crankcase_resources::{Context, PATH};
use crankcase_workers::{FileError, open_file, read_file};
use sha2::{Digest as _, Sha256};

use crate::file::error::EntryError;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// How large a template may be, in bytes.
pub(super) const TEMPLATE_LIMIT: u64 = 16 * 1024 * 1024;

/// How much of a file is read at a time, in bytes.
const PIECE: usize = 64 * 1024;

/// How much of a file is kept to show a difference line by line, in bytes.
pub(super) const KEPT: u64 = 64 * 1024;

/// Where a file's content comes from.
#[derive(Debug)]
pub(super) enum ContentFrom {
    Text(Arc<str>),
    Source(PathBuf),
    Template(PathBuf),
}

/// Whether an empty source or template is taken as content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    /// A content as any other.
    Allowed,
    /// A file that somebody is just writing.
    Refused,
}

impl Empty {
    /// Refuses a file that is empty and may not be.
    pub(super) fn judge(self, path: &Path, size: u64) -> Result<(), EntryError> {
        if self == Self::Refused && size == 0 {
            return Err(EntryError::Empty { path: path.to_owned() });
        }
        Ok(())
    }
}

impl ContentFrom {
    /// Returns the file that the content is read from.
    pub(super) fn path(&self, context: &Context) -> Option<PathBuf> {
        match self {
            Self::Text(_) => None,
            Self::Source(path) | Self::Template(path) => Some(context.folder().join(path)),
        }
    }

    /// Makes the content.
    pub(super) fn load(self, empty: Empty, context: &Context) -> Result<Content, EntryError> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Source(path) => {
                let path = context.folder().join(path);
                require_made(&path, context)?;
                require_unmade(&path, context)?;
                Content::at(path, empty, context.stop())
            }
            Self::Template(path) => {
                let path = context.folder().join(path);
                require_made(&path, context)?;
                let text = match context.scope().kept_text(&path) {
                    Some(kept) => kept.to_owned(),
                    None => read_template(&path)?,
                };
                empty.judge(&path, text.len() as u64)?;
                let rendered = context.scope().render_text(&path, &text);
                let rendered =
                    rendered.map_err(|source| EntryError::Render { path: path.clone(), source })?;
                match rendered {
                    RenderedText::Known(text) => {
                        require_unmade(&path, context)?;
                        Ok(Arc::<str>::from(text).into())
                    }
                    RenderedText::Unknown(aliases) => Err(EntryError::Unknown { aliases }),
                }
            }
        }
    }
}

/// Refuses what a resource before this one is still to write.
fn require_made(path: &Path, context: &Context) -> Result<(), EntryError> {
    match foreseen(path, context) {
        Some(_) => Err(EntryError::MadeBefore { path: path.to_owned() }),
        None => Ok(()),
    }
}

/// Refuses what a resource before this one may write, which does not say what it writes.
fn require_unmade(path: &Path, context: &Context) -> Result<(), EntryError> {
    match context.follows_makers() {
        true => Err(EntryError::MayBeMadeBefore { path: path.to_owned() }),
        false => Ok(()),
    }
}

/// Returns what will be here, if a resource before this one changes that.
pub(super) fn foreseen(path: &Path, context: &Context) -> Option<Foreseen> {
    context.foresees(PATH, &path_name(path)?)
}

fn read_template(path: &Path) -> Result<String, EntryError> {
    let bytes = read_file(path, TEMPLATE_LIMIT).map_err(|error| match error {
        FileError::TooLarge { path, limit } => EntryError::LargeTemplate { path, limit },
        other => other.into(),
    })?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| EntryError::NotText { path: path.to_owned() })?;
    Ok(without_byte_order_mark(&text).to_owned())
}

/// Returns a template without the mark that says how it is written, and is no part of it. At load it is
/// left out as well.
pub(super) fn without_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads a file piece by piece to its end, however large it is, or until the run is to end.
fn pieces(
    mut file: impl Read,
    (path, stop): (&Path, &Stop),
    mut each: impl FnMut(&[u8]) -> Result<(), EntryError>,
) -> Result<(), EntryError> {
    let mut buffer = vec![0; PIECE];
    loop {
        if stop.is_stopped() {
            return Err(EntryError::Stopped);
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&buffer[..count])?,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(EntryError::io("read", path)(err)),
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

impl From<Arc<str>> for Content {
    fn from(text: Arc<str>) -> Self {
        let bytes = Arc::<[u8]>::from(text);
        let digest = Digest {
            size: bytes.len() as u64,
            sha256: Sha256::digest(&bytes).into(),
            kept: (bytes.len() as u64 <= KEPT).then(|| Arc::clone(&bytes)),
        };
        Self { digest, bytes: Bytes::Here(bytes) }
    }
}

impl Content {
    fn at(path: PathBuf, empty: Empty, stop: &Stop) -> Result<Self, EntryError> {
        let (file, _) = open_file(&path)?;
        let digest = Digest::new(file, (&path, stop))?;
        empty.judge(&path, digest.size)?;
        Ok(Self { digest, bytes: Bytes::At(path) })
    }

    /// Writes the bytes to `file`; an error names `path`, which the file is for.
    pub(super) fn write(
        &self,
        file: &mut impl Write,
        path: &Path,
        stop: &Stop,
    ) -> Result<(), EntryError> {
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(EntryError::io("write", path));
        let source = match &self.bytes {
            Bytes::Here(bytes) => return write(bytes),
            Bytes::At(source) => source,
        };
        let mut hasher = Sha256::new();
        pieces(open_file(source)?.0, (source, stop), |bytes| {
            hasher.update(bytes);
            write(bytes)
        })?;
        // The plan has shown another content, and a person may have approved that one.
        if <[u8; 32]>::from(hasher.finalize()) != self.digest.sha256 {
            return Err(EntryError::Moved { path: source.clone() });
        }
        Ok(())
    }
}

/// The identity of a content.
#[derive(Debug, Clone)]
pub(super) struct Digest {
    pub(super) size: u64,
    pub(super) sha256: [u8; 32],
    /// The bytes themselves, if they are few.
    pub(super) kept: Option<Arc<[u8]>>,
}

impl Digest {
    /// Reads a file, which errors call `path`, to its end; `None` if that is beyond `limit` bytes.
    pub(super) fn read(
        file: File,
        limit: u64,
        (path, stop): (&Path, &Stop),
    ) -> Result<Option<Self>, EntryError> {
        let digest = Self::new(file.take(limit.saturating_add(1)), (path, stop))?;
        Ok((digest.size <= limit).then_some(digest))
    }

    fn new(file: impl Read, (path, stop): (&Path, &Stop)) -> Result<Self, EntryError> {
        let (mut size, mut hasher) = (0, Sha256::new());
        let mut kept = Vec::new();
        pieces(file, (path, stop), |bytes| {
            size += bytes.len() as u64;
            hasher.update(bytes);
            if size <= KEPT {
                kept.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        let kept = (size <= KEPT).then(|| kept.into());
        Ok(Self { size, sha256: hasher.finalize().into(), kept })
    }

    /// Returns whether both are of the same content.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.size == other.size && self.sha256 == other.sha256
    }

    /// Returns the digest in hexadecimal.
    pub(super) fn hex(&self) -> String {
        base16ct::lower::encode_string(&self.sha256)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, sha256 {}", in_bytes(self.size), &self.hex()[..12])
    }
}

/// Says a size.
pub(super) fn in_bytes(size: u64) -> String {
    format!("{size} {}", if size == 1 { "byte" } else { "bytes" })
}
