//! Types that are programs and containers; what is compared is that the program is run as often, with the same input.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::bare;
use crate::process::{Took, agent, run};
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

/// How many resources there are: of a program, and of a container.
const PROGRAMS: usize = 200;
const CONTAINERS: usize = 10;

/// The image, which is made if an engine answers.
pub(crate) const IMAGE: &str = "acme/crankcase-bench:1";

pub(crate) fn measure(table: &Table) {
    let name = format!("plan of {PROGRAMS} resources of a program, one after another");
    if table.wants(&name) {
        let folder = folder("program:./type", PROGRAMS);
        table.once(&name, Bound::Ratio(1.3), None, &rounds(&folder, ("call", PROGRAMS)));
    }
    let name = format!("plan of {CONTAINERS} resources of a container, one after another");
    if table.wants(&name) && make_image() {
        let folder = folder(IMAGE, CONTAINERS);
        table.once(&name, Bound::Ratio(1.1), None, &rounds(&folder, ("contain", CONTAINERS)));
    }
}

/// Makes a folder with a manifest, and the program beside it.
fn folder(kind: &str, count: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    write_program(&folder.path().join(TYPE));
    let declared = (0..count).map(|number| format!("  r{number}: {{type: \"{kind}\"}}\n"));
    let site = format!("resources:\n{}", declared.collect::<String>());
    fs::write(folder.path().join("site.yaml"), site).unwrap();
    fs::create_dir(folder.path().join("state")).unwrap();
    folder
}

fn write_program(path: &Path) {
    fs::write(path, SCRIPT).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

fn rounds(folder: &TempDir, (work, count): (&str, usize)) -> Vec<(Took, Took)> {
    let turn = |_| {
        let took = run(bare::command(work, folder.path(), count));
        let mut agent = agent(folder.path(), &["plan", "site.yaml", "--jobs", "1"]);
        // Where the engine is.
        agent.envs(
            ["DOCKER_HOST", "PATH"].map(|name| (name, env::var_os(name).unwrap_or_default())),
        );
        (took, run(agent))
    };
    // The first turn is to warm up.
    (0..=ROUNDS).map(turn).skip(1).collect()
}

/// Makes the image of the program; returns whether there is an engine that can.
fn make_image() -> bool {
    let docker = |words: &[&str]| Command::new("docker").args(words).output();
    if !docker(&["version"]).is_ok_and(|asked| asked.status.success()) {
        println!("No container engine answers: its row is left out.");
        return false;
    }
    let context = TempDir::new().unwrap();
    write_program(&context.path().join(TYPE));
    fs::copy("/bin/busybox", context.path().join("sh")).unwrap();
    let file = "FROM scratch\nCOPY sh /bin/sh\nCOPY type /type\nENTRYPOINT [\"/type\"]\n";
    fs::write(context.path().join("Dockerfile"), file).unwrap();
    let folder = context.path().to_str().unwrap();
    let made = docker(&["build", "--quiet", "--network", "none", "--tag", IMAGE, folder]).unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}
