//! Every bad input has its message.
//!
//! `bad_manifests.txt` holds the cases: `=== claim`, the files (`@ name` begins another than
//! `site.yaml`), `-----` and what is said. With `UPDATE_GOLDEN` set, it is written anew.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::site::Site;

#[test]
fn every_bad_manifest_is_refused_with_its_message() -> Result<(), Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/bad_manifests.txt");
    let golden = fs::read_to_string(&path)?;

    let mut said = String::new();
    for case in golden.split("=== ").skip(1) {
        let (claim, rest) = case.split_once('\n').ok_or("a case without a claim")?;
        let (input, _) = rest.split_once("\n-----\n").ok_or("a case without an end")?;
        let site = Site::new("{}")?;
        let mut files = input.split("@ ");
        site.write("site.yaml", files.next().unwrap_or_default())?;
        for file in files {
            let (name, text) = file.split_once('\n').ok_or("a file without a text")?;
            site.write(name, text)?;
        }
        writeln!(said, "=== {claim}\n{input}\n-----\n{}\n", site.said(site.load()))?;
    }

    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &said)?;
    }
    assert_eq!(said, golden);
    assert!(!said.contains("\n-----\nvalid\n"), "a bad manifest was taken");
    Ok(())
}
