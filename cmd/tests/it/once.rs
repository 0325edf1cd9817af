//! Checking, planning and applying a site once.

use std::fs::File;
use std::io::Write;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::machine::{Machine, gone, signal, within};
use crate::world::{Error, TestResult};

/// Reads lines of data.
pub(crate) fn lines(text: &str) -> Result<Vec<Value>, Error> {
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// A folder, a page in it, and a command that leaves a mark.
const SITE: &str = r#"resources:
  docroot: {type: file, config: {path: "@/www/", mode: "0755"}}
  page:
    type: file
    dependencies: {dir: docroot}
    config: {path: "{{ deps.dir.state.path }}page", content: "one\ntwo\n", mode: "0644"}
  mark:
    type: exec
    dependencies: [page]
    config: {command: [/bin/sh, -c, "echo marked; : > @/mark"], creates: "@/mark"}
  server: {type: process, config: {command: [/bin/sleep, "1000"]}}
"#;

#[tokio::test]
async fn check_counts_the_resources_and_touches_nothing() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["check", "site.yaml"]).await?;

    assert_eq!((ran.code, &*ran.stdout), (Some(0), "4 resources are valid\n"), "{ran:?}");
    assert!(!machine.path("www").exists() && !machine.path("state").exists());
    Ok(())
}

#[tokio::test]
async fn plan_shows_the_differences_and_changes_nothing() -> TestResult {
    let machine = Machine::new(SITE)?;

    let ran = machine.run(&["plan", "site.yaml"]).await?;
    let again = machine.run(&["plan", "site.yaml", "--detailed-exitcode"]).await?;

    let expected = r#"~ docroot (file) would change
    state: "absent" -> "exists"
    mode: absent -> "0755"
    1. create_folder path="@/www/"
~ page (file) would change
    state: "absent" -> "exists"
    content: absent -> "8 bytes, sha256 c3f9c8c283a2"
      @@ -0,0 +1,2 @@
      +one
      +two
    mode: absent -> "0644"
    1. create path="@/www/page"
~ mark (exec) would change
    creates: absent -> "@/mark"
    1. run command=["/bin/sh","-c","echo marked; : > @/mark"]
= server (process) is supervised by run only
plan: 3 to change, 0 may change, 0 unchanged, 1 supervised by run only
"#;
    assert_eq!((ran.code, &*ran.stdout), (Some(0), expected), "{ran:?}");
    assert_eq!((again.code, &*again.stdout), (Some(2), expected), "{again:?}");
    assert!(!machine.path("www").exists() && !machine.path("mark").exists());
    Ok(())
}

#[tokio::test]
async fn what_acts_each_time_is_no_change_for_the_detailed_exit_code() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  hello: {type: print, config: {message: hello}}
  each: {type: exec, config: {command: ["true"]}}
  once: {type: exec, config: {command: [touch, "@/once"], creates: "@/once"}}
"#,
    )?;

    let first = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;
    let second = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;
    let plan = machine.run(&["plan", "site.yaml", "--detailed-exitcode"]).await?;

    assert_eq!([first.code, second.code, plan.code], [Some(2), Some(0), Some(0)], "{first:?}");
    assert!(second.stdout.ends_with("apply: 2 changed, 1 unchanged\n"), "{second:?}");
    assert!(plan.stdout.ends_with("plan: 2 to change, 0 may change, 1 unchanged\n"), "{plan:?}");
    Ok(())
}

#[tokio::test]
async fn apply_does_what_was_planned_and_nothing_the_second_time() -> TestResult {
    let machine = Machine::new(SITE)?;

    let first = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;
    let second = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;
    let plan = machine.run(&["plan", "site.yaml", "--detailed-exitcode"]).await?;

    let expected = r#"~ docroot (file) changed
    state: "absent" -> "exists"
    mode: absent -> "0755"
    done: create_folder path="@/www/"
~ page (file) changed
    state: "absent" -> "exists"
    content: absent -> "8 bytes, sha256 c3f9c8c283a2"
      @@ -0,0 +1,2 @@
      +one
      +two
    mode: absent -> "0644"
    done: create path="@/www/page"
~ mark (exec) changed
    creates: absent -> "@/mark"
    done: run command=["/bin/sh","-c","echo marked; : > @/mark"]
      | marked
= server (process) is supervised by run only
apply: 3 changed, 0 unchanged, 1 supervised by run only
"#;
    assert_eq!((first.code, &*first.stdout), (Some(2), expected), "{first:?}");
    let expected = "= server (process) is supervised by run only\n\
                    apply: 0 changed, 3 unchanged, 1 supervised by run only\n";
    assert_eq!((second.code, &*second.stdout), (Some(0), expected), "{second:?}");
    assert_eq!(plan.code, Some(0), "{plan:?}");
    assert_eq!(machine.read("www/page").as_deref(), Some("one\ntwo\n"));
    Ok(())
}

#[tokio::test]
async fn json_and_yaml_tell_the_same_plan_and_account() -> TestResult {
    let machine = Machine::new(SITE)?;

    machine.run(&["apply", "site.yaml"]).await?;
    for command in ["plan", "graph"] {
        let json = machine.run(&[command, "site.yaml", "--output", "json"]).await?;
        let yaml = machine.run(&[command, "site.yaml", "--output", "yaml"]).await?;
        let json: Value = serde_json::from_str(&json.stdout)?;
        let yaml: Value = serde_saphyr::from_str(&yaml.stdout)?;
        let names: Vec<_> =
            json["resources"].as_array().ok_or("no list")?.iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["docroot", "page", "mark", "server"], "{command}: {json}");
        assert_eq!((&json, &json["format"]), (&yaml, &1.into()), "{command}");
    }
    Ok(())
}

#[tokio::test]
async fn apply_tells_a_line_of_data_for_each_resource_and_of_what_an_action_says() -> TestResult {
    let machine = Machine::new(
        "resources:\n  says: {type: exec, config: {command: [echo, hello]}}\n  page: {type: file, \
         dependencies: [says], config: {path: '@/page', content: x}}\n",
    )?;

    let json = machine.run(&["apply", "site.yaml", "--output", "json"]).await?;
    let yaml = machine.run(&["apply", "site.yaml", "--output", "yaml"]).await?;

    let lines = lines(&json.stdout)?;
    let events: Vec<_> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["said", "resource", "resource", "end"], "{json:?}");
    assert!(lines.iter().all(|line| line["format"] == 1), "{json:?}");
    assert_eq!((&lines[0]["resource"], &lines[0]["line"]), (&"says".into(), &"hello".into()));
    assert_eq!(lines[1]["done"][0]["log"], json!(["hello"]));
    assert_eq!((&lines[2]["name"], &lines[2]["outcome"]), (&"page".into(), &"changed".into()));
    assert_eq!((&lines[3]["changed"], &lines[3]["failed"]), (&2.into(), &0.into()));
    assert_eq!(yaml.stdout.matches("---\nformat: 1\n").count(), 4, "{yaml:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_long_action_says_is_told_while_it_runs() -> TestResult {
    let machine = Machine::new(
        "resources:\n  long: {type: exec, config: {command: [sh, -c, 'echo one; cat @/go; echo two; cat \
         @/go']}}\n",
    )?;
    machine.fifo("go")?;
    let mut child = machine.begin(&["apply", "site.yaml"])?;
    let mut told = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();

    // How far it has come is told after a second, and then after two more.
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let line = within(told.next_line()).await??.ok_or("it said no more")?;
        seen.push(line);
        if seen.len() == 2 {
            drop(File::options().write(true).open(machine.path("go"))?);
        }
    }
    drop(File::options().write(true).open(machine.path("go"))?);
    let ran = machine.ended(child).await?;

    let progress = "apply: 0 of 1 done, at work on long";
    assert_eq!(seen, [progress, progress, "long: one", "long: two"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(())
}

/// One command that fails, what depends on it, and what does not.
const FAILING: &str = r#"resources:
  bad: {type: exec, config: {command: [/bin/sh, -c, "echo no luck >&2; exit 3"]}}
  after: {type: exec, dependencies: [bad], config: {command: [/bin/sh, -c, ": > @/after"]}}
  other: {type: exec, config: {command: [/bin/sh, -c, ": > @/other"], creates: "@/other"}}
"#;

#[tokio::test]
async fn a_failed_command_stops_what_depends_on_it_and_nothing_else() -> TestResult {
    let machine = Machine::new(FAILING)?;

    let ran = machine.run(&["apply", "site.yaml", "--detailed-exitcode"]).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    for part in [
        "! bad (exec) failed at run command=[",
        "the command exited with code 3; it said last: no luck\n",
        "      | no luck\n",
        "- after (exec) was skipped because of bad\n",
        "~ other (exec) changed\n",
        "apply: 1 changed, 0 unchanged, 2 failed or skipped\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(machine.path("other").exists() && !machine.path("after").exists());
    Ok(())
}

#[tokio::test]
async fn fail_fast_begins_nothing_after_a_failure() -> TestResult {
    // Sixteen run side by side, so the last one can begin only when another has failed.
    let mut site = "resources:\n".to_owned();
    for index in 0..16 {
        let bad = format!("  bad{index}: {{type: exec, config: {{command: [/bin/false]}}}}\n");
        site.push_str(&bad);
    }
    site.push_str("  last: {type: exec, config: {command: [/bin/sh, -c, ': > @/last']}}\n");
    let machine = Machine::new(&site)?;

    let fast = machine.run(&["apply", "site.yaml", "--fail-fast"]).await?;
    let was_begun = machine.path("last").exists();
    let slow = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(fast.code, Some(1), "{fast:?}");
    let expected = "- last (exec) was not attempted: another resource failed\n";
    assert!(fast.stdout.contains(expected) && !was_begun, "{fast:?}");
    assert_eq!(slow.code, Some(1), "{slow:?}");
    assert!(slow.stdout.contains("~ last (exec) changed\n"), "{slow:?}");
    Ok(())
}

#[tokio::test]
async fn an_interrupted_apply_ends_what_runs_and_says_what_was_not_attempted() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  first: {type: exec, config: {command: [/bin/sh, -c, ": > @/first"], creates: "@/first"}}
  long:
    type: exec
    dependencies: [first]
    config: {command: [/bin/sh, -c, "echo $$ > @/pid; exec sleep 1000"]}
  last: {type: exec, dependencies: [long], config: {command: [/bin/sh, -c, ": > @/last"]}}
"#,
    )?;
    for (asked, count) in [
        (Signal::INT, "1 changed, 0 unchanged"),
        (Signal::TERM, "0 changed, 1 unchanged"),
        (Signal::HUP, "0 changed, 1 unchanged"),
    ] {
        let child = machine.begin(&["apply", "site.yaml"])?;
        let pid = machine.lines("pid", 1).await?.remove(0);
        std::fs::remove_file(machine.path("pid"))?;

        signal(&child.id().ok_or("ended")?.to_string(), asked)?;
        let ran = machine.ended(child).await?;

        assert_eq!(ran.code, Some(130), "{ran:?}");
        for part in [
            "- long (exec) is unfinished: apply was told to stop\n",
            "    interrupted: run command=",
            "- last (exec) was not attempted: apply was told to stop\n",
            &format!("apply: {count}, 2 not attempted or interrupted\n"),
        ] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
        }
        gone(&pid).await?;
        assert!(!machine.path("last").exists());
    }
    Ok(())
}

#[tokio::test]
async fn a_hangup_that_is_ignored_interrupts_nothing() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  long: {type: exec, config: {command: [/bin/sh, -c, "echo begun > @/begun; read line < @/pipe"]}}
"#,
    )?;
    machine.fifo("pipe")?;
    let child = machine.program_after("trap '' HUP", &["apply", "site.yaml"]).spawn()?;
    machine.lines("begun", 1).await?;

    signal(&child.id().ok_or("ended")?.to_string(), Signal::HUP)?;
    let mut pipe = File::options().read(true).write(true).open(machine.path("pipe"))?;
    pipe.write_all(b"go\n")?;

    let ran = machine.ended(child).await?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_file_that_is_larger_than_allowed_fails_and_leaves_nothing_behind() -> TestResult {
    let machine = Machine::new(
        "resources: {large: {type: file, config: {path: '@/large', source: '@/source'}}}\n",
    )?;
    machine.write("source", &"x".repeat(1 << 20))?;

    let child = machine.program_after("ulimit -f 100", &["apply", "site.yaml"]).spawn()?;
    let ran = machine.ended(child).await?;

    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("File too large"), "{ran:?}");
    let mut left: Vec<_> = std::fs::read_dir(machine.path(""))?
        .map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()))
        .collect::<std::io::Result<_>>()?;
    left.sort_unstable();
    assert_eq!(left, ["site.yaml", "source", "state"]);
    Ok(())
}

#[tokio::test]
async fn an_apply_that_was_killed_is_taken_up_by_the_next() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  first: {type: file, config: {path: "@/first", content: "x"}}
  long:
    type: exec
    dependencies: [first]
    config: {command: [/bin/sh, -c, "test -e @/go || { echo $$ > @/pid; exec sleep 1000; }"]}
  last: {type: file, dependencies: [long], config: {path: "@/last", content: "y"}}
"#,
    )?;
    let mut child = machine.begin(&["apply", "site.yaml"])?;
    let pid = machine.lines("pid", 1).await?.remove(0);
    child.kill().await?;
    signal(&pid, Signal::KILL)?;
    assert!(!machine.path("last").exists());
    machine.write("go", "")?;

    let ran = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("apply: 2 changed, 1 unchanged\n"), "{ran:?}");
    assert_eq!(machine.read("last").as_deref(), Some("y"));
    Ok(())
}

#[tokio::test]
async fn what_takes_over_a_second_says_how_far_it_has_come() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  quick: {type: noop}
  long: {type: exec, dependencies: [quick], config: {command: [/bin/sh, -c, "read line < @/pipe"]}}
"#,
    )?;
    machine.fifo("pipe")?;
    let mut child = machine.begin(&["apply", "site.yaml"])?;
    let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?).lines();

    // The first one may come too soon, where everything takes long.
    while said.next_line().await?.ok_or("it has ended")? != "apply: 1 of 2 done, at work on long" {}
    let pipe = machine.path("pipe");
    tokio::task::spawn_blocking(move || std::fs::write(pipe, "go\n")).await??;
    let ran = machine.ended(child).await?;

    assert!(ran.code == Some(0) && ran.stdout.contains("apply: 1 changed"), "{ran:?}");
    Ok(())
}

/// A guard that takes as long as it is let.
const GUARDED: &str = r#"resources:
  slow:
    type: exec
    config:
      command: [/bin/sh, -c, ": > @/mark"]
      unless: [/bin/sh, -c, "test -e @/quick || { echo $$ > @/pid; exec sleep 1000; }; exit 1"]
"#;

#[tokio::test]
async fn an_interrupted_plan_ends_its_guards() -> TestResult {
    let machine = Machine::new(GUARDED)?;
    machine.write("quick", "")?;
    let saved = machine.run(&["plan", "site.yaml", "-o", "plan"]).await?;
    assert_eq!(saved.code, Some(0), "{saved:?}");
    std::fs::remove_file(machine.path("quick"))?;

    for arguments in [["plan", "site.yaml"], ["apply", "plan"]] {
        let child = machine.begin(&arguments)?;
        let pid = machine.lines("pid", 1).await?.remove(0);
        std::fs::remove_file(machine.path("pid"))?;
        signal(&child.id().ok_or("ended")?.to_string(), Signal::INT)?;
        let ran = machine.ended(child).await?;

        assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
        gone(&pid).await?;
        assert!(!machine.path("mark").exists(), "{arguments:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_that_reads_a_file_without_end_is_interrupted_all_the_same() -> TestResult {
    let machine = Machine::new(&format!(
        "{GUARDED}  large: {{type: file, config: {{path: '@/large', content: x}}}}\n"
    ))?;
    File::create(machine.path("large"))?.set_len(1 << 40)?;

    let child = machine.begin(&["plan", "site.yaml"])?;
    machine.lines("pid", 1).await?;
    signal(&child.id().ok_or("ended")?.to_string(), Signal::INT)?;
    let ran = machine.ended(child).await?;

    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    Ok(())
}

#[tokio::test]
async fn a_second_signal_ends_an_apply_that_waits_for_a_command() -> TestResult {
    // Asked to end it asks the program to end, again and again.
    let machine = Machine::new(
        r#"resources:
  stubborn:
    type: exec
    config:
      command:
        - /bin/sh
        - -c
        - "trap 'while kill -INT $PPID; do sleep 0.1; done' TERM; echo $$ > @/pid; sleep 1000 & wait"
      grace: 5m
"#,
    )?;

    let child = machine.begin(&["apply", "site.yaml"])?;
    let pid = machine.lines("pid", 1).await?.remove(0);
    signal(&child.id().ok_or("ended")?.to_string(), Signal::INT)?;
    let ran = machine.ended(child).await?;

    assert_eq!((ran.code, &*ran.stdout), (Some(130), ""), "{ran:?}");
    assert!(ran.stderr.contains("interrupted again: what ran was killed"), "{ran:?}");
    gone(&pid).await
}

#[tokio::test]
async fn a_signal_that_comes_with_the_first_one_is_no_second_one() -> TestResult {
    let machine = Machine::new(
        r#"resources:
  orderly:
    type: exec
    config:
      command: [/bin/sh, -c, "trap 'read line < @/pipe; exit 3' TERM; echo $$ > @/pid; sleep 1000 & wait"]
      grace: 5m
"#,
    )?;
    machine.fifo("pipe")?;
    let child = machine.begin(&["apply", "site.yaml"])?;
    machine.lines("pid", 1).await?;
    let program = child.id().ok_or("ended")?.to_string();

    // Suspended, so that both come at once however busy the machine is.
    for sent in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        signal(&program, sent)?;
    }
    // For the command that was asked to end, and not killed. Open for both, so that nobody is waited
    // for.
    let mut pipe = File::options().read(true).write(true).open(machine.path("pipe"))?;
    pipe.write_all(b"go\n")?;
    let ran = machine.ended(child).await?;

    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(
        ran.stdout.ends_with("apply: 0 changed, 0 unchanged, 1 not attempted or interrupted\n"),
        "{ran:?}"
    );
    Ok(())
}
