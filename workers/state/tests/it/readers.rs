//! Readers in other processes, beside an agent.

use std::env::var_os;
use std::path::Path;

use crankcase_resources::state::Store;
use crankcase_state::{SqliteStore, reading};

use crate::support::{Content, STATE, TestResult, child, kept};

/// What stands before the thing that a child has found.
const FOUND: &str = "found: ";

#[test]
fn reads_in_a_child() -> TestResult {
    let Some(state) = var_os(STATE) else { return Ok(()) };
    let content = Content::of(&*reading(Path::new(&state))?)?;
    println!("{FOUND}{}", content.kept["page"]);
    Ok(())
}

/// Returns the thing of the page that another process finds.
fn found_elsewhere(state: &Path) -> TestResult<String> {
    let output = child("readers::reads_in_a_child", state)?.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let found = text.lines().find_map(|line| line.split_once(FOUND));
    let (_, thing) = found.ok_or_else(|| format!("it has found nothing: {text}"))?;
    Ok(thing.to_owned())
}

#[test]
fn a_reader_in_another_process_takes_no_record_from_the_agent() -> TestResult {
    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path())?;

    // The first reader must not take the log away, which the second record is in.
    for thing in ["first", "second"] {
        store.write(&[kept("page", thing)])?;
        assert_eq!(found_elsewhere(folder.path())?, thing);
    }
    drop(store);

    assert_eq!(Content::of(&SqliteStore::open(folder.path())?)?.kept["page"], "second");
    Ok(())
}
