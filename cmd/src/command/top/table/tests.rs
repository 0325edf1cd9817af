//! The order of the rows of `top`, and which row stays picked.

use std::error::Error;

use crankcase_status::wire::EngineReport;
use serde_json::{Value, json};

use super::{Row, Table, Tally};

type TestResult = Result<(), Box<dyn Error>>;

fn worker(path: &str, state: &str) -> Value {
    json!({"path": path, "state": state, "generation": 1, "starts": 1, "failures": 0,
        "is_essential": true})
}

fn engine(path: &str, workers: &[Value]) -> Value {
    let named = workers.iter().map(|worker| {
        let path = worker["path"].as_str().unwrap_or_default();
        (path.rsplit('/').next().unwrap_or_default().to_owned(), worker.clone())
    });
    let workers: serde_json::Map<_, _> = named.collect();
    json!({"path": path, "state": "running", "is_healthy": true, "at": "then", "workers": workers})
}

fn nested(path: &str, generation: u32, workers: &[Value]) -> Value {
    let mut nested = worker(path, "running");
    nested["generation"] = generation.into();
    nested["report"] = engine(path, workers);
    nested
}

fn report(workers: &[Value]) -> Result<EngineReport, serde_json::Error> {
    serde_json::from_value(engine("/agent", workers))
}

fn shown(table: &Table) -> Vec<&str> {
    table.rows(0, 100).map(|row| &*row.shown).collect()
}

#[test]
fn root_causes_come_first_then_what_waits_and_then_the_rest() -> TestResult {
    let mut again = worker("/agent/again", "starting");
    again["failures"] = 2.into();
    let mut well = worker("/agent/well", "running");
    well["failures"] = 2.into();
    let mut degraded = worker("/agent/degraded", "starting");
    degraded["degraded"] = "it is late".into();
    let mut around = nested("/agent/around", 1, &[worker("/agent/around/spent", "spent")]);
    around["degraded"] = "spent is not up".into();
    let mut table = Table::default();
    table.replace(&report(&[
        well,
        again,
        around,
        worker("/agent/a", "running"),
        worker("/agent/b", "waiting"),
        worker("/agent/c", "held_back"),
        worker("/agent/d", "starting"),
        degraded,
        worker("/agent/e", "parked"),
    ])?);

    let order = ["again", "around/spent", "degraded", "e", "around", "c", "b", "d", "a", "well"];
    assert_eq!(shown(&table), order);
    let tally = Tally { all: 10, trouble: 3, off: 1, on_their_way: 4, well: 2 };
    assert_eq!(table.tally(), tally);
    assert_eq!(table.rows(9, 1).next().map(|row| row.failures), Some(0), "they are past");
    table.turn();
    let tree = ["a", "again", "around", "around/spent", "b", "c", "d", "degraded", "e", "well"];
    assert_eq!(shown(&table), tree);
    assert_eq!(table.rows(3, 1).next().map(Row::depth), Some(1));
    Ok(())
}

#[test]
fn an_engine_stands_above_its_workers_whatever_the_names_are() -> TestResult {
    let mut table = Table::default();
    let inner = [worker("/agent/a/x", "running")];
    table.replace(&report(&[nested("/agent/a", 1, &inner), worker("/agent/a-b", "running")])?);
    table.turn();

    assert_eq!(shown(&table), ["a", "a/x", "a-b"]);
    Ok(())
}

#[test]
fn a_part_of_a_report_changes_only_what_is_in_it() -> TestResult {
    let mut table = Table::default();
    let (x, y) = (worker("/agent/in/x", "running"), worker("/agent/in/y", "running"));
    let whole = [nested("/agent/in", 1, &[x.clone(), y]), worker("/agent/out", "running")];
    table.replace(&report(&whole)?);

    let part = nested("/agent/in", 1, &[worker("/agent/in/x", "waiting")]);
    table.merge(&report(&[part])?, &["/agent/out".to_owned()]);
    assert_eq!(shown(&table), ["in/x", "in", "in/y"]);

    // Another generation of an engine has none of the workers before.
    table.merge(&report(&[nested("/agent/in", 2, &[x])])?, &[]);
    assert_eq!(shown(&table), ["in", "in/x"]);
    table.merge(&report(&[worker("/agent/in", "parked")])?, &[]);
    assert_eq!(shown(&table), ["in"]);
    Ok(())
}

#[test]
fn a_picked_row_stays_picked_when_others_come_and_go() -> TestResult {
    let names = |names: &[&str]| {
        let workers = names.iter().map(|name| worker(&format!("/agent/{name}"), "running"));
        report(&workers.collect::<Vec<_>>())
    };
    let picked = |table: &Table| table.picked().map(|row| row.shown.clone());
    let mut table = Table::default();
    table.step(1);
    assert_eq!(picked(&table), None);

    table.replace(&names(&["b", "c", "d"])?);
    table.replace(&names(&["a", "b", "c", "d"])?);
    assert_eq!(picked(&table).as_deref(), Some("a"));
    table.step(2);
    table.replace(&names(&["c", "d", "e"])?);
    assert_eq!(picked(&table).as_deref(), Some("c"));
    table.step(isize::MAX);
    assert_eq!(picked(&table).as_deref(), Some("e"));
    table.replace(&names(&["c", "d"])?);
    assert_eq!(picked(&table).as_deref(), Some("d"));
    table.step(isize::MIN);
    table.replace(&names(&["a", "c"])?);
    assert_eq!(picked(&table).as_deref(), Some("a"));
    Ok(())
}
