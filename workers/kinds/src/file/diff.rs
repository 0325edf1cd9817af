use crankcase_resources::{Difference, printable};
use similar::TextDiff;

use crate::file::content::Digest;

/// How long a diff may be, in bytes; the rest is counted.
const DIFF_LIMIT: usize = 16 * 1024;

/// How many lines each side may have to be compared line by line.
const LINE_LIMIT: usize = 2_000;

/// Returns the change of a content: line by line if both are short texts, else by digest alone.
pub(super) fn content(old: Option<&Digest>, new: &Digest) -> Difference {
    let old_value = old.map(ToString::to_string).into();
    let difference = Difference::new("content", old_value, new.to_string().into());
    let old_text = match old {
        Some(old) => text(old),
        None => Some(""),
    };
    match (old_text, text(new)) {
        (Some(old), Some(new)) => difference.with_text(unified(old, new)),
        _ => difference,
    }
}

/// Returns the change of a content that may not be read.
pub(super) fn unreadable(new: &Digest) -> Difference {
    Difference::new("content", "cannot be read".into(), new.to_string().into())
}

fn text(digest: &Digest) -> Option<&str> {
    let text = std::str::from_utf8(digest.kept.as_deref()?).ok()?;
    (!text.contains('\0') && text.lines().count() <= LINE_LIMIT).then_some(text)
}

fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new).unified_diff().context_radius(3).to_string();
    let mut lines = diff.lines();
    let mut text = String::new();
    for line in lines.by_ref() {
        let line = printable(line);
        if text.len() + line.len() > DIFF_LIMIT {
            text += &format!("... {} more lines\n", lines.count() + 1);
            break;
        }
        text += &line;
        text.push('\n');
    }
    text
}
