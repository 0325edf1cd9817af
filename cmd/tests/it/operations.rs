//! What the page on operations shows.

use std::fs;
use std::path::Path;

use crate::world::TestResult;

#[test]
fn the_page_on_operations_shows_the_unit_word_by_word() -> TestResult {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let page = fs::read_to_string(docs.join("operations.md"))?;
    let unit = fs::read_to_string(docs.join("crankcase.service"))?;

    let (_, shown) = page.split_once("```ini\n").ok_or("the page shows no unit")?;
    let (shown, _) = shown.split_once("```").ok_or("the unit has no end")?;

    assert_eq!(shown, unit);
    Ok(())
}
