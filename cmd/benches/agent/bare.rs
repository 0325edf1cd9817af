//! What the agent is compared with: a program that does the least, all in one thread.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::external::{IMAGE, TYPE};
use crate::files::{MODE, content, path, template};

/// Returns this program, to do one of the works below.
pub(crate) fn command(work: &str, folder: &Path, count: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--bare", work]).arg(folder).arg(count.to_string());
    command
}

/// Does a work.
pub(crate) fn run(work: &str, root: &Path, count: usize) {
    match work {
        "read" => read(&root.join("site")),
        "look" => assert!((0..count).all(|number| is_right(&path(root, number), number))),
        "templates" => assert!((0..count).all(|number| {
            !is_right(&path(root, number), number)
                && fs::read_to_string(template(root, number)).is_ok()
        })),
        "call" => (0..count).for_each(|_| call(Command::new(root.join(TYPE)))),
        "contain" => (0..count).for_each(|_| call(container())),
        "miss" => assert!((0..count).all(|number| !is_right(&path(root, number), number))),
        _ => (0..count).for_each(|number| write(&path(root, number), content(number).as_bytes())),
    }
}

/// Reads a manifest as any YAML.
fn read(site: &Path) {
    for entry in fs::read_dir(site).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert!(value["resources"].is_object());
    }
}

/// Returns what runs the image of a type.
fn container() -> Command {
    let mut docker = Command::new("docker");
    docker.args(["run", "--rm", "--interactive", "--network=none", IMAGE]);
    docker
}

/// Runs a type, and reads its answer.
fn call(mut program: Command) {
    let piped = program.arg("check").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{}\n").unwrap();
    let answer = child.wait_with_output().unwrap().stdout;
    let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["status"], "VALID");
}

/// Looks at a file, reads it, and returns whether it is as declared.
pub(crate) fn is_right(path: &Path, number: usize) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.mode() & 0o7777 == MODE)
        && fs::read(path).is_ok_and(|found| found == content(number).as_bytes())
}

/// Writes a file under a temporary name, syncs it, and renames it.
pub(crate) fn write(path: &Path, content: &[u8]) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    let mut file = File::create(&temporary).unwrap();
    file.write_all(content).unwrap();
    file.set_permissions(Permissions::from_mode(MODE)).unwrap();
    file.sync_all().unwrap();
    fs::rename(&temporary, path).unwrap();
}
