//! An agent that keeps many files.

use std::fs;
use std::time::Duration;

use crate::bare;
use crate::files::Files;
use crate::process::{MIB, agent, run};
use crate::rounds::{ROUNDS, time};
use crate::running::{Running, pause, until_settled};
use crate::table::{Bound, Table};

/// For how long an agent is watched that has nothing to do.
const IDLE: Duration = Duration::from_secs(10);

/// Which part of a processor it may use meanwhile.
const LOAD: f64 = 0.001;

/// How long a report of 10,000 files may take, in seconds.
const REPORT: f64 = 0.05;

/// How much memory an agent that keeps 10,000 files may have at rest.
const MEMORY: f64 = 100.0 * MIB;

/// How much memory it may have after all of them were repaired, against before.
const DRIFT: f64 = 1.5;

/// How many times as long as a check it may take until one changed declaration among 10,000 is kept.
const CHANGED: f64 = 1.5;

/// How many times as long it may take after the quiet time, if the agent notices the change itself.
const NOTICED: f64 = 3.0;

/// The quiet time of the agent in seconds, as `run --quiet-time` has it by default.
const QUIET: f64 = 0.5;

/// How often a file is looked at that is to follow its declaration.
const LOOK: Duration = Duration::from_millis(1);

/// Why the agent loads a changed manifest.
#[derive(Clone, Copy, PartialEq)]
enum Load {
    /// It gets a signal.
    Asked,
    /// It has noticed the change. The quiet time does not count.
    Noticed,
}

pub(crate) fn measure(table: &Table, count: usize) {
    let name = format!("run --until-settled of {count} files, until it says so");
    if table.wants(&name) {
        let files = Files::make(count);
        let turn = |_| {
            let bare = run(bare::command("look", files.root(), count)).wall;
            (bare, until_settled(files.root()))
        };
        let rounds: Vec<(f64, f64)> = (0..=ROUNDS).map(turn).skip(1).collect();
        table.running(&name, Bound::None, &rounds);
    }
    let name = format!("report of {count} files, against one of none");
    if table.wants(&name) {
        report(table, &name, count);
    }
    let name = format!("run of {count} files at rest");
    if table.wants(&name) {
        rest(table, &name, count);
    }
    let name = format!("run of {count} files that were not there");
    if table.wants(&name) {
        fresh(table, &name, count);
    }
    let name = format!("one of {count} declarations, until it is kept, against a check of all");
    if table.wants(&name) {
        changed(table, &name, count, Load::Asked);
    }
    let name = format!("one of {count} declarations, noticed and kept, against a check of all");
    if table.wants(&name) {
        changed(table, &name, count, Load::Noticed);
    }
}

/// Measures a report of all files; what is compared is a report of the agent without any.
fn report(table: &Table, name: &str, count: usize) {
    let (none, files) = (Files::make(0), Files::make(count));
    let (_none, _agent) = (Running::start(none.root()), Running::start(files.root()));
    let ask = |files: &Files| run(agent(files.root(), &["report"])).wall;
    let rounds: Vec<(f64, f64)> = (0..=ROUNDS).map(|_| (ask(&none), ask(&files))).skip(1).collect();
    let bound = if count == 10_000 { Bound::Time(REPORT) } else { Bound::None };
    table.running(name, bound, &rounds);
}

fn rest(table: &Table, name: &str, count: usize) {
    let files = Files::make(count);
    let agent = Running::start(files.root());
    let (used, load) = (agent.used(), agent.load(IDLE));
    // Before it is asked for anything, which would take memory too.
    let (resident, peak) = (agent.memory("VmRSS"), agent.memory("VmHWM"));
    agent.check();
    let bound = (count == 10_000).then_some(MEMORY);
    let show_load = |load: f64| format!("{:.2} %", load * 100.0);
    table.figure(&format!("{name}, memory"), resident, bound, mebibytes);
    table.figure(&format!("{name}, peak memory until then"), peak, None, mebibytes);
    table.figure(&format!("{name}, processor time until then"), used, None, time);
    table.figure(&format!("{name}, processor"), load, Some(LOAD), show_load);
}

/// Measures the memory after all files were made, and after all of them were repaired.
fn fresh(table: &Table, name: &str, count: usize) {
    let files = Files::declare(count);
    let agent = Running::start(files.root());
    pause(IDLE);
    let (resident, peak) = (agent.memory("VmRSS"), agent.memory("VmHWM"));
    assert!((0..count).all(|number| bare::is_right(&files.path(number), number)));
    files.harm();
    agent.rest();
    pause(IDLE);
    let after = agent.memory("VmRSS");
    assert!((0..count).all(|number| bare::is_right(&files.path(number), number)));
    agent.check();
    let bound = (count == 10_000).then_some(MEMORY);
    table.figure(&format!("{name}, memory"), resident, bound, mebibytes);
    table.figure(&format!("{name}, peak memory until then"), peak, None, mebibytes);
    let name = format!("{name}, memory after all were repaired, against before");
    table.figure(&name, after / resident, Some(DRIFT), |ratio| format!("{ratio:.2}"));
}

/// Measures how soon a changed declaration is kept; what is compared is a check of the manifest.
fn changed(table: &Table, name: &str, count: usize, load: Load) {
    let (most, quiet) = match load {
        Load::Asked => (CHANGED, 0.0),
        Load::Noticed => (NOTICED, QUIET),
    };
    let files = Files::make(count);
    let running = Running::start(files.root());
    let turn = |round: usize| {
        let bare = run(agent(files.root(), &["check", "site"])).wall;
        let other = format!("It says something else in round {round}.");
        let began = files.redeclare(round, &other);
        if load == Load::Asked {
            running.load_again();
        }
        let path = files.path(round);
        while fs::read_to_string(&path).unwrap().trim_end() != other {
            pause(LOOK);
        }
        let taken = began.elapsed().as_secs_f64() - quiet;
        // The watch of the manifest may have it loaded once more.
        running.rest();
        (bare, taken)
    };
    let rounds: Vec<(f64, f64)> = (0..=ROUNDS).map(turn).skip(1).collect();
    running.check();
    let bound = if count == 10_000 { Bound::Ratio(most) } else { Bound::None };
    table.running(name, bound, &rounds);
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / MIB)
}
