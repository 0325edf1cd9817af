//! Data on stdout. Colours are for terminals only, and not if `NO_COLOR` is set.

mod filter;
pub(crate) mod lines;
mod marked;
mod out;
mod problems;
mod report;
pub(crate) mod summary;
mod text;

use std::borrow::Cow;
use std::io::{self, Write};

use anyhow::Context;
use serde::Serialize;

pub(crate) use crankcase_workers::one_line;
use crankcase_workers::{printable_json, printable_lines, printable_yaml};
pub(crate) use filter::Filter;
pub(crate) use marked::marked;
pub(crate) use out::{Out, is_stderr_terminal, is_stdout_terminal, to_stderr};
pub(crate) use problems::Checked;
pub(crate) use report::{Reported, counts, engine, report, report_all};
pub(crate) use summary::tally_of;
pub(crate) use text::{first_line, first_of, indented, short};

use crate::global::Format;

/// The version of all data that is printed. It is another one when something that was there is gone, or
/// means something else.
const FORMAT: u32 = 1;

/// Data with the version of its format.
#[derive(Debug, Serialize)]
struct Versioned<'a, T> {
    format: u32,
    #[serde(flatten)]
    value: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    fn new(value: &'a T) -> Self {
        Self { format: FORMAT, value }
    }
}

/// Prints a value as a document of its own. JSON is written while it is made, so it may be larger than the memory.
pub(crate) fn data<T: Serialize>(
    format: Format,
    value: &T,
    human: impl FnOnce(&T, &mut Out<'_>) -> io::Result<()>,
) -> anyhow::Result<()> {
    let versioned = Versioned::new(value);
    unless_read_enough(match format {
        Format::Human | Format::Svg => print(|out| human(value, out)),
        Format::Json => print(|out| out.json(&versioned)),
        Format::Yaml => {
            let yaml = yaml(&versioned)?;
            print(|out| out.write_all(yaml.as_bytes()))
        }
    })
}

/// Prints a text, such as a picture.
pub(crate) fn text(text: String) -> anyhow::Result<()> {
    unless_read_enough(print(move |out| out.write_all(text.as_bytes())))
}

/// A reader that closes the pipe has read enough: the exit code is that of the work.
fn unless_read_enough(printed: anyhow::Result<()>) -> anyhow::Result<()> {
    match printed {
        Err(error) if is_broken_pipe(&error) => Ok(()),
        printed => printed,
    }
}

/// Prints one value of many, in a line where the format allows that.
pub(crate) fn line<T: Serialize>(
    format: Format,
    value: &T,
    human: impl FnOnce(&T, &mut Out<'_>) -> io::Result<()>,
) -> anyhow::Result<()> {
    if let Format::Human | Format::Svg = format {
        return print(|out| human(value, out));
    }
    let written = written(format, &Versioned::new(value))?;
    print(|out| out.write_all(written.as_bytes()))
}

/// Prints the last one of many values as data.
pub(crate) fn last_line<T: Serialize>(format: Format, value: &T) -> anyhow::Result<()> {
    unless_read_enough(line(format, value, |_, _| Ok(())))
}

/// Writes one value of many.
fn written<T: Serialize>(format: Format, value: &Versioned<'_, T>) -> anyhow::Result<String> {
    Ok(match format {
        Format::Yaml => format!("---\n{}", yaml(value)?),
        _ => printable_json(&serde_json::to_string(value)?).into_owned() + "\n",
    })
}

/// Writes YAML. A value with something unprintable is written as JSON, which is YAML too and can escape it.
fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    let yaml = serde_saphyr::to_string(value)?;
    match printable_lines(&yaml) {
        Cow::Borrowed(_) => Ok(yaml),
        Cow::Owned(_) => {
            Ok(printable_yaml(&serde_json::to_string_pretty(value)?).into_owned() + "\n")
        }
    }
}

fn print(write: impl FnOnce(&mut Out<'_>) -> io::Result<()>) -> anyhow::Result<()> {
    out::to_stdout(write).context("cannot write to stdout")
}

/// Returns whether the reader of the output has had enough.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
