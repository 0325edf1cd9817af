//! Whether a file is a saved plan, which its first bytes say.

use std::io::Read;
use std::path::{Path, PathBuf};

use crankcase_manifest::Problem;
use crankcase_workers::open_file;

/// What stands within the first bytes of a saved plan, and of nothing else.
const MARK: &[u8] = b"\"crankcase_plan\"";

/// How many bytes those are, with some for who formats it otherwise.
const HEAD: u64 = 80;

/// A saved plan stands where a manifest is expected.
#[derive(Debug, thiserror::Error)]
#[error("{} is a saved plan, not a manifest; {}", path.display(), self.help())]
pub(crate) struct IsSavedPlan {
    pub(crate) path: PathBuf,
}

impl IsSavedPlan {
    /// Finds the first file with a problem that is a saved plan.
    pub(crate) fn among(problems: &[Problem]) -> Option<Self> {
        let mut files: Vec<_> =
            problems.iter().filter_map(|problem| problem.file.as_ref()).collect();
        // Problems are in the order of their files.
        files.dedup();
        let path = files.into_iter().find(|path| begins_as_plan(path));
        path.map(|path| Self { path: path.clone() })
    }

    /// Says what to do with it.
    pub(crate) fn help(&self) -> String {
        format!("`crankcase apply {}`, with no other file, carries it out", self.path.display())
    }
}

/// Returns whether a file is a saved plan, or a part of one.
pub(crate) fn begins_as_plan(path: &Path) -> bool {
    let head = open_file(path).ok().and_then(|(file, _)| {
        let mut head = Vec::new();
        file.take(HEAD).read_to_end(&mut head).ok().map(|_| head)
    });
    head.is_some_and(|head| {
        head.trim_ascii_start().starts_with(b"{")
            && head.windows(MARK.len()).any(|part| part == MARK)
    })
}
