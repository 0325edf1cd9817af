//! Tests that need root. Without root, `.ci/test` counts these tests as skipped: they are left out
//! by the name of this module, and fail where they are run all the same.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::Signal;
use tokio::process::Command;

use crate::agent::Agent;
use crate::facts::facts;
use crate::machine::{Machine, gone, signal};
use crate::processes::{SITE, expect_told};
use crate::world::{Error, TestResult, ran};

#[tokio::test]
async fn a_mode_is_set_without_the_right_to_set_owners() -> TestResult {
    let machine =
        Machine::new("resources: {page: {type: file, config: {path: '@/page', mode: '0640'}}}\n")?;
    machine.write("page", "kept")?;
    let path = machine.path("page");
    std::os::unix::fs::chown(&path, Some(65_534), None)?;
    let program = machine.program(&["apply", "site.yaml"]);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-chown", "--inh-caps=-chown"]);
    command.arg(program.as_std().get_program()).args(program.as_std().get_args());
    command.env("PATH", "/usr/bin:/bin").current_dir(machine.path("")).kill_on_drop(true);

    let ran = ran(command).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    let metadata = std::fs::metadata(&path)?;
    assert_eq!((metadata.mode() & 0o7777, metadata.uid()), (0o640, 65_534));
    Ok(())
}

#[tokio::test]
async fn a_command_and_a_program_run_as_their_user_and_group() -> TestResult {
    let rights = "user: 54321, group: \"12345\", umask: \"077\", limits: {nofile: 32, core: 0}";
    expect_told(rights, &["54321", "12345", "0077", "32", "0"]).await
}

/// A server that ends with its agent, and leaves a process without its mark in another session.
const ESCAPING: &str = r#"resources:
  server:
    type: process
    config:
      keep: false
      command:
        - /bin/sh
        - -c
        - |
          setsid -f env -i /bin/sh -c 'echo $$ >> @/escaped; exec sleep 1000'
          echo $$ >> @/pids
          exec sleep 1000
"#;

#[tokio::test]
async fn what_a_program_leaves_in_a_session_of_its_own_ends_with_each_run_of_it() -> TestResult {
    let machine = Machine::new(ESCAPING)?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["server: started; pid: "]).await?;
    let report = machine.run(&["report", "resources/server", "--output", "json"]).await?;
    let server = machine.lines("pids", 1).await?.remove(0);
    let first = machine.lines("escaped", 1).await?.remove(0);

    signal(&server, Signal::KILL)?;
    gone(&first).await?;
    let second = machine.lines("escaped", 2).await?.remove(1);
    agent.clean_kill(&machine).await?;

    gone(&second).await?;
    let report: String = report.stdout.split_whitespace().collect();
    // Needs cgroups of version 2 that root may change.
    assert!(report.contains(r#""contained_by":"cgroup""#), "{report}");
    Ok(())
}

/// A small file system in memory at the state folder of a machine, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    async fn new(machine: &Machine) -> Result<Self, Error> {
        let path = machine.path("state");
        std::fs::create_dir(&path)?;
        let disk = Self(path);
        disk.mount(&["-t", "tmpfs", "-o", "size=1m,mode=0700", "crankcase-test"]).await?;
        Ok(disk)
    }

    async fn mount(&self, arguments: &[&str]) -> TestResult {
        let mount = Command::new("mount").args(arguments).arg(&self.0).output().await?;
        if mount.status.success() { Ok(()) } else { Err(format!("{mount:?}").into()) }
    }

    /// Fills the disk to the last byte.
    fn fill(&self) -> TestResult {
        let mut file = File::create(self.0.join("fill"))?;
        while file.write(&[0; 512]).is_ok_and(|written| written > 0) {}
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it cannot be unmounted");
    }
}

/// Returns a machine with a fact, and the disk that the fact is on.
async fn facts_on_a_disk() -> Result<(Machine, Disk), Error> {
    let machine = Machine::new(
        "resources: {page: {type: file, config: {path: '@/page', content: '{{ facts.text }}'}}}\n",
    )?;
    let disk = Disk::new(&machine).await?;
    facts(&machine, &["set", "/text", "one"]).await?;
    Ok((machine, disk))
}

#[tokio::test]
async fn an_agent_starts_with_its_facts_on_a_full_disk() -> TestResult {
    let (machine, disk) = facts_on_a_disk().await?;
    disk.fill()?;

    assert_eq!(facts(&machine, &["get", "/text"]).await?.stdout, "one\n");
    let agent = Agent::start(&machine).await?;
    machine.until("page", |text| text == "one").await?;
    let refused = facts(&machine, &["set", "/text", &"x".repeat(100_000)]).await?;
    assert_eq!(refused.code, Some(1), "{refused:?}");

    std::fs::remove_file(machine.path("state/fill"))?;
    facts(&machine, &["set", "/text", "two"]).await?;
    machine.until("page", |text| text == "two").await?;
    agent.signal(Signal::TERM)?;
    assert_eq!(agent.ended(&machine).await?.code, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_program_is_started_again_on_a_full_disk() -> TestResult {
    let machine = Machine::new(SITE)?;
    let disk = Disk::new(&machine).await?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["the site is settled"]).await?;
    let first = machine.lines("pids", 1).await?.remove(0);
    disk.fill()?;

    signal(&first, Signal::KILL)?;
    machine.lines("pids", 2).await?;
    agent.until_logged(&["server: restarted; pid: "]).await?;
    let asked = machine.run(&["bounce", "resources/server"]).await?;
    assert_eq!(asked.code, Some(0), "{asked:?}");
    let last = machine.lines("pids", 3).await?.remove(2);
    agent.until_logged(&["server: restarted; pid: "]).await?;

    std::fs::remove_file(machine.path("state/fill"))?;
    agent.clean_kill(&machine).await?;
    gone(&last).await
}

#[tokio::test]
async fn facts_are_read_and_planned_with_on_a_read_only_disk() -> TestResult {
    let (machine, disk) = facts_on_a_disk().await?;
    disk.mount(&["-o", "remount,ro"]).await?;

    assert_eq!(facts(&machine, &["get", "/text"]).await?.stdout, "one\n");
    let planned = machine.run(&["plan", "site.yaml"]).await?;
    assert!(planned.stdout.contains("+one"), "{planned:?}");
    let left = machine.run(&["run", "site.yaml", "--until-settled"]).await?;
    assert_eq!(left.code, Some(0), "{left:?}");
    assert_eq!(machine.read("page").as_deref(), Some("one"));
    Ok(())
}

#[tokio::test]
async fn an_agent_on_a_read_only_disk_is_found_beside_the_socket_of_a_killed_one() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let disk = Disk::new(&machine).await?;
    Agent::start(&machine).await?.dirty_kill().await?;
    assert!(machine.path("state/control.sock").exists());
    disk.mount(&["-o", "remount,ro"]).await?;

    let agent = Agent::start(&machine).await?;

    let reported = machine.run(&["report"]).await?;
    assert_eq!(reported.code, Some(0), "{reported:?}");
    disk.mount(&["-o", "remount,rw"]).await?;
    let set = facts(&machine, &["set", "/a", "1"]).await?;
    assert_eq!(set.code, Some(0), "{set:?}");
    agent.signal(Signal::TERM)?;
    assert_eq!(agent.ended(&machine).await?.code, Some(0));
    let reported = machine.run(&["report"]).await?;
    assert_eq!(reported.code, Some(69), "{reported:?}");
    Ok(())
}
