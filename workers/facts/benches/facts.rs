//! The cost of facts: each figure beside that of the same work without facts, in one run.
//!
//! usage: cargo bench -p crankcase-facts

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crankcase_facts::{
    Backend, Change, Commit, Document, Entry, Facts, Load, Pointer, Schema, Sqlite, StoreError,
    Stored, Submission, Tree, Update,
};
use peak_alloc::PeakAlloc;
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

type BenchResult<T = ()> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 15;

/// The environment variable with the side that a child process measures, and its two values.
const SIDE: &str = "CRANKCASE_BENCH_BULK";
const HERE: &str = "here";
const BARE: &str = "bare";

fn main() -> BenchResult {
    if let Ok(side) = std::env::var(SIDE) {
        return bulk_in_child(&side);
    }
    println!("| work | here | against | ratio, of at most |");
    println!("| --- | --- | --- | --- |");
    load()?;
    bulk()?;
    list()?;
    update("change one of 10,000 facts, durably", json!({}))?;
    let host = |at| (format!("h{at}"), json!({"facts": {"ntp": at}}));
    let layers = json!({"layers": {"host": map(20, host)}});
    update("the same with layers of 20 hosts", layers)?;
    watchers()?;
    memory()
}

/// Prints a row with the median of each side.
fn row(work: &str, mut here: Vec<Duration>, against: &str, mut bare: Vec<Duration>, most: f64) {
    here.sort();
    bare.sort();
    let (here, bare) = (here[here.len() / 2], bare[bare.len() / 2]);
    let ratio = here.as_secs_f64() / bare.as_secs_f64();
    println!("| {work} | {here:.1?} | {against}: {bare:.1?} | {ratio:.2}, of {most} |");
}

fn time<T>(work: impl FnOnce() -> BenchResult<T>) -> BenchResult<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

fn map(count: usize, member: impl Fn(usize) -> (String, Value)) -> Value {
    (0..count).map(member).collect::<Map<_, _>>().into()
}

/// Returns facts of ten servers, of about 10,000 lines as YAML.
fn servers() -> Value {
    let device = |server: usize, at: usize| {
        let wwn = format!("wwn-0x5000c500{:08x}", server * 1000 + at);
        (
            wwn.clone(),
            json!({"path": format!("/dev/{wwn}"), "serial": format!("Z{at}"), "size": 1_000_000 + at, "bsize": 4096}),
        )
    };
    let server = |at: usize| {
        (
            format!("h{at}.example.com"),
            json!({"mem": 65536, "devices": map(200, |it| device(at, it))}),
        )
    };
    json!({"servers": map(10, server)})
}

fn schema() -> BenchResult<Schema> {
    let device = json!({"type": "object", "additionalProperties": false, "required": ["path", "size"], "properties": {
        "path": {"type": "string", "pattern": "^/dev/"}, "serial": {"type": "string"},
        "size": {"type": "integer", "minimum": 1}, "bsize": {"type": "integer"}}});
    let devices = json!({"type": "object", "propertyNames": {"format": "wwn"}, "additionalProperties": device});
    let server = json!({"type": "object", "additionalProperties": false,
                        "properties": {"mem": {"type": "integer"}, "devices": devices}});
    let servers = json!({"type": "object", "propertyNames": {"format": "fqdn"}, "additionalProperties": server});
    Ok(Schema::read("bench", servers)?)
}

fn opened(path: &Path) -> BenchResult<Facts> {
    let facts = Facts::open(Box::new(Sqlite::open(path)?))?;
    let register = Change::Register("/servers".parse()?, Some(schema()?));
    facts.submit(&Submission::new(register, "bench"), SystemTime::UNIX_EPOCH)?;
    Ok(facts)
}

/// Opens a file as the store opens its own, with a table of paths.
fn bare(path: &Path) -> BenchResult<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         CREATE TABLE fact (path TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;",
    )?;
    Ok(connection)
}

/// Loads a document of 10,000 lines.
fn load() -> BenchResult {
    let text = serde_saphyr::to_string(&json!({"version": 1, "facts": servers()}))?;
    let lines = text.lines().count();
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir()?;
        let facts = opened(&folder.path().join("facts.db"))?;
        here.push(time(|| {
            let document: Value = serde_saphyr::from_str(&text)?;
            let load = Change::Load(Load::read(&document, false)?);
            Ok(facts.submit(&Submission::new(load, "bench"), SystemTime::UNIX_EPOCH)?)
        })?);
        let mut connection = bare(&folder.path().join("bare.db"))?;
        against.push(time(|| {
            let document: Value = serde_saphyr::from_str(&text)?;
            commit_all(&mut connection, &document["facts"])
        })?);
    }
    row(&format!("load {lines} lines of YAML, validated"), here, "parse, one commit", against, 3.0);
    Ok(())
}

/// Returns a document with 100,000 facts.
fn many() -> Value {
    let fact = |at| (format!("fact{at:06}"), json!(format!("value {at}")));
    json!({"version": 1, "facts": {"many": map(100_000, fact)}})
}

/// Loads a document of 100,000 facts, and measures the peak of a process that does only that.
fn bulk() -> BenchResult {
    let document = many();
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        here.push(bulk_here(&document)?);
        against.push(bulk_bare(&document)?);
    }
    row("load 100,000 facts", here, "one commit of as many rows", against, 4.0);
    let peak = |side: &str| -> BenchResult<f64> {
        let child = Command::new(std::env::current_exe()?).env(SIDE, side).output()?;
        Ok(String::from_utf8(child.stdout)?.trim().parse()?)
    };
    let (here, bare) = (peak(HERE)?, peak(BARE)?);
    let ratio = here / bare;
    println!(
        "| the same, memory at the peak | {here:.0} MiB | one commit of as many rows: {bare:.0} MiB | {ratio:.2}, of 4 |"
    );
    Ok(())
}

fn bulk_in_child(side: &str) -> BenchResult {
    let document = many();
    if side == HERE {
        bulk_here(&document)?
    } else {
        bulk_bare(&document)?
    };
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).ok_or("no peak")?;
    println!("{}", peak.parse::<f64>()? / 1024.0);
    Ok(())
}

fn bulk_here(document: &Value) -> BenchResult<Duration> {
    let folder = tempfile::tempdir()?;
    let facts = Facts::open(Box::new(Sqlite::open(&folder.path().join("facts.db"))?))?;
    time(|| {
        let load = Change::Load(Load::read(document, false)?);
        Ok(facts.submit(&Submission::new(load, "bench"), SystemTime::UNIX_EPOCH)?)
    })
}

fn bulk_bare(document: &Value) -> BenchResult<Duration> {
    let folder = tempfile::tempdir()?;
    let mut connection = bare(&folder.path().join("bare.db"))?;
    time(|| commit_all(&mut connection, &document["facts"]))
}

/// Inserts a row for each fact, in one commit.
fn commit_all(connection: &mut Connection, facts: &Value) -> BenchResult {
    let transaction = connection.transaction()?;
    let mut insert = transaction.prepare("INSERT INTO fact VALUES (?1, ?2)")?;
    insert_all(&mut insert, &Pointer::root(), facts)?;
    drop(insert);
    Ok(transaction.commit()?)
}

/// Puts 60,000 items at the front of a list, one by one in one update.
fn list() -> BenchResult {
    let folder = tempfile::tempdir()?;
    let facts = Facts::open(Box::new(Sqlite::open(&folder.path().join("facts.db"))?))?;
    let mut version = 0;
    let mut submit = |ops: Value| {
        version += 1;
        let document = json!({"version": version, "ops": ops});
        let update = Change::Update(Update::read(&document)?);
        time(|| Ok(facts.submit(&Submission::new(update, "bench"), SystemTime::UNIX_EPOCH)?))
    };
    let inserts: Vec<_> = (0..60_000).map(|at| json!(["INSERT", "/list/0", at])).collect();
    let whole = json!([["SET", "/list", (0..60_000).rev().collect::<Vec<_>>()]]);
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        submit(json!([["SET", "/list", []]]))?;
        here.push(submit(json!(inserts))?);
        submit(json!([["SET", "/list", []]]))?;
        against.push(submit(whole.clone())?);
    }
    row("60,000 items to the front of a list, one by one", here, "the list at once", against, 5.0);
    // Item 59,999 - N of the list has the value N.
    let tested = (0..30_000).flat_map(|at| {
        let test = json!(["TEST", format!("/list/{at}"), 59_999 - at]);
        [test, json!(["INSERT", "/list/-", at])]
    });
    let tested: Vec<_> = tested.collect();
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        against.push(submit(whole.clone())?);
        here.push(submit(json!(tested))?);
        submit(json!([["SET", "/list", []]]))?;
    }
    row("30,000 items to its end, each after a test", here, "the list at once", against, 5.0);
    Ok(())
}

fn insert_all(insert: &mut rusqlite::Statement<'_>, path: &Pointer, value: &Value) -> BenchResult {
    match value {
        Value::Object(map) => {
            map.iter().try_for_each(|(name, value)| insert_all(insert, &path.join(name), value))
        }
        value => {
            insert.execute([path.to_string(), value.to_string()]).map(drop).map_err(Into::into)
        }
    }
}

/// Changes one of 10,000 facts, on disk, beside these others.
fn update(work: &str, others: Value) -> BenchResult {
    let folder = tempfile::tempdir()?;
    let facts = opened(&folder.path().join("facts.db"))?;
    let (Value::Object(mut all), Value::Object(others)) = (servers(), others) else {
        return Err("facts are maps".into());
    };
    all.extend(others);
    let load = Load::read(&json!({"version": 1, "facts": all}), false)?;
    facts.submit(&Submission::new(Change::Load(load), "bench"), SystemTime::UNIX_EPOCH)?;
    let connection = bare(&folder.path().join("bare.db"))?;
    connection.execute("INSERT INTO fact VALUES ('/servers/h1.example.com/mem', '1')", [])?;
    let mut put = connection.prepare("UPDATE fact SET value = ?1")?;
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS * 20 {
        let path = "/servers/h1.example.com/mem";
        let document = json!({"version": round + 2, "ops": [["SET", path, round]]});
        here.push(time(|| {
            let update = Change::Update(Update::read(&document)?);
            Ok(facts.submit(&Submission::new(update, "bench"), SystemTime::UNIX_EPOCH)?)
        })?);
        against.push(time(|| Ok(put.execute([round.to_string()])?))?);
    }
    row(work, here, "commit of one row", against, 1.5);
    Ok(())
}

/// A store that keeps nothing, so that only what is done in memory is measured.
#[derive(Debug)]
struct Nowhere;

impl Backend for Nowhere {
    fn load(&mut self) -> Result<Stored, StoreError> {
        Ok(Stored::default())
    }

    fn revision(&mut self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn commit(&mut self, _commit: &Commit) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn log(&mut self, _before: u64, _most: usize) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    fn document(&mut self) -> Result<Option<Document>, StoreError> {
        Ok(None)
    }
}

/// Wakes one of a thousand who wait for a fact each.
#[tokio::main(flavor = "current_thread")]
async fn watchers() -> BenchResult {
    let facts = Facts::open(Box::new(Nowhere))?;
    let load = Load::read(
        &json!({"version": 1, "facts": {"many": map(1000, |at| (format!("f{at}"), json!(at)))}}),
        false,
    )?;
    facts.submit(&Submission::new(Change::Load(load), "bench"), SystemTime::UNIX_EPOCH)?;
    let paths =
        (0..1000).map(|at| format!("/many/f{at}").parse()).collect::<Result<Vec<Pointer>, _>>()?;
    let watches: BTreeMap<_, _> =
        paths.iter().map(|path| (path.clone(), facts.watch(path))).collect();
    let bare = watch::Sender::new(Some(facts.current()));
    let (mut here, mut against) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS * 100 {
        let document = json!({"version": round + 2, "ops": [["SET", "/many/f500", round + 1000]]});
        let update = Submission::new(Change::Update(Update::read(&document)?), "bench");
        let mut watcher = watches[&paths[500]].clone();
        let mut woken = JoinSet::new();
        woken.spawn(async move { watcher.changed().await });
        tokio::task::yield_now().await;
        let began = Instant::now();
        facts.submit(&update, SystemTime::UNIX_EPOCH)?;
        woken.join_next().await.ok_or("nobody waits")???;
        here.push(began.elapsed());
        let mut receiver = bare.subscribe();
        let mut woken = JoinSet::new();
        woken.spawn(async move { receiver.changed().await });
        tokio::task::yield_now().await;
        let began = Instant::now();
        bare.send_replace(Some(facts.current()));
        woken.join_next().await.ok_or("nobody waits")???;
        against.push(began.elapsed());
    }
    let others = watches
        .iter()
        .filter(|(path, it)| **path != paths[500] && it.has_changed().unwrap_or(true));
    assert_eq!(others.count(), 0, "others were woken");
    row("wake one of 1,000 watchers, its update included", here, "a bare channel", against, 3.0);
    Ok(())
}

/// Holds a million facts.
fn memory() -> BenchResult {
    let before = ALLOCATOR.current_usage();
    let many = map(1000, |host| {
        (
            format!("h{host:03}"),
            map(250, |at| {
                (
                    format!("d{at:03}"),
                    json!({"path": format!("/dev/d{at}"), "size": at, "used": true, "serial": format!("Z{at:05}")}),
                )
            }),
        )
    });
    let tree = Tree::from_value(many).map_err(|(_, why)| why)?;
    let mebibytes = (ALLOCATOR.current_usage() - before) / (1024 * 1024);
    println!(
        "| 1,000,000 facts in memory | {mebibytes} MiB | 400 MiB | {:.2}, of 1 |",
        mebibytes as f64 / 400.0
    );
    drop(tree);
    Ok(())
}
