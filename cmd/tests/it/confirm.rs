//! `apply --confirm`: questions on a real terminal, and their answers.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::task::spawn_blocking;

use crate::machine::{Machine, within};
use crate::world::{Error, Ran, TestResult};

const SITE: &str = r#"resources:
  a: {type: file, config: {path: "@/a", content: "one"}}
  b: {type: file, config: {path: "@/b", content: "two"}}
  c: {type: file, dependencies: [b], config: {path: "@/c", content: "three"}}
"#;

/// Runs the program on a terminal, into which this is typed. What it says there is its stderr.
async fn typed(machine: &Machine, arguments: &[&str], keys: &str) -> Result<Ran, Error> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?.into_string()?;
    let side = || OpenOptions::new().read(true).write(true).open(&name);
    let mut program = machine.program(arguments);
    program.stdin(side()?).stderr(side()?);
    let mut terminal = File::from(terminal);
    terminal.write_all(keys.as_bytes())?;
    let reading = spawn_blocking(move || {
        let mut said = Vec::new();
        // It ends with an error when nobody has the other side open any more.
        drop(terminal.read_to_end(&mut said));
        said
    });
    let output = within(program.stdout(std::process::Stdio::piped()).spawn()?.wait_with_output());
    drop(program);
    let output = output.await??;
    let stderr = String::from_utf8(within(reading).await??)?;
    Ok(Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: stderr.replace("\r\n", "\n"),
    })
}

fn made(machine: &Machine) -> Vec<&'static str> {
    ["a", "b", "c"].into_iter().filter(|name| machine.path(name).exists()).collect()
}

#[tokio::test]
async fn a_plan_is_shown_and_carried_out_once_it_is_confirmed() -> TestResult {
    for (keys, code, wanted) in [
        ("y\n", 0, &["a", "b", "c"][..]),
        ("yes\n", 0, &["a", "b", "c"]),
        ("n\n", 1, &[]),
        ("\n", 1, &[]),
        ("\u{4}", 1, &[]),
    ] {
        let machine = Machine::new(SITE)?;

        let ran = typed(&machine, &["apply", "site.yaml", "--confirm", "once"], keys).await?;

        assert_eq!((ran.code, &*made(&machine)), (Some(code), wanted), "{keys:?}: {ran:?}");
        assert!(ran.stderr.contains("plan: 3 to change, 0 may change"), "{ran:?}");
        assert!(ran.stderr.contains("carry out this plan? [y/N] "), "{ran:?}");
        assert_eq!(ran.stdout.contains("apply: 3 changed"), code == 0, "{ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn each_resource_is_asked_for_and_a_refusal_ends_the_apply() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran =
        typed(&machine, &["apply", "site.yaml", "--confirm", "resource"], "y\nn\ny\n").await?;

    assert_eq!((ran.code, made(&machine)), (Some(1), vec!["a"]), "{ran:?}");
    assert!(ran.stdout.contains("- b (file) is left as it is: it was not confirmed\n"), "{ran:?}");
    assert!(ran.stdout.contains("- c (file) was not attempted"), "{ran:?}");
    assert_eq!(ran.stderr.matches("[y/N]").count(), 2, "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn each_action_is_asked_for_with_its_arguments() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = typed(&machine, &["apply", "site.yaml", "--confirm", "action"], "y\ny\ny\n").await?;

    assert_eq!((ran.code, made(&machine)), (Some(0), vec!["a", "b", "c"]), "{ran:?}");
    let question = format!("b: create path=\"{}\"? [y/N]", machine.path("b").display());
    assert!(ran.stderr.contains(&question), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn to_refuse_a_part_of_a_saved_plan_is_no_conflict() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;

    let ran = typed(&machine, &["apply", "plan", "--confirm", "resource"], "y\nn\n").await?;

    assert_eq!((ran.code, made(&machine)), (Some(1), vec!["a"]), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn nobody_is_asked_when_nothing_is_to_be_done() -> TestResult {
    let machine = Machine::new(SITE)?;
    machine.run(&["apply", "site.yaml"]).await?;

    let ran = typed(&machine, &["apply", "site.yaml", "--confirm", "once"], "").await?;

    assert_eq!((ran.code, ran.stderr.contains("[y/N]")), (Some(0), false), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_fact_made_known_is_to_be_applied_again() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  home: {type: file, for_each: "{{ facts.seen.users }}", config: {path: "@/{{ item }}", content: x}}
  users: {type: fact, config: {path: /seen/users, value: [a]}}
"#,
    )?;

    let first = typed(&machine, &["apply", "site.yaml", "--confirm", "once"], "y\n").await?;
    let second = typed(&machine, &["apply", "site.yaml", "--confirm", "once"], "y\n").await?;

    let expected = "home (file) failed: the fact /seen/users was not known when the manifest was loaded: apply again";
    assert!(first.stdout.contains(expected), "{first:?}");
    assert_eq!((first.code, second.code), (Some(1), Some(0)), "{first:?} {second:?}");
    assert_eq!(made(&machine), ["a"]);
    Ok(())
}

#[tokio::test]
async fn without_a_terminal_it_is_refused_before_anything_is_changed() -> TestResult {
    let machine = Machine::new(SITE)?;
    for what in ["once", "resource", "action"] {
        let ran = machine.run(&["apply", "site.yaml", "--confirm", what]).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(64), ""), "{ran:?}");
        assert!(ran.stderr.starts_with("crankcase: --confirm asks on a terminal"), "{ran:?}");
    }
    assert!(made(&machine).is_empty() && !machine.path("state").exists());
    Ok(())
}
