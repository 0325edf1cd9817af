//! The costs that the page for those who come from tokio takes over from the benchmarks.

use std::fs;
use std::path::Path;

use crate::TestResult;

/// A row of the page, the measure that it takes over, and how many workers that is for.
const ROWS: [(&str, &str, f64); 6] = [
    ("start 10,000 as a group", "start 10000 as a group", 10_000.0),
    ("start 10,000, each call awaited", "start 10000 one by one", 10_000.0),
    (
        "start 10,000, all asked for at once",
        "start 10000 one by one, all asked for at once",
        10_000.0,
    ),
    ("stop 100,000", "stop 100000", 100_000.0),
    ("restart one among 10,000", "restart of one among 10000", 1.0),
    (
        "bounce a chain of 1,000, for each link",
        "bounce a chain of 1000 from its root, per link",
        1.0,
    ),
];

/// Returns the cells of the row that begins with this one.
fn row<'a>(page: &'a str, first: &str) -> Result<Vec<&'a str>, String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    let mut cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    cells.find(|cells| cells[0] == first).ok_or_else(|| format!("no row {first:?}"))
}

/// Returns a duration in microseconds.
fn micros(cell: &str) -> Result<f64, Box<dyn std::error::Error>> {
    let (number, unit) = cell.split_once(' ').ok_or_else(|| format!("no unit in {cell:?}"))?;
    let factor = match unit {
        "ns" => 0.001,
        "us" => 1.0,
        "ms" => 1_000.0,
        _ => return Err(format!("another unit in {cell:?}").into()),
    };
    Ok(number.parse::<f64>()? * factor)
}

/// Returns the median of a cell that begins with it.
fn ratio(cell: &str) -> Result<f64, Box<dyn std::error::Error>> {
    Ok(cell.split_once(' ').map_or(cell, |(median, _)| median).parse()?)
}

#[test]
fn the_costs_on_the_page_are_those_of_the_last_benchmarks() -> TestResult {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("coming-from-tokio.md"))?;
    let benchmarks = fs::read_to_string(docs.join("benchmarks.md"))?;
    let figures = benchmarks.split_once("## Figures").ok_or("no figures")?.1;
    let (one, two) = figures.split_once("### On two threads").ok_or("no second table")?;
    let one = one.split_once("### On the current thread").ok_or("no first table")?.1;

    for (told, measure, workers) in ROWS {
        let told = row(&page, told)?;
        let (one, two) = (row(one, measure)?, row(two, measure)?);
        let measured = [
            micros(one[1])? / workers,
            micros(one[2])? / workers,
            ratio(one[3])?,
            micros(two[1])? / workers,
            micros(two[2])? / workers,
            ratio(two[3])?,
        ];
        for (told, measured) in told[1..].iter().zip(measured) {
            let told = told.parse::<f64>()?;
            // It is told with two digits.
            let error = (told / measured - 1.0).abs();
            assert!(error < 0.05, "{measure}: {told} is told, {measured:.3} measured");
        }
    }
    Ok(())
}
