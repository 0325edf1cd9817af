//! The commands that ask an agent, or bounce a worker of it.

use serde_json::Value;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::machine::within;
use crate::world::{TestResult, World, install_failing, program, ran};

#[tokio::test]
async fn report_shows_a_line_for_each_worker() -> TestResult {
    let world = World::start().await?;

    let ran = world.run(&["report"]).await?;

    let expected = "\
/agent running, 2 workers
  site    running
    well  running
  waiter  waiting, absent is absent
";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{ran:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn report_shows_all_of_one_worker() -> TestResult {
    let world = World::start().await?;

    let ran = world.run(&["report", "waiter"]).await?;

    let expected = "\
/agent/waiter waiting
  generation: 0
  starts: 0
  failures in a row: 0
  input absent (required) is absent
";
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{ran:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn json_and_yaml_say_the_same() -> TestResult {
    let world = World::start().await?;

    let asked = [
        &["why", "waiter"][..],
        &["graph", "--live"],
        &["report", "site/well"],
        &["park", "waiter"],
    ];
    for arguments in asked {
        let json = world.run(&[arguments, &["--output", "json"]].concat()).await?;
        let yaml = world.run(&[arguments, &["--output", "yaml"]].concat()).await?;

        let json: Value = serde_json::from_str(&json.stdout)?;
        let yaml: Value = serde_saphyr::from_str(&yaml.stdout)?;
        assert_eq!(json, yaml);
    }
    world.clean_kill().await
}

#[tokio::test]
async fn why_tells_the_chain_and_indents_what_has_more_lines() -> TestResult {
    let world = World::start().await?;
    install_failing(&world.engine).await?;

    let ran = world.run(&["why", "/agent/failing"]).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    let expected = "/agent/failing failed once: no luck\n  at all; next try in ";
    assert!(ran.stdout.starts_with(expected), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 2);
    world.clean_kill().await
}

#[tokio::test]
async fn graph_frames_each_engine() -> TestResult {
    let world = World::start().await?;

    let dot = world.run(&["graph", "--live", "--format", "dot"]).await?;
    let text = world.run(&["graph", "--live"]).await?;

    let expected = r#"digraph crankcase {
  node [shape=box style=filled fillcolor=white]
  "/agent/absent" [label="absent\nabsent" fillcolor=lightgrey]
  "/agent/site" [label="site\nrunning" fillcolor=palegreen]
  "/agent/waiter" [label="waiter\nwaiting" fillcolor=khaki]
  "/agent/waiter" -> "/agent/absent" [style=solid]
  subgraph "cluster /agent/site" {
    label="/agent/site"
    "/agent/site/well" [label="well\nrunning" fillcolor=palegreen]
  }
}
"#;
    assert_eq!((dot.code, &*dot.stdout), (Some(0), expected), "{dot:?}");
    let expected = "\
[‖ absent (absent)]◄────[… waiter (waiting)]
┌✓ site────┐
│ [✓ well] │
└──────────┘
";
    assert_eq!((text.code, &*text.stdout), (Some(0), expected), "{text:?}");
    world.clean_kill().await
}

#[tokio::test]
async fn events_show_a_bounce_with_who_and_why() -> TestResult {
    let world = World::start().await?;
    let mut events = world.program(&["events"]);
    let mut events = events.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut notes = BufReader::new(events.stderr.take().ok_or("no stderr")?).lines();
    let mut lines = BufReader::new(events.stdout.take().ok_or("no stdout")?).lines();
    let note = notes.next_line().await?.ok_or("no note")?;
    assert!(note.starts_with("following the events of life "), "{note}");

    let ran = world.run(&["bounce", "site/well", "--reason", "a new page"]).await?;

    assert_eq!((ran.code, &*ran.stdout), (Some(0), "bounced /agent/site/well\n"), "{ran:?}");
    let line = lines.next_line().await?.ok_or("no event")?;
    assert!(line.contains(" /agent/site/well bounced (ada (uid "), "{line}");
    assert!(line.ends_with("): a new page)"), "{line}");
    world.clean_kill().await?;
    assert_eq!(events.wait().await?.code(), Some(0));
    Ok(())
}

#[tokio::test]
async fn events_end_when_nobody_reads_them_any_more() -> TestResult {
    let world = World::start().await?;
    let mut events = world.program(&["events"]);
    let mut events = events.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut notes = BufReader::new(events.stderr.take().ok_or("no stderr")?).lines();
    let note = notes.next_line().await?.ok_or("no note")?;
    assert!(note.starts_with("following the events of life "), "{note}");

    // Nothing happens meanwhile.
    drop(events.stdout.take());

    assert_eq!(within(events.wait()).await??.code(), Some(0));
    world.clean_kill().await
}

#[tokio::test]
async fn the_engine_itself_is_no_worker_to_ask_about_or_to_bounce() -> TestResult {
    let world = World::start().await?;

    for path in ["", "/", "/agent", "/agent/"] {
        for command in ["why", "bounce", "park", "unpark"] {
            let ran = world.run(&[command, path]).await?;

            let expected = "crankcase: the agent refused: \"/agent\" is the engine itself; name one \
                            of its workers, as \"/agent/NAME\"\n";
            assert_eq!(
                (ran.code, &*ran.stderr),
                (Some(64), expected),
                "{command} {path:?}: {ran:?}"
            );
        }
    }
    world.clean_kill().await
}

#[tokio::test]
async fn a_reason_that_cannot_be_sent_is_refused_by_the_name_of_its_option() -> TestResult {
    let long = "x".repeat(1001);
    for (reason, wrong) in [
        ("two\nlines", "has control characters"),
        ("\u{1b}[2J", "has control characters"),
        (long.as_str(), "is too long"),
    ] {
        for command in ["bounce", "park", "unpark"] {
            // There is no agent to be asked.
            let folder = tempfile::tempdir()?;
            let mut asking = program(&[command, "site/well", "--reason", reason, "--state-dir"]);
            asking.arg(folder.path());
            let ran = ran(asking).await?;

            let expected = format!(
                "crankcase: --reason {wrong}; a reason is one line of at most 1000 characters\n"
            );
            assert_eq!((ran.code, &*ran.stdout, &*ran.stderr), (Some(64), "", &*expected));
        }
    }
    Ok(())
}

#[tokio::test]
async fn whatever_the_user_is_called_a_bounce_is_done() -> TestResult {
    let world = World::start().await?;
    let long = "x".repeat(1001);

    for (user, logname) in [("a\nda\u{1b}", ""), ("\n", "ada"), (long.as_str(), ""), ("", "")] {
        let mut bounce = world.program(&["bounce", "site/well"]);
        bounce.env("USER", user).env("LOGNAME", logname);
        let ran = ran(bounce).await?;

        assert_eq!((ran.code, &*ran.stderr), (Some(0), ""), "{user:?}: {ran:?}");
    }
    world.clean_kill().await
}
