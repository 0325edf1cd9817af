//! The cost of records: each figure beside that of a bare file with the same bytes, in one run.
//!
//! usage: cargo bench -p crankcase-state

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crankcase_resources::state::{Notification, Record, Records};
use crankcase_state::SqliteStore;
use tokio::runtime::Builder;
use tokio::time::Instant;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 15;

/// How many records a round writes.
const RECORDS: usize = 480;

/// Records that are written in one way.
struct Row {
    work: &'static str,
    /// How many records are waited for together.
    batch: usize,
    /// How many of them are pushed together.
    push: usize,
    /// How many times as long as the bare file it may take.
    most: f64,
}

const ROWS: [Row; 3] = [
    Row { work: "480 records, one by one", batch: 1, push: 1, most: 2.0 },
    Row { work: "480 records, 16 a step", batch: 16, push: 16, most: 2.0 },
    // The first one is written alone, and the others share a sync.
    Row { work: "480 records, 16 visits at a time", batch: 16, push: 1, most: 3.0 },
];

fn main() -> BenchResult {
    println!("| work | here | against | ratio, of at most |");
    println!("| --- | --- | --- | --- |");
    let folder = tempfile::tempdir()?;
    let records = Records::open(Arc::new(SqliteStore::open(folder.path())?))?;
    let mut bare = File::create(folder.path().join("bare"))?;
    for row in ROWS {
        // Once to warm up.
        here(&records, &row)?;
        let (mut with_store, mut without) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            with_store.push(here(&records, &row)?);
            without.push(against(&mut bare, &row)?);
        }
        print(&row, with_store, without);
    }
    Ok(())
}

/// Prints a row with the median of each side.
fn print(Row { work, most, .. }: &Row, mut here: Vec<Duration>, mut bare: Vec<Duration>) {
    here.sort();
    bare.sort();
    let (here, bare) = (here[here.len() / 2], bare[bare.len() / 2]);
    let ratio = here.as_secs_f64() / bare.as_secs_f64();
    let against = "the same bytes, appended and synced";
    println!("| {work} | {here:.1?} | {against}: {bare:.1?} | {ratio:.2}, of {most} |");
}

fn target(number: usize) -> String {
    format!("server{number}")
}

/// Puts the records of a row on disk.
fn here(records: &Records, row: &Row) -> BenchResult<Duration> {
    let runtime = Builder::new_multi_thread().worker_threads(1).build()?;
    runtime.block_on(async {
        let began = Instant::now();
        for batch in numbers().chunks(row.batch) {
            let mut positions = Vec::new();
            for push in batch.chunks(row.push) {
                let notify = |at: &usize| Notification::new(target(*at), "page");
                positions.push(records.push(push.iter().map(notify).map(Record::Pending)));
            }
            for position in positions {
                records.flush(position).await?;
            }
        }
        Ok(began.elapsed())
    })
}

/// Appends a line for each record of a row to a file, and syncs the file after each batch.
fn against(file: &mut File, row: &Row) -> BenchResult<Duration> {
    let began = Instant::now();
    for batch in numbers().chunks(row.batch) {
        let line = |at: &usize| format!("{{\"owed\":\"{}\",\"by\":\"page\"}}\n", target(*at));
        file.write_all(batch.iter().map(line).collect::<String>().as_bytes())?;
        file.sync_data()?;
    }
    Ok(began.elapsed())
}

fn numbers() -> Vec<usize> {
    (0..RECORDS).collect()
}
