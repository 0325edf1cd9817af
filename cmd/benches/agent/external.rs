//! Types that are programs; what is compared is that the program is run as often, with the same input.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use crate::bare;
use crate::process::{agent, run};
use crate::rounds::ROUNDS;
use crate::table::{Bound, Table};

/// The program, beside the manifest.
pub(crate) const TYPE: &str = "type";

/// What it does: it says that all is as declared.
const SCRIPT: &str = r#"#!/bin/sh
case ${1-init} in
init) echo '{"protocol": 1, "calls": {"check": {"args": ["check"]}}}' ;;
*) read -r line; echo '{"status": "VALID", "state": {}}' ;;
esac
"#;

/// How many resources there are.
const COUNT: usize = 200;

pub(crate) fn measure(table: &Table) {
    let name = format!("plan of {COUNT} resources of a program, one after another");
    if !table.wants(&name) {
        return;
    }
    let folder = TempDir::new().unwrap();
    let program = folder.path().join(TYPE);
    fs::write(&program, SCRIPT).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let declared = (0..COUNT).map(|number| format!("  r{number}: {{type: \"program:./type\"}}\n"));
    let site = format!("resources:\n{}", declared.collect::<String>());
    fs::write(folder.path().join("site.yaml"), site).unwrap();
    fs::create_dir(folder.path().join("state")).unwrap();
    let turn = |_| {
        let took = run(bare::command("call", folder.path(), COUNT));
        (took, run(agent(folder.path(), &["plan", "site.yaml", "--jobs", "1"])))
    };
    // The first turn is to warm up.
    let rounds: Vec<_> = (0..=ROUNDS).map(turn).skip(1).collect();
    table.once(&name, Bound::Ratio(1.3), None, &rounds);
}
