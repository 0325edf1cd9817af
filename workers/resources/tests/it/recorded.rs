//! What is written of small sites, byte by byte.
//!
//! Each file in `recorded` holds the cases of one format: `=== claim`, the data, `-----`, and the text for people. With
//! `UPDATE_GOLDEN` set, the files are written anew.

use std::fmt::{Debug, Display, Write};
use std::fs;
use std::path::Path;

use crankcase_resources::Declaration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::probe::probe;
use crate::recorded::lamps::lamp;
use crate::support::{TestResult, declare, uses};

mod accounts;
mod lamps;
mod plans;

/// The cases of one format, as they are written now.
#[derive(Debug, Default)]
struct Recording(String);

impl Recording {
    /// Adds a case. Its data can be read again.
    fn add<T>(&mut self, claim: &str, data: &T, text: &dyn Display) -> TestResult
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let json = serde_json::to_string_pretty(data)?;
        assert_eq!(serde_json::from_str::<T>(&json)?, *data, "{claim}");
        Ok(writeln!(self.0, "=== {claim}\n{json}\n-----\n{text}")?)
    }

    /// Compares the cases with a file.
    fn compare(&self, file: &str) -> TestResult {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/recorded").join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &self.0)?;
        }
        assert_eq!(self.0, fs::read_to_string(&path)?, "UPDATE_GOLDEN=1 writes {file} anew");
        Ok(())
    }
}

/// Returns a probe that is left alone, and one that is only read.
fn left_and_read() -> [Declaration; 2] {
    let (mut left, mut read) = (probe("left", ""), probe("read", ""));
    left.noop = true;
    (read.noop, read.readonly) = (true, true);
    [left, read]
}

/// Returns a program, and two lamps that depend on it.
fn needs_run() -> [Declaration; 3] {
    let program = declare("program", "program", json!({}));
    [program, uses(lamp("seed"), &["program"]), uses(lamp("page"), &["seed"])]
}

/// Returns a probe with a secret attribute.
fn hidden() -> Declaration {
    let mut hidden = probe("hidden", "");
    hidden.hidden.insert("made".to_owned());
    hidden
}
