//! How an agent takes facts that change: what it costs in memory, and how soon a file follows.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;

use crate::files;
use crate::process::{MIB, agent, run};
use crate::rounds::ROUNDS;
use crate::running::{Running, pause};
use crate::table::{Bound, Table};

/// How many bytes of facts no resource uses.
const OTHERS: usize = 154_000;

/// How much memory an agent may have after all facts have changed, against before.
const GROWTH: f64 = 1.2;

/// How much longer a changed fact may take in a site that is a hundred times as large.
const LARGER: f64 = 1.5;

/// How often a file is looked at that is to follow.
const LOOK: Duration = Duration::from_millis(1);

/// Files whose contents are a fact each, and the facts.
struct Site(TempDir);

impl Site {
    /// Makes the manifest and the facts, and no files.
    fn make(count: usize) -> Self {
        let site = Self(TempDir::new().unwrap());
        let root = site.0.path();
        let mut facts = "version: 1\nfacts:\n  many:\n".to_owned();
        for number in 0..count {
            writeln!(facts, "    f{number}: old").unwrap();
            fs::create_dir_all(files::path(root, number).parent().unwrap()).unwrap();
        }
        writeln!(facts, "  others:").unwrap();
        for number in 0..OTHERS / 100 {
            writeln!(facts, "    o{number:04}: {}", "x".repeat(88)).unwrap();
        }
        fs::write(root.join("facts.yaml"), facts).unwrap();
        let declared = (0..count).map(|number| {
            let path = files::path(root, number);
            let content = format!("{{{{ facts.many.f{number} }}}}");
            format!(
                "  r{number}: {{type: file, config: {{path: {path:?}, content: \"{content}\"}}}}\n"
            )
        });
        files::write_site(root, declared);
        run(agent(root, &["facts", "load", "facts.yaml"]));
        site
    }

    /// Changes the fact of a file.
    fn set(&self, number: usize, value: &str) {
        run(agent(self.0.path(), &["facts", "set", &format!("/many/f{number}"), value]));
    }

    /// Waits until a file has followed.
    fn follows(&self, number: usize, value: &str) {
        let path = files::path(self.0.path(), number);
        while fs::read_to_string(&path).unwrap() != value {
            pause(LOOK);
        }
    }
}

pub(crate) fn measure(table: &Table) {
    let name = "run of 1000 files of a fact each, memory";
    if table.wants(name) {
        memory(table, name);
    }
    let name = "a fact of one of 10000 files, from the command to the file, against one of 100";
    if table.wants(name) {
        change(table, name);
    }
}

fn memory(table: &Table, name: &str) {
    let site = Site::make(1000);
    let agent = Running::start(site.0.path());
    let before = agent.memory("VmRSS");
    for number in 0..1000 {
        site.set(number, "new");
    }
    site.follows(999, "new");
    agent.check();
    let after = agent.memory("VmRSS");
    table.figure(name, before, None, |bytes| format!("{:.1} MiB", bytes / MIB));
    let name = format!("{name} after all facts have changed, against before");
    table.figure(&name, after / before, Some(GROWTH), |ratio| format!("{ratio:.2}"));
}

fn change(table: &Table, name: &str) {
    let (few, many) = (Site::make(100), Site::make(10_000));
    let (_few, _many) = (Running::start(few.0.path()), Running::start(many.0.path()));
    let turn = |round: usize| {
        let value = format!("new {round}");
        let [few, many] = [&few, &many].map(|site| {
            let began = Instant::now();
            site.set(round, &value);
            site.follows(round, &value);
            began.elapsed().as_secs_f64()
        });
        (few, many)
    };
    let rounds: Vec<(f64, f64)> = (0..=ROUNDS).map(turn).skip(1).collect();
    table.running(name, Bound::Ratio(LARGER), &rounds);
}
