//! Processes that write records and are killed at random instants.
//!
//! `CRANKCASE_KILLS` is the number of kills, and `CRANKCASE_SEED` gives them other instants:
//! `CRANKCASE_KILLS=100000 cargo nextest run --profile long -p crankcase-state -E 'test(kills)'`.

use std::env::{var, var_os};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crankcase_resources::state::{Position, Records, Topic};
use crankcase_state::SqliteStore;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::old;
use crate::support::{Content, STATE, TestResult, child, kept, stored};

/// How often a process is killed, unless `CRANKCASE_KILLS` asks for another number.
const KILLS: u64 = 200;

/// How many tasks write at the same time.
const TASKS: usize = 4;

/// How many resources the records of steps are about, in turn.
const RESOURCES: u64 = 50;

/// The longest wait before a kill: a child needs some of it to start.
const LONGEST: Duration = Duration::from_millis(8);

/// Every so many steps have a document that needs many pages.
const LARGE: u64 = 7;

/// The records of a step. The first and the last document are the same, and torn if they differ.
fn push(records: &Records, step: u64) -> TestResult<Position> {
    let filling = "x".repeat(if step.is_multiple_of(LARGE) { 100_000 } else { 0 });
    let text = format!("[{step},\"{filling}\"]");
    Ok(records.push([
        stored(Topic::Rule, "first", &text)?,
        kept(&format!("page{}", step % RESOURCES), &step.to_string()),
        stored(Topic::Rule, "last", &text)?,
    ]))
}

/// Returns the step with which the content of a store agrees, and fails if none does.
fn last_step(content: &Content) -> TestResult<u64> {
    let texts = ["rule first", "rule last"].map(|name| content.documents.get(name));
    let [Some(first), Some(last)] = texts else {
        assert_eq!(*content, Content::default(), "a half of the first step is there");
        return Ok(0);
    };
    assert_eq!(first, last, "a half of a step is there");
    let (step, _): (u64, String) = serde_json::from_str(first)?;
    for before in (1..=step).rev().take(usize::try_from(RESOURCES)?) {
        let resource = format!("page{}", before % RESOURCES);
        assert_eq!(content.kept[&resource], before.to_string(), "step {before} before {step}");
    }
    Ok(step)
}

fn number(variable: &str) -> Option<u64> {
    var(variable).ok()?.parse().ok()
}

/// Waits for a part of the longest wait, without giving the processor to anybody else.
fn spin(random: &mut StdRng) {
    let until = Instant::now() + LONGEST.mul_f64(random.random());
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_until_it_is_killed() -> TestResult {
    let Some(state) = var_os(STATE) else { return Ok(()) };
    let store = Arc::new(SqliteStore::open(Path::new(&state))?);
    let last = last_step(&Content::of(&*store)?)?;
    let (records, last) = (Records::open(store)?, Arc::new(Mutex::new(last)));
    let mut tasks: JoinSet<Result<(), String>> = JoinSet::new();
    for _ in 0..TASKS {
        let (records, last) = (records.clone(), Arc::clone(&last));
        tasks.spawn(async move {
            loop {
                let (step, position) = {
                    let mut last = last.lock();
                    *last += 1;
                    (*last, push(&records, *last).map_err(|error| error.to_string())?)
                };
                records.flush(position).await.map_err(|error| error.to_string())?;
                println!("flushed {step}");
            }
        });
    }
    Ok(tasks.join_next().await.ok_or("no task")???)
}

#[test]
fn kill_9_loses_no_record_that_was_flushed_and_tears_no_step() -> TestResult {
    let folder = tempfile::tempdir()?;
    let seed = number("CRANKCASE_SEED").unwrap_or(35);
    let mut random = StdRng::seed_from_u64(seed);
    let (mut flushed, mut has_written) = (0, 0);
    for kill in 1..=number("CRANKCASE_KILLS").unwrap_or(KILLS) {
        let mut child = child("kills::writes_until_it_is_killed", folder.path())?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let before = flushed;
        // Some are killed while they open the store.
        if random.random_ratio(9, 10) {
            let until = flushed + random.random_range(1..40);
            let mut line = String::new();
            while flushed < until && lines.read_line(&mut line)? > 0 {
                flushed = flushed.max(step_of(&line).unwrap_or_default());
                line.clear();
            }
            assert!(flushed >= until, "kill {kill} of seed {seed}: it ended by itself");
        }
        spin(&mut random);
        child.kill()?;
        child.wait()?;
        let mut rest = String::new();
        lines.read_to_string(&mut rest)?;
        flushed = rest.lines().filter_map(step_of).fold(flushed, u64::max);
        has_written += u64::from(flushed > before);

        let store = SqliteStore::open(folder.path())?;
        let last = last_step(&Content::of(&store)?)?;
        assert!(last >= flushed, "kill {kill} of seed {seed}: {flushed} is lost, {last} is there");
        // A child goes on with what is there.
        flushed = last;
    }
    assert!(has_written > 0, "nothing was written");
    Ok(())
}

fn step_of(line: &str) -> Option<u64> {
    line.trim().strip_prefix("flushed ")?.parse().ok()
}

#[test]
fn takes_over_until_it_is_killed() -> TestResult {
    let Some(state) = var_os(STATE) else { return Ok(()) };
    old::require_left(&SqliteStore::open(Path::new(&state))?)
}

#[test]
fn kill_9_loses_nothing_that_is_taken_over() -> TestResult {
    let seed = number("CRANKCASE_SEED").unwrap_or(35);
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..number("CRANKCASE_KILLS").unwrap_or(KILLS) / 10 {
        let folder = tempfile::tempdir()?;
        old::leave(folder.path())?;
        let mut child = child("kills::takes_over_until_it_is_killed", folder.path())?;

        spin(&mut random);
        child.kill()?;
        child.wait()?;

        old::require_left(&SqliteStore::open(folder.path())?)?;
    }
    Ok(())
}
