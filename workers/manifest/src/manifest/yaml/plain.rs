//! The values of scalars without quotes, and the message about a key that is there twice.

use std::ops::Range;

use crate::manifest::lines::Source;
use crate::manifest::node::Data;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::scalar::{self, Scalar};

/// Returns the meaning of a scalar without quotes.
pub(super) fn plain(
    source: &Source,
    text: &str,
    span: &Range<usize>,
    problems: &mut Problems,
) -> Data {
    let (message, help) = match scalar::resolve(text) {
        Scalar::Null => return Data::Null,
        Scalar::Bool(value) => return Data::Bool(value),
        Scalar::Number(value) => return Data::Number(value),
        Scalar::String => return Data::String(text.to_owned()),
        Scalar::Changed(value) => (
            format!("{} is the number {value}, which changes its text", quoted(text)),
            format!("write {value}, or quote it if it is a text: {}", quoted(text)),
        ),
        Scalar::Refused(why) => (
            format!("{} {why}", quoted(text)),
            format!("quote it if it is a text: {}", quoted(text)),
        ),
    };
    let hint = Hint::of(text).or(help).suggest(Some(&quoted(text)));
    problems.with_hint(source, span.start, message, hint);
    Data::String(text.to_owned())
}

/// Returns the number that a scalar stands for where only a number is right; none if it stands for
/// no number.
pub(super) fn number(text: &str) -> Option<Data> {
    match scalar::resolve(text) {
        Scalar::Number(value) | Scalar::Changed(value) => Some(Data::Number(value)),
        _ => None,
    }
}

/// Reports that a map has a key already.
pub(super) fn duplicate(
    source: &Source,
    (key, offset): (&str, usize),
    first: &Range<usize>,
    problems: &mut Problems,
) {
    let line = source.place(first.start).line;
    let message = format!("duplicate key {}, first on line {line}", quoted(key));
    problems.with_hint(source, offset, message, Hint::of(key));
}
