//! A store after a process was killed, a disk was full, or a file was damaged.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crankcase_facts::{Facts, Sqlite, StoreError, conformance};
use crankcase_workers::Folder;
use serde_json::json;

use crate::support::{TestResult, World, open, pointer};

/// The environment variable with the path that the test below writes to. Without it the test does nothing.
const WRITE_TO: &str = "CRANKCASE_TEST_WRITES_FACTS";

/// The number of acknowledged updates after which the test below ends.
const UPDATES: u64 = 10_000;

#[test]
fn the_conformance_suite_passes() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("facts.db");
    conformance::check(&|| Ok(Box::new(Sqlite::open(&path)?)))
}

/// Writes updates until it is killed, and prints which are acknowledged.
#[test]
fn writes_until_it_is_killed() -> TestResult {
    let Some(path) = std::env::var_os(WRITE_TO) else { return Ok(()) };
    let facts = open(Path::new(&path))?;
    let world = World { folder: tempfile::tempdir()?, facts };
    loop {
        let next = world.facts.current().version() + 1;
        // Two facts with the same value: after a torn update they would differ.
        world.update(json!({"version": next, "create_parents": true,
                            "ops": [["SET", "/one", next], ["SET", &format!("/other/{}", next % 50), next], ["SET", "/two", next]]}))?;
        println!("acknowledged {next}");
    }
}

#[test]
fn kill_9_loses_no_update_that_was_acknowledged_and_tears_none() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("facts.db");
    let (mut acknowledged, mut kills) = (0, 0);
    while acknowledged < UPDATES {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--exact", "crashes::writes_until_it_is_killed", "--nocapture"])
            .env(WRITE_TO, &path)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let until = acknowledged + 150 + kills * 37 % 400;
        let (mut last, mut line) = (acknowledged, String::new());
        while last < until && lines.read_line(&mut line)? > 0 {
            if let Some(next) = line.trim().strip_prefix("acknowledged ") {
                last = next.parse()?;
            }
            line.clear();
        }
        assert!(last >= until, "it ended by itself");
        child.kill()?;
        child.wait()?;
        // Updates that were acknowledged before the end count too.
        let mut rest = String::new();
        lines.read_to_string(&mut rest)?;
        let mut rest =
            rest.lines().filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        acknowledged = rest.next_back().unwrap_or(last);
        kills += 1;

        let facts = open(&path)?;
        let (current, log) = (facts.current(), facts.log(None, 2)?);
        assert!(current.version() >= acknowledged, "{acknowledged} is lost");
        let values =
            ["/one", "/two"].map(|path| current.at(&pointer(path)).map(|it| it.to_value()));
        assert_eq!(values, [const { Some(()) }; 2].map(|it| it.map(|()| json!(current.version()))));
        assert_eq!((log[0].version, log[0].revision), (current.version(), current.revision()));
    }
    assert!(kills > 10, "{kills} kills");
    Ok(())
}

#[test]
fn a_file_that_is_damaged_is_named_and_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("facts.db");
    let world = World { facts: open(&path)?, folder };
    world.load(1, json!({"hosts": (0..500).map(|at| (format!("h{at}"), json!(at))).collect::<serde_json::Map<_, _>>()}))?;
    world.ops(json!([["SET", "/marker", "a value that is looked for"]]))?;
    let World { facts, folder } = world;
    drop(facts);
    let good = fs::read(&path)?;

    let text = b"looked for";
    let places = good.windows(text.len()).enumerate().filter(|(_, part)| part == text);
    let mut flipped = good.clone();
    places.for_each(|(at, _)| flipped[at] ^= 1);
    assert_ne!(flipped, good);
    let mut zeroed = good.clone();
    zeroed[4096..8192].fill(0);
    for bad in [
        flipped,
        zeroed,
        b"this is no database, but a text".repeat(9),
        good[..good.len() / 2].to_vec(),
    ] {
        fs::write(&path, &bad)?;
        let opened = Sqlite::open(&path).and_then(|store| Facts::open(Box::new(store)));
        let Err(error @ StoreError::Damaged { .. }) = opened else {
            return Err(format!("{opened:?} of {} bytes", bad.len()).into());
        };
        assert!(
            error
                .to_string()
                .starts_with(&format!("the facts in {} are damaged: ", path.display()))
        );
        assert_eq!(fs::read(&path)?, bad, "it was overwritten");
    }
    drop(folder);
    Ok(())
}

#[test]
fn only_its_owner_reads_the_file() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    for entry in fs::read_dir(world.folder.path())? {
        assert_eq!(entry?.metadata()?.permissions().mode() & 0o777, 0o600);
    }
    Ok(())
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = Sqlite::open(Path::new("/nowhere/facts.db"))
        .map_or_else(|it| it.to_string(), |it| format!("{it:?}"));
    assert_eq!(error, "cannot make or find /nowhere/facts.db");
}

#[test]
fn a_store_stays_in_a_folder_that_is_held_when_another_one_gets_its_path() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let held = Folder::make(&path)?.hold_path()?;
    let world = World { facts: open(&path.join("facts.db"))?, folder: outer };
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;

    world.load(1, json!({"a": 1}))?;

    assert_eq!(open(&path.join("facts.db"))?.current().version(), 1);
    assert_eq!(fs::read_dir(&path)?.count(), 0);
    drop(held);
    assert_eq!(open(&moved.join("facts.db"))?.current().version(), 1);
    Ok(())
}

#[test]
fn a_file_of_something_else_is_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("facts.db");
    let others = rusqlite::Connection::open(&path)?;
    others.execute_batch("CREATE TABLE mine (id INTEGER)")?;
    drop(others);
    let before = fs::read(&path)?;

    for opened in [Sqlite::open(&path).map(Some), Sqlite::find(&path)] {
        assert!(matches!(opened, Err(StoreError::Damaged { .. })), "{opened:?}");
    }

    assert_eq!(fs::read(&path)?, before);
    Ok(())
}

#[test]
fn a_file_of_a_later_program_is_left_as_it_is() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let World { facts, folder } = world;
    drop(facts);
    let path = folder.path().join("facts.db");
    let connection = rusqlite::Connection::open(&path)?;
    connection.execute_batch("PRAGMA user_version = 99; PRAGMA journal_mode = DELETE")?;
    drop(connection);
    let before = fs::read(&path)?;

    let opened = Sqlite::open(&path);

    assert!(matches!(opened, Err(StoreError::Format { format: 99, .. })), "{opened:?}");
    assert_eq!(fs::read(&path)?, before);
    Ok(())
}

#[test]
fn what_is_at_the_bounds_is_read_again_and_what_is_beyond_is_refused() -> TestResult {
    let slashes = "/".repeat(1024);
    let deep = |path: usize, data: usize| {
        let value = (0..data).fold(json!(1), |value, _| json!({"d": value}));
        json!({"version": 100, "create_parents": true, "ops": [["SET", "/d".repeat(path), value]]})
    };
    let world = World::with(json!({slashes.clone(): 1, "z": 0.0}))?;
    world.update(deep(40, 24))?;
    let reopened = || open(&world.folder.path().join("facts.db"));
    assert_eq!(reopened()?.current().facts(), world.facts.current().facts());

    for (path, data) in [(40, 25), (64, 1), (1, 64)] {
        let mut update = deep(path, data);
        update["version"] = json!(200);
        assert!(crate::support::refused(world.update(update)).contains("deeper than 64 levels"));
    }
    assert!(
        crate::support::refused(world.load(300, json!({format!("{slashes}/"): 1})))
            .contains("1,024")
    );
    assert!(crate::support::refused(world.load(300, json!({"l": [{"": 1}]}))).contains("1,024"));
    world.update(json!({"version": 300, "ops": [["SET", "/z", -0.0], ["SET", "/l", [-0.0]]]}))?;
    world.update(json!({"version": 301, "ops": [["SET", "/z", 1]]}))?;
    assert_eq!(reopened()?.current().digest(), world.facts.current().digest());
    Ok(())
}

#[test]
fn copies_of_copies_end() -> TestResult {
    let world = World::with(json!({"a": {"x": 1}}))?;
    let copies = (0..40).map(|at| json!({"op": "copy", "from": "/a", "path": format!("/a/b{at}")}));
    let copies: Vec<_> = copies.collect();

    let error = crate::support::refused(world.update(json!({"version": 2, "patch": copies})));

    assert!(error.contains("copies at most 1000000 values"), "{error}");
    Ok(())
}

#[test]
fn of_two_that_write_at_a_time_neither_loses_anything() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("facts.db");
    open(&path)?;
    let write = |who: usize| {
        let path = path.clone();
        std::thread::spawn(move || -> Result<u64, String> {
            let facts = open(&path).map_err(|error| error.to_string())?;
            let world =
                World { facts, folder: tempfile::tempdir().map_err(|error| error.to_string())? };
            let mut refused = 0;
            for round in 0..200 {
                let op = json!([["SET", format!("/w{who}"), round]]);
                // The version is stale if the other writer has taken it meanwhile.
                while world.ops(op.clone()).is_err() {
                    refused += 1;
                    world.facts.refresh().map_err(|error| error.to_string())?;
                }
            }
            Ok(refused)
        })
    };
    let writers = [write(0), write(1)];
    for writer in writers {
        writer.join().map_err(|_| "a writer has panicked")??;
    }

    let current = open(&path)?.current();
    assert_eq!(
        (current.version(), current.facts().to_value()),
        (400, json!({"w0": 199, "w1": 199}))
    );
    Ok(())
}

#[test]
fn what_another_process_has_changed_is_known_before_anything_is_refused() -> TestResult {
    let world = World::with(json!({"a": 1}))?;
    let other =
        World { facts: open(&world.folder.path().join("facts.db"))?, folder: tempfile::tempdir()? };
    world.ops(json!([["SET", "/b", {}]]))?;

    other.update(json!({"version": 9, "base_version": 2, "ops": [["SET", "/b/c", 1]]}))?;

    assert_eq!(other.value(), json!({"a": 1, "b": {"c": 1}}));
    Ok(())
}
