//! The text of a file, and the places in it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf, absolute};

use crankcase_resources::front::Place;
use crankcase_workers::is_unprintable;

/// How long a line may be that is shown under its message, in bytes.
const MAX_SHOWN: usize = 160;

/// The text of one file, and where its lines begin.
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    lines: Vec<usize>,
}

/// Shows the path, and not the text.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) fn new(path: PathBuf, text: String) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(offset, _)| offset + 1)).collect();
        Self { path, text, lines }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the file's name ends in an extension.
    pub(crate) fn is_named(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|named| named == extension)
    }

    /// Returns the folder that the file is in, as an absolute path.
    pub(crate) fn folder(&self) -> PathBuf {
        let path = absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        path.parent().map(Path::to_owned).unwrap_or_default()
    }

    /// Returns the place of a byte.
    pub(crate) fn place(&self, offset: usize) -> Place {
        let line = self.line_index(offset);
        let start = self.lines[line];
        let before = self.text.get(start..offset).unwrap_or_default();
        Place { file: self.path.clone(), line: line + 1, column: before.chars().count() + 1 }
    }

    /// Returns the line that a byte is on, without its end; none if it is long or unprintable.
    pub(crate) fn line_at(&self, offset: usize) -> Option<&str> {
        let line = self.line_index(offset);
        let end = self.lines.get(line + 1).copied().unwrap_or(self.text.len());
        if end - self.lines[line] > MAX_SHOWN {
            return None;
        }
        let text = self.text.get(self.lines[line]..end)?.trim_end();
        let shows = text.chars().all(|character| !is_unprintable(character) || character == '\t');
        (shows && !text.is_empty()).then_some(text)
    }

    /// Returns the byte of the file for a byte of a scalar's decoded text.
    ///
    /// Where that cannot be found (an escape, a folded line), returns the start of the scalar.
    pub(crate) fn locate(&self, scalar: &Range<usize>, decoded: &str, offset: usize) -> usize {
        let raw = self.text.get(scalar.clone()).unwrap_or_default();
        if !decoded.contains('\n')
            && let Some(start) = raw.find(decoded)
        {
            return scalar.start + start + offset;
        }
        let before = decoded.get(..offset).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = decoded[start..].lines().next().unwrap_or_default();
        match raw.find(line) {
            Some(found) if !line.is_empty() => scalar.start + found + (offset - start),
            _ => scalar.start,
        }
    }

    fn line_index(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}
