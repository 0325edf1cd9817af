//! From bytes to a typed value, with the place of what is wrong.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use serde_saphyr::UserMessageFormatter;

use super::{ConfigFileConfig, ConfigFileError, ConfigFormat};

/// How much of an offending value is shown, in characters.
const MAX_FOUND: usize = 60;

/// What is wrong, and where: line and column, from 1.
struct Flaw {
    line: u64,
    column: u64,
    message: String,
}

/// Reads and parses the file. Blocks.
pub(super) fn read<T: DeserializeOwned>(config: &ConfigFileConfig) -> Result<T, ConfigFileError> {
    let path = &config.path;
    let bytes = bytes(path, config.max_bytes)?;
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(text) => match config.format_in_use() {
            Some(ConfigFormat::Json) => from_json(text),
            Some(ConfigFormat::Toml) => from_toml(text),
            Some(ConfigFormat::Yaml) | None => from_yaml(text),
        },
        Err(err) => Err(at(&bytes, err.valid_up_to(), "not UTF-8".to_owned())),
    };
    parsed.map_err(|Flaw { line, column, message }| {
        let path = path.clone();
        ConfigFileError::Syntax { path, line, column, message }
    })
}

fn bytes(path: &Path, max_bytes: u64) -> Result<Vec<u8>, ConfigFileError> {
    let failed = |source| ConfigFileError::Read { path: path.to_owned(), source };
    // A pipe without a writer would hold up the opening for ever.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(ConfigFileError::NotAFile { path: path.to_owned() });
    }
    let mut bytes = Vec::new();
    let length = file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(length).is_ok_and(|length| length <= max_bytes) {
        return Ok(bytes);
    }
    Err(ConfigFileError::TooLarge { path: path.to_owned(), max_bytes })
}

fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, Flaw> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|err| {
        let place = err.location();
        let (line, column) = place.map_or((1, 1), |place| (place.line(), place.column()));
        let text_of_err = err.render_with_formatter(&UserMessageFormatter);
        let place = format!(" at line {line}, column {column}");
        let mut message = text_of_err.trim_end_matches(&place).to_owned();
        // The parser says which type was expected, but not what it found.
        if message.starts_with("invalid ")
            && let Some(found) = found(text, line, column)
        {
            message = format!("{message}: found {found:?}");
        }
        Flaw { line, column, message }
    })
}

/// Returns what stands at a place, to the end of its line; not more than a name's length of it.
fn found(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text.lines().nth(usize::try_from(line.checked_sub(1)?).ok()?)?;
    let found = line.chars().skip(usize::try_from(column.checked_sub(1)?).ok()?);
    let found: String = found.take(MAX_FOUND).collect();
    Some(found.trim_end().to_owned()).filter(|found| !found.is_empty())
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Flaw> {
    serde_json::from_str(text).map_err(|err| {
        let place = format!(" at line {} column {}", err.line(), err.column());
        let message = err.to_string().trim_end_matches(&place).to_owned();
        Flaw { line: to_place(err.line()), column: to_place(err.column()), message }
    })
}

fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, Flaw> {
    toml::from_str(text).map_err(|err| {
        let offset = err.span().map_or(0, |span| span.start);
        at(text.as_bytes(), offset, err.message().replace('\n', ", "))
    })
}

/// Returns what is wrong at an offset into a file.
fn at(bytes: &[u8], offset: usize, message: String) -> Flaw {
    let before = &bytes[..offset.min(bytes.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&before[line_start..]).chars().count() + 1;
    Flaw { line: to_place(line), column: to_place(column), message }
}

/// Returns a line or a column, from 1; the end of a JSON text has the column 0.
fn to_place(number: usize) -> u64 {
    u64::try_from(number.max(1)).unwrap_or(u64::MAX)
}
