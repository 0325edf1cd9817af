//! The rights of the state folder, links in it, and a folder that takes its place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crankcase_status::{StateDir, StateError};
use rustix::process::Signal;
use tokio::io::AsyncReadExt;
use tokio::task::spawn_blocking;

use crate::agent::Agent;
use crate::external::program;
use crate::machine::{Machine, signal, within};
use crate::pipes::opened;
use crate::world::{Error, Ran, TestResult};

/// Requires that a folder and all in it are for their owner alone; returns how many files it holds.
fn private(folder: &Path) -> Result<usize, Error> {
    assert_eq!(folder.metadata()?.mode() & 0o7777, 0o700, "{folder:?}");
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            count += private(&path)?;
        } else {
            assert_eq!(found.mode() & 0o7777, 0o600, "{path:?}");
            count += 1;
        }
    }
    Ok(count)
}

#[tokio::test]
async fn the_state_folder_is_for_its_owner_alone_whatever_the_umask_is() -> TestResult {
    for umask in ["000", "0277"] {
        let machine = Machine::new(
            r#"resources:
  server:
    type: process
    config: {keep: false, command: [/bin/sh, -c, "umask 022; echo $$ >> @/pids; exec sleep 1000"]}
"#,
        )?;
        let program = machine.program_after(&format!("umask {umask}"), &["run", "site.yaml"]);
        let mut agent = Agent::of(program).await?;
        agent.until_logged(&["the site is settled"]).await?;
        let server = machine.lines("pids", 1).await?.remove(0);
        // Killed, it changes nothing while the test looks.
        agent.dirty_kill().await?;
        signal(&server, Signal::KILL)?;

        let count = private(&machine.path("state"))?;

        // The lock, the socket, the history and the records with two files beside each, and the
        // record of the server with its room; one may be just being replaced.
        assert!((10..=11).contains(&count), "umask {umask}: {count}");
    }
    Ok(())
}

/// A type whose answer is kept in the state folder.
const TYPE: &str = r#"#!/bin/sh
case ${1-init} in
init) echo '{"protocol": 1, "depends_on_files": [], "calls": {"check": {"args": ["check"]}}}' ;;
*) echo '{"status": "VALID", "state": {}}' ;;
esac
"#;

/// The mode of a folder, and the mode and the content of each file in it.
type Seen = (u32, BTreeMap<OsString, (u32, Vec<u8>)>);

/// Looks at a folder that has no folders.
fn all_in(folder: &Path) -> Result<Seen, Error> {
    let files = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        let mode = entry.metadata()?.mode();
        Ok((entry.file_name(), (mode, fs::read(entry.path())?)))
    });
    Ok((folder.metadata()?.mode(), files.collect::<io::Result<_>>()?))
}

/// A command that writes facts to the state folder.
const FACTS: &[&str] = &["facts", "set", "/a", "1"];
/// A command that holds the state folder, and notes there what it does.
const APPLY: &[&str] = &["apply", "site.yaml"];
/// An agent, with its socket and its page in the state folder.
const RUN: &[&str] = &["run", "site.yaml", "--until-settled", "--page", "127.0.0.1:0"];

/// A folder outside of the state folder, with a file that no command may change.
struct Precious {
    folder: PathBuf,
    content: Seen,
}

impl Precious {
    fn new(machine: &Machine) -> Result<Self, Error> {
        let folder = machine.path("behind");
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o755))?;
        fs::write(folder.join("file"), "precious")?;
        let content = all_in(&folder)?;
        Ok(Self { folder, content })
    }
}

/// Runs a command with a new state folder in which `link` has made a link. Removes the folder and the page afterwards.
async fn run_in_fresh_state(
    machine: &Machine,
    link: impl FnOnce(&Path) -> io::Result<()>,
    command: &[&str],
) -> Result<Ran, Error> {
    let state = machine.path("state");
    fs::create_dir(&state)?;
    fs::set_permissions(&state, Permissions::from_mode(0o700))?;
    link(&state)?;
    let ran = machine.run(command).await?;
    fs::remove_dir_all(&state)?;
    drop(fs::remove_file(machine.path("page")));
    Ok(ran)
}

/// Returns whether a command has done its work, or names the file that prevented it.
fn is_done_or_names(ran: &Ran, file: &str) -> bool {
    let file = format!("state/{file}");
    ran.code == Some(0) || ran.stdout.contains(&file) || ran.stderr.contains(&file)
}

#[tokio::test]
async fn nothing_that_a_symlink_in_the_state_folder_leads_to_is_changed() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page:
    type: file
    config: {path: "@/page", content: right}
    notify: [done]
    meta: {reverse: true}
  done: {type: exec, config: {command: ["true"]}}
  other: {type: "program:./it"}
"#,
    )?;
    program(&machine, "it", TYPE)?;
    let precious = Precious::new(&machine)?;
    let files: [(&[&str], &[&str]); 3] = [
        (FACTS, &["facts.db", "facts.db-wal"]),
        (APPLY, &["lock", "history.db", "state.db", "state.db-wal", "kept", "notices"]),
        (RUN, &["control.sock", "control.path", "page.url"]),
    ];
    let folders: [(&[&str], &[&str]); 2] = [
        (APPLY, &["processes", "reversals", "overwrites"]),
        (RUN, &["rules", "private", "asking", "types", "containers"]),
    ];
    let to_files = files.iter().flat_map(|(command, names)| {
        names.iter().flat_map(move |name| [(command, name, "file"), (command, name, "new")])
    });
    let to_folders = folders
        .iter()
        .flat_map(|(command, names)| names.iter().map(move |name| (command, name, "")));
    for (command, name, target) in to_files.chain(to_folders) {
        let case = format!("{command:?} with {name:?}, which leads to {target:?}");
        let link = |state: &Path| symlink(precious.folder.join(target), state.join(name));

        let ran = run_in_fresh_state(&machine, link, command).await?;

        assert_eq!(all_in(&precious.folder)?, precious.content, "{case}: {ran:?}");
        assert!(is_done_or_names(&ran, name), "{case}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn no_file_that_has_a_hard_link_in_the_state_folder_is_changed() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  page: {type: file, config: {path: "@/page", content: right}, notify: [done]}
  done: {type: exec, config: {command: ["true"]}}
"#,
    )?;
    let precious = Precious::new(&machine)?;
    let files: [(&[&str], &[&str]); 4] = [
        (FACTS, &["lock", "facts.db", "facts.db-wal"]),
        (APPLY, &["lock", "history.db", "history.db-wal", "state.db", "state.db-wal"]),
        // Of an earlier version.
        (APPLY, &["kept", "notices"]),
        (RUN, &["lock", "facts.db", "control.sock", "control.path", "page.url"]),
    ];
    let cases =
        files.iter().flat_map(|(command, names)| names.iter().map(move |name| (command, name)));
    for (command, name) in cases {
        let case = format!("{command:?} with {name:?}");
        let link = |state: &Path| fs::hard_link(precious.folder.join("file"), state.join(name));

        let ran = run_in_fresh_state(&machine, link, command).await?;

        assert_eq!(all_in(&precious.folder)?, precious.content, "{case}: {ran:?}");
        assert!(is_done_or_names(&ran, name), "{case}: {ran:?}");
        if ["lock", "facts.db", "state.db"].contains(name) {
            assert_ne!(ran.code, Some(0), "{case}: {ran:?}");
            assert!(ran.stderr.contains("has 2 hard links"), "{case}: {ran:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_keeps_to_its_state_folder_when_another_one_has_got_the_path() -> TestResult {
    let machine = Machine::new(
        "resources: {page: {type: file, config: {path: '@/page', content: right}}}\n",
    )?;
    let mut agent =
        Agent::start_with(&machine, &["run", "site.yaml", "--log-format", "json"]).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let (state, moved) = (machine.path("state"), machine.path("moved"));
    fs::rename(&state, &moved)?;
    fs::create_dir(&state)?;
    fs::set_permissions(&state, Permissions::from_mode(0o755))?;

    machine.write("page", "wrong")?;
    agent.until_logged(&["\"repaired\""]).await?;
    machine.write(
        "site.yaml",
        "resources: {more: {type: exec, config: {command: [touch, '@/more'], creates: '@/more'}}}\n",
    )?;
    machine.until("more", |_| true).await?;
    machine.until_on_record("moved", |store| Ok(store.load()?.kept.contains_key("more"))).await?;
    agent.clean_kill(&machine).await?;

    assert_eq!(fs::read_dir(&state)?.count(), 0);
    assert_eq!(state.metadata()?.mode() & 0o7777, 0o755);
    assert!(!fs::exists(moved.join("control.sock"))?);
    Ok(())
}

#[tokio::test]
async fn an_agent_says_that_its_state_folder_was_deleted_and_lets_no_second_one_in() -> TestResult {
    let machine = Machine::new("resources: {idle: {type: noop}}\n")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    machine.until_on_record("state", |store| Ok(store.load()?.kept.contains_key("idle"))).await?;
    let state = machine.path("state");
    fs::remove_dir_all(&state)?;

    let second = machine.run(&["run", "site.yaml"]).await?;
    agent.until_logged(&["/agent/state_folder", "was deleted or moved away"]).await?;

    let held = format!("is held by process {}", agent.pid()?);
    assert_eq!(second.code, Some(75), "{second:?}");
    assert!(second.stderr.contains(&held), "{second:?}");
    assert!(!fs::exists(&state)?);
    agent.signal(Signal::TERM)?;
    agent.whole_log().await?;
    Ok(())
}

#[tokio::test]
async fn the_record_of_an_agent_ends_in_its_state_folder_when_another_one_has_got_the_path()
-> TestResult {
    // Nothing happens to the resource, so the record is made at the end of the agent.
    let machine = Machine::new("resources: {idle: {type: noop}}\n")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let (state, moved) = (machine.path("state"), machine.path("moved"));
    fs::rename(&state, &moved)?;
    fs::create_dir(&state)?;
    assert!(!fs::exists(moved.join("history.db"))?);

    agent.clean_kill(&machine).await?;

    assert_eq!(fs::read_dir(&state)?.count(), 0);
    assert!(fs::exists(moved.join("history.db"))?);
    Ok(())
}

#[tokio::test]
async fn records_that_cannot_be_read_are_named_and_left_as_they_are() -> TestResult {
    let machine = Machine::new("resources: {idle: {type: noop}}\n")?;
    assert_eq!(machine.run(APPLY).await?.code, Some(0));
    let (path, damage) = (machine.path("state/state.db"), "no database, but a text ".repeat(99));
    fs::write(&path, &damage)?;
    let text = "cannot use the records in @/state/state.db: ";

    for command in [APPLY, RUN] {
        let ran = machine.run(command).await?;

        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.starts_with(&format!("crankcase: {text}")), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let planned = machine.run(&["plan", "site.yaml"]).await?;
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let unseen = "what an earlier run has left to be done is not shown";
    assert!(planned.stderr.contains(&format!("{unseen}: {text}")), "{planned:?}");
    assert_eq!(fs::read_to_string(&path)?, damage);
    Ok(())
}

#[tokio::test]
async fn no_command_takes_a_resource_in_the_state_folder() -> TestResult {
    let machine = Machine::new(
        "resources: {lock: {type: file, config: {path: '@/state/lock', state: absent}}}\n",
    )?;
    for command in ["check", "plan", "apply", "run"] {
        let ran = machine.run(&[command, "site.yaml"]).await?;

        let expected = "path \"@/state/lock\" is in the agent's state folder \"@/state\"";
        assert_eq!(ran.code, Some(65), "{command}: {ran:?}");
        assert!(ran.stderr.contains(expected), "{command}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_command_that_changes_something_holds_the_state_folder_before_it_reads_anything()
-> TestResult {
    for command in [
        &["apply", "pipe"][..],
        &["run", "pipe"],
        &["bootstrap", "-f", "facts.yaml", "pipe"],
        &["bootstrap", "-f", "pipe", "site.yaml"],
    ] {
        let machine = Machine::new("resources: {}\n")?;
        machine.write("facts.yaml", "version: 1\nfacts: {a: 1}\n")?;
        machine.fifo("pipe")?;
        assert_eq!(machine.run(&["facts", "set", "/b", "1"]).await?.code, Some(0));
        let child = machine.begin(command)?;
        let pid = child.id().ok_or("it has ended")?;
        // The command reads from it.
        let _pipe = opened(&machine, "pipe").await?;

        let other = StateDir::new(machine.path("state")).lock();

        let holder = match other {
            Err(StateError::Held { pid, .. }) => pid,
            other => return Err(format!("{command:?}: {other:?}").into()),
        };
        assert_eq!(holder, Some(pid), "{command:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_site_is_not_kept_without_the_facts_that_came_while_it_was_read() -> TestResult {
    for command in ["apply", "run"] {
        let machine = Machine::new("")?;
        machine.fifo("pipe")?;
        let child = machine.begin(&[command, "pipe"])?;
        let mut pipe = opened(&machine, "pipe").await?;

        let set = machine.run(&["facts", "set", "/a", "1"]).await?;
        pipe.write_all(b"resources: {}\n")?;
        drop(pipe);

        let ran = machine.ended(child).await?;
        assert_eq!((set.code, ran.code), (Some(0), Some(75)), "{command}: {ran:?}");
        assert!(ran.stderr.contains("and facts in it; run the command again"), "{ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_nobody_reads_holds_no_state_folder() -> TestResult {
    // The account is larger than what the pipe takes.
    let message = "x".repeat(100);
    let print = |number| format!("  r{number}: {{type: print, config: {{message: {message}}}}}\n");
    let site = format!("resources:\n{}", (0..100).map(print).collect::<String>());
    for output in ["human", "json"] {
        let machine = Machine::new(&site)?;
        let apply = ["apply", "site.yaml", "--output", output];
        let (mut child, mut stdout) = machine.begin_narrow(&apply)?;
        // It is being written, as data while the work goes on.
        within(stdout.read_u8()).await??;
        // This waits until the folder was given back.
        let state = File::open(machine.path("state"))?;
        within(spawn_blocking(move || state.lock())).await???;

        let set = machine.run(&["facts", "set", "/a", "1"]).await?;

        let mut account = String::new();
        within(stdout.read_to_string(&mut account)).await??;
        let ended = within(child.wait()).await??;
        assert_eq!((set.code, ended.code()), (Some(0), Some(0)), "{output}: {set:?}");
        assert!(account.contains("r99"), "{output}: {account}");
    }
    Ok(())
}
