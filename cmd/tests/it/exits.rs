//! The exit codes, and what is printed when a command or its output fails.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::manifold::Up;
use crankcase_engine::{Engine, EventKind, Manifold, Name, Notice};
use crankcase_facts::{Degraded, Facts, Snapshot, Sqlite};
use crankcase_manifolds::facts::answering;
use crankcase_status::ControlConfig;
use tokio::sync::Notify;

use crate::machine::{Machine, within};
use crate::world::{TestResult, World, install_failing, program, ran};

#[tokio::test]
async fn wrong_usage_is_64_and_help_is_0() -> TestResult {
    for arguments in [
        &[][..],
        &["frobnicate"],
        &["why"],
        &["graph"],
        &["report", "--output", "xml"],
        &["report", "-v", "-q"],
        &["run", "site.yaml", "--quiet-time", "11s"],
        &["run", "site.yaml", "--canary", "0s"],
        &["run", "site.yaml", "--canary", "25h"],
        &["run", "site.yaml", "--last-good", "--until-settled"],
        &["run", "site.yaml", "--last-good", "--noop"],
        &["run", "site.yaml", "--canary", "30s", "--noop"],
    ] {
        let ran = ran(program(arguments)).await?;
        assert_eq!(ran.code, Some(64), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{ran:?}");
    }
    let help = ran(program(&["--help"])).await?;
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("69  no agent is reachable"), "{help:?}");
    Ok(())
}

#[tokio::test]
async fn no_agent_is_69_and_says_where_it_was_looked_for() -> TestResult {
    let folder = tempfile::tempdir()?;
    let state_dir = folder.path().join("state");
    for arguments in
        [&["report"][..], &["why", "x"], &["graph", "--live"], &["events"], &["bounce", "x"]]
    {
        let mut command = program(arguments);
        command.arg("--state-dir").arg(&state_dir);
        let ran = ran(command).await?;

        assert_eq!(ran.code, Some(69), "{arguments:?}: {ran:?}");
        let expected = format!("crankcase: no agent is reachable at {state_dir:?}: ");
        assert!(ran.stderr.starts_with(&expected), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    assert!(!state_dir.exists(), "asking makes nothing");
    Ok(())
}

#[tokio::test]
async fn an_agent_that_takes_too_long_is_69_and_goes_on() -> TestResult {
    const SLOW: Name<()> = Name::new("slow");
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    let release = Arc::new(Notify::new());
    let released = Arc::clone(&release);
    let slow = Manifold::builder().run(move |(), up: Up<()>| {
        let released = Arc::clone(&released);
        async move {
            up.ready(()).wait().await;
            released.notified().await;
            Ok(())
        }
    });
    engine.install(SLOW, slow).await?;
    engine.running(SLOW).await?;
    let mut config = ControlConfig::default();
    // Long enough to have begun on any machine.
    config.answer_timeout = Duration::from_secs(2);
    let world = World::start_as(engine.clone(), config)?;
    let mut events = engine.events();

    let ran = world.run(&["park", "slow"]).await?;

    let expected = "crankcase: the agent refused: it was not done within 2s, and may go on\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(69), expected), "{ran:?}");
    release.notify_one();
    loop {
        let notice = within(events.next()).await?.ok_or("the engine has ended")?;
        if matches!(notice, Notice::Event(event) if matches!(event.kind, EventKind::Ended { .. })) {
            break;
        }
    }
    world.clean_kill().await
}

#[tokio::test]
async fn an_unknown_path_is_1() -> TestResult {
    let world = World::start().await?;

    for command in ["report", "why", "bounce"] {
        let unlike = world.run(&[command, "xyz"]).await?;
        let like = world.run(&[command, "site/wel"]).await?;

        let expected = "crankcase: nothing has the path \"/agent/xyz\"\n";
        assert_eq!((unlike.code, &*unlike.stderr), (Some(1), expected), "{unlike:?}");
        assert_eq!(like.code, Some(1));
        assert!(like.stderr.ends_with("did you mean \"/agent/site/well\"?\n"), "{like:?}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_change_that_an_agent_has_made_is_told_as_made_if_it_cannot_be_shown() -> TestResult {
    let engine = Engine::builder().name(Name::new("agent")).seed(0).build()?;
    // The facts of this agent are in no file.
    let facts = Facts::open(Box::new(Sqlite::in_memory()?))?;
    let judge = Arc::new(|_: &Snapshot, _: &Snapshot| Vec::<Degraded>::new());
    let config = ControlConfig::default().extensions(vec![answering(facts.clone(), judge)]);
    let world = World::start_as(engine, config)?;

    let ran = world.run(&["facts", "set", "/a", "1"]).await?;

    let expected =
        "crankcase: the agent has made the change, and it cannot be shown: the facts are gone\n";
    assert_eq!((ran.code, &*ran.stderr), (Some(1), expected), "{ran:?}");
    assert_eq!(facts.current().version(), 1);
    world.clean_kill().await
}

#[tokio::test]
async fn exit_status_is_1_once_something_is_in_trouble() -> TestResult {
    let world = World::start().await?;
    let before = world.run(&["report", "--exit-status"]).await?;
    install_failing(&world.engine).await?;

    let after = world.run(&["report", "--exit-status"]).await?;

    assert_eq!(before.code, Some(0), "{before:?}");
    assert_eq!(after.code, Some(1), "{after:?}");
    assert_eq!(world.run(&["report"]).await?.code, Some(0));
    assert_eq!(world.run(&["report", "site", "--exit-status"]).await?.code, Some(0));
    world.clean_kill().await
}

#[tokio::test]
async fn a_reader_that_has_had_enough_is_no_error() -> TestResult {
    let world = World::start().await?;
    let mut command = world.program(&["report"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(child.stdout.take());

    let output = child.wait_with_output().await?;

    assert_eq!((output.status.code(), String::from_utf8(output.stderr)?), (Some(0), String::new()));
    world.clean_kill().await
}

#[tokio::test]
async fn a_reader_that_has_had_enough_changes_no_exit_code() -> TestResult {
    let machine = Machine::new(
        "resources: {bad: {type: exec, config: {command: [/bin/sh, -c, ': > @/ran; exit 3'], creates: '@/no'}}}\n",
    )?;
    for (arguments, code) in [
        (&["apply", "site.yaml"][..], 1),
        (&["apply", "site.yaml", "--output", "json"], 1),
        (&["plan", "site.yaml", "--detailed-exitcode"], 2),
        (&["plan", "site.yaml", "-o", "plan"], 0),
    ] {
        let mut child = machine.begin(&[arguments, &["--quiet"]].concat())?;
        drop(child.stdout.take());

        let ran = machine.ended(child).await?;

        assert_eq!((ran.code, &*ran.stderr), (Some(code), ""), "{arguments:?}");
    }
    assert!(machine.path("ran").exists() && machine.path("plan").exists());
    Ok(())
}

#[tokio::test]
async fn a_reader_of_a_run_that_has_had_enough_changes_no_exit_code() -> TestResult {
    let machine = Machine::new("resources: {bad: {type: exec, config: {command: ['false']}}}\n")?;
    for output in ["human", "json"] {
        let run = ["run", "site.yaml", "--until-settled", "--output", output];
        let mut child = machine.begin(&run)?;
        drop(child.stdout.take());

        let ran = machine.ended(child).await?;

        assert_eq!(ran.code, Some(1), "{output}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_output_that_cannot_be_written_is_an_error_that_says_so() -> TestResult {
    let machine = Machine::new("resources: {a: {type: noop}}\n")?;
    for arguments in [["check", "site.yaml"], ["apply", "site.yaml"]] {
        let mut command = machine.program(&arguments);
        command.stdout(std::fs::File::options().write(true).open("/dev/full")?);

        let child = command.stderr(Stdio::piped()).spawn()?;
        let ran = machine.ended(child).await?;

        let expected = "crankcase: cannot write to stdout: No space left on device (os error 28)\n";
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.ends_with(expected), "{ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_apply_that_cannot_go_on_says_so_also_if_its_account_cannot_be_written() -> TestResult {
    // The fact that the first round keeps makes the manifest wrong.
    let machine = Machine::new(
        r#"resources:
  page: {type: print, meta: {poll: "{{ facts.poll | default('1h') }}"}, config: {message: hello}}
  keep: {type: fact, config: {path: /poll, value: never}}
"#,
    )?;
    let mut command = machine.program(&["apply", "site.yaml"]);
    command.stdout(std::fs::File::options().write(true).open("/dev/full")?);

    let ran = machine.ended(command.stderr(Stdio::piped()).spawn()?).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    for said in ["the account cannot be shown", "site.yaml:2:"] {
        assert!(ran.stderr.contains(said), "{ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_said_on_stderr_if_stdout_cannot_be_written() -> TestResult {
    let machine = Machine::new("resources: {a: {type: nop}}\n")?;
    let mut command = machine.program(&["check", "site.yaml", "--output", "json"]);
    command.stdout(std::fs::File::options().write(true).open("/dev/full")?);

    let ran = machine.ended(command.stderr(Stdio::piped()).spawn()?).await?;

    assert_eq!(ran.code, Some(65), "{ran:?}");
    assert!(ran.stderr.starts_with("site.yaml:1:"), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_with_a_file_without_a_name_in_text_is_data_all_the_same() -> TestResult {
    let machine = Machine::new("resources: {a: {type: nop}}\n")?;
    let name = OsStr::from_bytes(b"\xff.yaml");
    std::fs::rename(machine.path("site.yaml"), machine.path("").join(name))?;
    for format in ["json", "yaml"] {
        let mut command = machine.program(&["check", "--output", format]);

        let ran = ran({
            command.arg(name);
            command
        })
        .await?;

        assert_eq!((ran.code, &*ran.stderr), (Some(65), ""), "{ran:?}");
        let said: serde_json::Value = serde_saphyr::from_str(&ran.stdout)?;
        assert_eq!(said["problems"][0]["file"], "\u{fffd}.yaml");
    }
    Ok(())
}

#[tokio::test]
async fn a_manifest_that_cannot_be_read_is_invalid_for_every_command() -> TestResult {
    let machine = Machine::new("resources: {a: {type: noop}}\n")?;
    // A plain file that nobody can read, whoever runs the test.
    let unreadable = "/proc/self/mem";
    for command in ["check", "plan", "apply", "run", "graph"] {
        let ran = machine.run(&[command, unreadable]).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(65), ""), "{command}: {ran:?}");
        let expected = format!("{unreadable}: cannot read the file: ");
        assert!(ran.stderr.starts_with(&expected), "{command}: {ran:?}");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_coloured_that_is_not_a_terminal() -> TestResult {
    let world = World::start().await?;

    for arguments in [&["report"][..], &["report", "x"]] {
        let ran = world.run(arguments).await?;
        assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_plan_is_coloured_where_that_is_asked_for_only() -> TestResult {
    let machine = Machine::new("resources: {a: {type: file, config: {path: \"@/a\"}}}\n")?;
    let plain = machine.run(&["plan", "site.yaml"]).await?;
    let mut command = machine.program(&["plan", "site.yaml"]);
    command.env("CLICOLOR_FORCE", "1").stdout(Stdio::piped()).stderr(Stdio::piped());

    let colored = machine.ended(command.spawn()?).await?;

    assert!(plain.stdout.starts_with("~ a (file) would change\n"), "{plain:?}");
    assert!(colored.stdout.starts_with("\u{1b}[33m~ a (file) would change\u{1b}["), "{colored:?}");
    Ok(())
}
