//! The examples of the course, run as processes. Every crate that has a part of it has this module.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo builds examples beside the tests, but tells no path.
fn built(example: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).ok_or("no target folder")?;
    let built = folder.join("examples").join(example.file_stem().ok_or("no name")?);
    if built.exists() { Ok(built) } else { Err(format!("{built:?} is not built").into()) }
}

#[test]
fn each_example_prints_what_stands_beside_it() -> Result<(), Box<dyn std::error::Error>> {
    let (mut ran, mut wrong) = (0, Vec::new());
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))? {
        let expected = entry?.path();
        if expected.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }

        let output = Command::new(built(&expected)?).output()?;

        ran += 1;
        let printed = String::from_utf8(output.stdout)?;
        if printed != fs::read_to_string(&expected)? || !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("not {expected:?}: {}\n{printed}\n{errors}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 0, "no example has its output beside it");
    Ok(())
}
