//! `cf-agent`, where it is installed, with the same files.

use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{Files, MODE, content};
use crate::process::{Took, agent, run};
use crate::rounds::ROUNDS;
use crate::table::{Bound, Table};

pub(crate) fn measure(table: &Table, count: usize) {
    let (fresh, kept) = (
        format!("apply of {count} files that are not there, against CFEngine"),
        format!("apply of {count} files as declared, against CFEngine"),
    );
    if !table.wants(&fresh) && !table.wants(&kept) {
        return;
    }
    let Some(program) = program() else {
        table.missing(&fresh, "`cf-agent` is not installed");
        return;
    };
    let (other, files) = (Files::make(count), Files::make(count));
    write_policy(&other, &program);
    let turn = |prepare: &dyn Fn()| {
        prepare();
        let took = run(command(&other));
        (took, run(agent(files.root(), &["apply", "site"])))
    };
    let rounds = |prepare: &dyn Fn()| -> Vec<(Took, Took)> {
        (0..=ROUNDS).map(|_| turn(prepare)).skip(1).collect()
    };
    let remove = || {
        other.remove();
        files.remove();
    };
    table.once(&fresh, Bound::None, None, &rounds(&remove));
    assert_eq!(fs::read_to_string(other.path(0)).unwrap(), content(0));
    table.once(&kept, Bound::None, None, &rounds(&|| {}));
}

/// Returns where `cf-agent` is.
fn program() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|path| path.join("cf-agent")).find(|path| path.exists())
}

/// Returns `cf-agent`, which keeps all that it notes in the folder of the files.
fn command(files: &Files) -> Command {
    let work = work(files.root());
    let mut command = Command::new(work.join("bin/cf-agent"));
    command.env("CFENGINE_TEST_OVERRIDE_WORKDIR", work);
    command.args(["--no-lock", "--file"]).arg(policy(files.root()));
    command
}

fn work(root: &Path) -> PathBuf {
    root.join("cfengine")
}

fn policy(root: &Path) -> PathBuf {
    work(root).join("inputs/bench.cf")
}

/// Writes a policy that keeps the content and the mode of each file.
fn write_policy(files: &Files, program: &Path) {
    let mut text = String::from("body common control { bundlesequence => { \"main\" }; }\n");
    writeln!(text, "body perms bench {{ mode => \"{MODE:04o}\"; rxdirs => \"false\"; }}").unwrap();
    text.push_str("bundle agent main {\nfiles:\n");
    for number in 0..files.count() {
        let (path, content) = (files.path(number), content(number));
        writeln!(text, "{path:?} create => \"true\", content => \"{content}\", perms => bench;")
            .unwrap();
    }
    text.push_str("}\n");
    let (work, policy) = (work(files.root()), policy(files.root()));
    fs::create_dir_all(policy.parent().unwrap()).unwrap();
    // It calls others of its programs there.
    symlink(program.parent().unwrap(), work.join("bin")).unwrap();
    fs::write(&policy, text).unwrap();
    for path in [&work, policy.parent().unwrap()] {
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }
    fs::set_permissions(&policy, Permissions::from_mode(0o600)).unwrap();
}
