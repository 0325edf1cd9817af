//! An agent that keeps many programs: what their adoption adds to a start, and how many threads the
//! checks of their health take.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::files;
use crate::rounds::ROUNDS;
use crate::running::{Running, until_settled};
use crate::table::{Bound, Table};

/// How many programs there are.
const PROGRAMS: usize = 100;

/// How much longer a start may take that adopts all of them, in seconds.
const ADOPTION: f64 = 0.1;

/// How many times as many threads the agent may have at rest if each program has a health check.
/// The checks have none; a thread or two may still wait for other work.
const THREADS: f64 = 1.2;

/// For how long threads are counted. Each program is checked at least once meanwhile.
const COUNTED: Duration = Duration::from_secs(25);

/// What each program does: it writes a line, and waits until the gate is closed.
const PROGRAM: &str = "echo >> started; exec cat gate";

/// Ends a program with its agent.
const ENDS: &str = ", keep: false";

/// Checks the health of a program by a command. A thread without work ends after 10 s: when the
/// next check comes, none is left of the last one.
const HEALTH: &str = ", health: {command: [/bin/sh, -c, \"echo >> checked\"], every: 20s}";

/// Programs in a temporary folder, and files that are kept with them.
struct Programs {
    /// A pipe that each program reads from. When it is closed the programs end, also those that no
    /// agent keeps any more.
    _gate: File,
    root: TempDir,
}

impl Programs {
    /// Makes the manifest of so many programs and files, the folders of the files, and the gate.
    /// `more` is added to the config of each program.
    fn declare((programs, files): (usize, usize), more: &str) -> Self {
        let root = TempDir::new().unwrap();
        let folder = root.path().join("programs");
        fs::create_dir(&folder).unwrap();
        let gate = folder.join("gate");
        mknodat(CWD, &gate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // A pipe that is opened for both waits for no other end.
        let gate = File::options().read(true).write(true).open(gate).unwrap();
        for number in 0..files {
            let path = files::path(root.path(), number);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
        }
        let config = format!("command: [/bin/sh, -c, \"{PROGRAM}\"], cwd: {folder:?}{more}");
        let config = format!("{{type: process, config: {{{config}}}}}");
        let programs = (0..programs).map(|number| format!("  program-{number}: {config}\n"));
        let files = (0..files).map(|number| files::declaration(root.path(), number));
        files::write_site(root.path(), programs.chain(files));
        Self { _gate: gate, root }
    }

    fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns how many lines the programs have written into a file.
    fn lines(&self, file: &str) -> usize {
        let path = self.root().join("programs").join(file);
        fs::read_to_string(path).unwrap().lines().count()
    }
}

pub(crate) fn measure(table: &Table) {
    let name = format!("run --until-settled that adopts {PROGRAMS} programs, against files");
    if table.wants(&name) {
        adoption(table, &name);
    }
    let name = format!("run of {PROGRAMS} programs, threads at rest");
    if table.wants(&name) {
        threads(table, &name);
    }
}

/// Measures a start that adopts all programs; what is compared is a start with as many resources: a
/// program that is not adopted, and files. It needs the program, as a site with one is settled only
/// after a second.
fn adoption(table: &Table, name: &str) {
    let files = Programs::declare((1, PROGRAMS - 1), ENDS);
    let programs = Programs::declare((PROGRAMS, 0), "");
    let turn = |_| (until_settled(files.root()), until_settled(programs.root()));
    // The first turn starts the programs that each later one adopts.
    let rounds: Vec<(f64, f64)> = (0..=ROUNDS).map(turn).skip(1).collect();
    assert_eq!(programs.lines("started"), PROGRAMS, "a program was not adopted");
    table.running(name, Bound::More(ADOPTION), &rounds);
}

/// Measures the threads of an agent whose programs have health checks; what is compared is an agent
/// with as many programs without.
fn threads(table: &Table, name: &str) {
    let without = Programs::declare((PROGRAMS, 0), ENDS);
    let with = Programs::declare((PROGRAMS, 0), &format!("{ENDS}{HEALTH}"));
    let [(bare, _), (lowest, highest)] = [&without, &with].map(count);
    assert!(with.lines("checked") >= PROGRAMS, "a program was not checked");
    table.figure(name, bare, None, |count| count.to_string());
    let against = format!("{name} with health checks, against without");
    table.figure(&against, lowest / bare, Some(THREADS), |ratio| format!("{ratio:.2}"));
    let during = format!("{name} with health checks, highest number after a check");
    table.figure(&during, highest, None, |count| count.to_string());
}

/// Returns the lowest and the highest number of threads of an agent that keeps programs.
fn count(programs: &Programs) -> (f64, f64) {
    let agent = Running::start(programs.root());
    let counts = agent.thread_counts(COUNTED);
    agent.check();
    assert_eq!(programs.lines("started"), PROGRAMS, "a program was started again");
    counts
}
