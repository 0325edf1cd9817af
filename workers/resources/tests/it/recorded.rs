//! What is written of small sites, byte by byte.
//!
//! Each file in `recorded` holds the cases of one format: `=== claim`, the data, `-----`, and the text for people. With
//! `UPDATE_GOLDEN` set, the files are written anew.

use std::fmt::{Debug, Display, Write};
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::support::TestResult;

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
