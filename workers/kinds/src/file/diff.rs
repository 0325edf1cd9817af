//! How a change of a content is shown, and who may see it line by line.

use crankcase_resources::dynamic::printable;
use crankcase_resources::{Context, Difference};
use serde_json::Value;
use similar::TextDiff;

use crate::file::config::File;
use crate::file::content::{Digest, in_bytes};
use crate::file::observe::{Observable, Observed};

/// How many lines each side may have to be compared line by line.
const LINE_LIMIT: usize = 2_000;

/// Whether changes of the content of a file are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown {
    /// The decision for all modes; none leaves it to the modes of the file.
    declared: Option<bool>,
}

/// The bit of a mode that lets everybody read a file.
const FOR_OTHERS: u32 = 0o004;

impl Shown {
    pub(super) fn new(file: &File, context: &Context) -> Self {
        Self { declared: file.is_shown(context) }
    }

    fn in_all(self, modes: &[u32]) -> bool {
        let is_for_others = modes.iter().all(|mode| mode & FOR_OTHERS != 0);
        self.declared.unwrap_or(is_for_others)
    }

    /// Returns the content that a new file with a mode gets.
    pub(super) fn created(self, new: &Digest, mode: u32) -> Difference {
        difference(Value::Null, Some("").filter(|_| self.in_all(&[mode])), new)
    }

    /// Returns how the content of a file changes. `mode` is the mode of the file after the change. The change is shown
    /// line by line if both contents are short texts that everybody may read, else by digest, or by size where the old
    /// content was not read.
    pub(super) fn changed(self, old: &Observed, new: &Digest, mode: u32) -> Difference {
        let is_shown = self.in_all(&[old.found.mode, mode]);
        match &old.content {
            Observable::Read(old) => {
                difference(old.to_string().into(), text(old).filter(|_| is_shown), new)
            }
            Observable::Unread => difference(in_bytes(old.found.size).into(), None, new),
            Observable::Denied(_) => difference("cannot be read".into(), None, new),
        }
    }
}

fn difference(old_value: Value, old_text: Option<&str>, new: &Digest) -> Difference {
    let difference = Difference::new("content", old_value, new.to_string().into());
    match (old_text, text(new)) {
        (Some(old), Some(new)) => difference.with_text(unified(old, new)),
        _ => difference,
    }
}

fn text(digest: &Digest) -> Option<&str> {
    let text = std::str::from_utf8(digest.kept.as_deref()?).ok()?;
    (!text.contains('\0') && text.lines().count() <= LINE_LIMIT).then_some(text)
}

fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new).unified_diff().context_radius(3).to_string();
    // A line may differ by a return at its end alone.
    diff.split_terminator('\n').map(|line| printable(line) + "\n").collect()
}
