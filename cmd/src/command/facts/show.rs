//! Shows facts to people.

use std::io::{self, Write};

use crankcase_facts::wire::Difference;
use serde_json::Value;

use crate::print;

/// Writes a value as YAML. Writes a text without quotes.
pub(super) fn value(value: &Value, out: &mut print::Out<'_>) -> io::Result<()> {
    match value {
        Value::String(text) => {
            text.split('\n').try_for_each(|line| writeln!(out, "{}", print::one_line(line)))
        }
        value => {
            let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
            text.lines().try_for_each(|line| writeln!(out, "{}", print::one_line(line)))
        }
    }
}

/// Writes one line for each difference.
pub(super) fn differences(differences: &[Difference], out: &mut print::Out<'_>) -> io::Result<()> {
    differences.iter().try_for_each(|Difference { path, before, after, .. }| {
        let path = print::one_line(path);
        match (before, after) {
            (None, Some(after)) => writeln!(out, "  + {path}: {}", print::short(after)),
            (Some(before), None) => writeln!(out, "  - {path}: {}", print::short(before)),
            (before, after) => {
                let [before, after] =
                    [before, after].map(|it| it.as_ref().map_or_else(String::new, print::short));
                writeln!(out, "  ~ {path}: {before} -> {after}")
            }
        }
    })
}
