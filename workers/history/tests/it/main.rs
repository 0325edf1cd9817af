//! Tests of the public API, on real files.

#[path = "../../../facts/tests/it/mount.rs"]
mod mount;
mod needs_root;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crankcase_history::{Event, History, HistoryError, Query, Recorder};
use crankcase_workers::Folder;
use rusqlite::Connection;

use crate::support::TestResult;

/// Returns the time that is so many seconds after the year 2027 has begun.
fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_798_761_600 + seconds)
}

fn event(event: &str, resource: &str) -> Event {
    Event {
        event: event.to_owned(),
        resource: resource.to_owned(),
        kind: "file".to_owned(),
        differences: "mode: \"0600\" -> \"0644\"".to_owned(),
        actions: vec!["adjust".to_owned(), "write".to_owned()],
        why: "its watch has told of a change".to_owned(),
        took_ms: 3,
        ..Event::default()
    }
}

/// Records a run of an hour with an event for each of these resources.
fn record(path: &Path, hour: u64, resources: &[&str]) -> TestResult {
    let began = at(hour * 3600);
    let recorder = Recorder::begin(path, ("run", "site.yaml"), began)?;
    for resource in resources {
        recorder.note(event("repaired", resource), began + Duration::from_secs(60));
    }
    recorder.end("done", began + Duration::from_secs(3599));
    Ok(())
}

fn opened(path: &Path) -> TestResult<History> {
    Ok(History::open(path)?.ok_or("nothing is on record")?)
}

#[test]
fn what_was_noted_is_read_as_it_was() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    record(&path, 0, &["page"])?;
    let failing = Recorder::begin(&path, ("apply", "other.yaml"), at(4000))?;
    let failed = Event { error: Some("no luck".to_owned()), ..event("failed", "page") };
    failing.note(failed.clone(), at(4001));
    failing.end("failed", at(4002));

    let history = opened(&path)?;
    let (runs, events) = (history.runs(&Query::default())?, history.events(&Query::default())?);

    let shown: Vec<_> =
        runs.iter().map(|run| (run.run, run.mode.as_str(), run.site.as_str())).collect();
    assert_eq!(shown, [(1, "run", "site.yaml"), (2, "apply", "other.yaml")]);
    assert_eq!(
        (runs[0].began.as_str(), runs[0].counts["repaired"]),
        ("2027-01-01T00:00:00.000Z", 1)
    );
    assert_eq!(runs[1].ended.as_deref(), Some("2027-01-01T01:06:42.000Z"));
    assert_eq!(runs[1].outcome.as_deref(), Some("failed"));
    assert_eq!(events[0].event, event("repaired", "page"));
    assert_eq!((events[1].run, &events[1].event), (2, &failed));
    assert_eq!(events[1].at, "2027-01-01T01:06:41.000Z");
    Ok(())
}

#[test]
fn only_what_was_asked_for_is_read() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    for hour in 0..3 {
        record(&path, hour, &["a", "b"])?;
    }
    let history = opened(&path)?;
    let of = |query: Query| -> TestResult<Vec<(i64, String)>> {
        let events = history.events(&query)?.into_iter();
        Ok(events.map(|it| (it.run, it.event.resource)).collect())
    };
    let one = |run, resource: &str| (run, resource.to_owned());

    let of_run = of(Query { run: Some(2), ..Query::default() })?;
    let of_resource = of(Query { resource: Some("b".to_owned()), ..Query::default() })?;
    let since = of(Query { since: Some(at(7200)), ..Query::default() })?;
    let last = of(Query { last: Some(3), ..Query::default() })?;
    let runs = history.runs(&Query { since: Some(at(7200)), ..Query::default() })?;

    assert_eq!(of_run, [one(2, "a"), one(2, "b")]);
    assert_eq!(of_resource, [one(1, "b"), one(2, "b"), one(3, "b")]);
    assert_eq!(since, [one(3, "a"), one(3, "b")]);
    assert_eq!(last, [one(2, "b"), one(3, "a"), one(3, "b")]);
    assert_eq!(runs.iter().map(|run| run.run).collect::<Vec<_>>(), [3]);
    Ok(())
}

#[test]
fn a_run_that_has_not_ended_is_read_while_it_is_written() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    let recorder = Recorder::begin(&path, ("run", "site.yaml"), at(0))?;

    let runs = opened(&path)?.runs(&Query::default())?;

    assert_eq!((runs[0].ended.as_deref(), runs[0].outcome.as_deref()), (None, None));
    recorder.end("done", at(1));
    assert!(opened(&path)?.runs(&Query::default())?[0].ended.is_some());
    Ok(())
}

#[test]
fn many_events_are_all_written_and_the_oldest_are_forgotten() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    let names: Vec<String> = (0..50_000).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for hour in 0..6 {
        record(&path, hour, &names)?;
    }

    let runs = opened(&path)?.runs(&Query::default())?;

    let counts: Vec<_> = runs.iter().map(|run| run.counts.get("repaired").copied()).collect();
    let (some, all) = (counts.iter().flatten().sum::<u64>(), Some(50_000));
    assert_eq!((counts[0], counts[1], counts[3], counts[5]), (None, None, all, all));
    assert!((200_000..=211_000).contains(&some), "{counts:?}");
    Ok(())
}

#[test]
fn details_keep_to_their_bytes_and_the_oldest_are_forgotten() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    let large = |name: &str| Event {
        details: Some("x".repeat(30 * 1024 * 1024).into()),
        ..event("repaired", name)
    };
    for hour in 0..10 {
        let recorder = Recorder::begin(&path, ("run", "site.yaml"), at(hour))?;
        recorder.note(large(&hour.to_string()), at(hour));
        recorder.end("done", at(hour));
    }

    let with_details = |name: String| -> TestResult<bool> {
        let query = Query { resource: Some(name), ..Query::default() };
        Ok(opened(&path)?.events(&query)?[0].event.details.is_some())
    };

    let kept = (0..10).map(|hour| with_details(hour.to_string())).collect::<TestResult<Vec<_>>>();
    // 256 MiB have room for 8 of 30 MiB.
    assert_eq!(kept?, [&[false; 2][..], &[true; 8]].concat());
    Ok(())
}

#[test]
fn only_its_owner_reads_it_and_nothing_is_made_to_read() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");

    assert!(History::open(&path)?.is_none());
    assert_eq!(fs::read_dir(folder.path())?.count(), 0);
    let recorder = Recorder::begin(&path, ("run", "site.yaml"), at(0))?;
    for entry in fs::read_dir(folder.path())? {
        assert_eq!(entry?.metadata()?.permissions().mode() & 0o777, 0o600);
    }
    recorder.end("done", at(1));
    Ok(())
}

#[test]
fn what_is_no_history_is_refused_and_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    let text = "this is no database, and has more bytes than the head of one has. ".repeat(20);
    fs::write(&path, &text)?;

    let written = Recorder::begin(&path, ("run", "site.yaml"), at(0));
    let read = History::open(&path);

    assert!(written.is_err() && read.is_err());
    assert_eq!(fs::read_to_string(&path)?, text);
    Ok(())
}

#[test]
fn a_database_of_something_else_is_refused_and_left_as_it_is() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("history.db");
    Connection::open(&path)?.execute_batch("CREATE TABLE other (id INTEGER)")?;
    let before = fs::read(&path)?;

    let written = Recorder::begin(&path, ("run", "site.yaml"), at(0)).err();
    let read = History::open(&path).err();

    for error in [written, read] {
        assert!(matches!(error, Some(HistoryError::Foreign { .. })), "{error:?}");
    }
    assert_eq!(fs::read(&path)?, before);
    Ok(())
}

#[test]
fn a_history_stays_in_a_folder_that_is_held_when_another_one_gets_its_path() -> TestResult {
    let outer = tempfile::tempdir()?;
    let (path, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let held = Folder::make(&path)?.hold_path()?;
    fs::rename(&path, &moved)?;
    fs::create_dir(&path)?;

    record(&path.join("history.db"), 0, &["page"])?;

    assert_eq!(fs::read_dir(&path)?.count(), 0);
    drop(held);
    assert_eq!(opened(&moved.join("history.db"))?.events(&Query::default())?.len(), 1);
    Ok(())
}
