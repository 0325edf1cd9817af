use crankcase_resources::{Difference, printable};
use serde_json::Value;
use similar::TextDiff;

use crate::file::content::{Digest, in_bytes};
use crate::file::observe::{Observable, Observed};

/// How many lines each side may have to be compared line by line.
const LINE_LIMIT: usize = 2_000;

/// Returns the content that a new file gets.
pub(super) fn created(new: &Digest) -> Difference {
    difference(Value::Null, Some(""), new)
}

/// Returns the change of a content: line by line if both are short texts, else by digest alone, or
/// by size where that says enough.
pub(super) fn changed(old: &Observed, new: &Digest) -> Difference {
    match &old.content {
        Observable::Read(old) => difference(old.to_string().into(), text(old), new),
        Observable::Unread => difference(in_bytes(old.found.size).into(), None, new),
        Observable::Denied(_) => difference("cannot be read".into(), None, new),
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
    diff.lines().map(|line| printable(line) + "\n").collect()
}
