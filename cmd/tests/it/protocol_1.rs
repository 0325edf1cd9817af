//! Types that are programs of the machine, by protocol 1.

use std::fs;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::external::program;
use crate::machine::{Machine, gone};
use crate::world::{Error, TestResult};

/// A type that keeps a size in a file. In another zone it has to be made anew.
const DISK: &str = r#"#!/bin/sh
input=$(cat)
call=${1-init}
get() { printf '%s\n' "$input" | sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" | head -n 1; }
echo "$call" >> calls
printf '%s\n' "$input" > "told.$call"
path=$(get path) size=$(get size) zone=$(get zone)
case $call in
init) cat <<END
{"protocol": 1, "summary": "a disk", "network": false,
 "config_schema": {"type": "object", "required": ["path", "size"]},
 "dependencies": {"net": {"type": "file", "optional": true}},
 "timeouts": {"check": "20s", "action": "20s"},
 "sensitive": {"config": ["/key"], "state": ["/token"]},
 "calls": {"check": {"args": ["check"]}, "delete": {"args": ["delete"]},
           "reverse": {"args": ["reverse"]}, "watch": {"args": ["watch"]}}}
END
;;
check)
  planned="{\"path\": \"$path\", \"size\": \"$size\"}"
  warnings='"warnings": ["disks of this type will be gone"]'
  if [ ! -e "$path" ]; then
    echo "{\"status\": \"STALE\", \"planned\": $planned, $warnings,
           \"differences\": [{\"attribute\": \"size\", \"old\": null, \"new\": \"$size\"}],
           \"actions\": [{\"name\": \"create\", \"args\": [\"write\"], \"changes\": [\"size\"]}]}"
    exit
  fi
  now=$(cat "$path")
  state="{\"path\": \"$path\", \"size\": \"${now% *}\", \"token\": \"tok-${now% *}-en\"}"
  if [ "$now" = "$size $zone" ]; then
    echo "{\"status\": \"VALID\", \"state\": $state, \"requeue_after\": \"1h\"}"
  elif [ "${now#* }" = "$zone" ]; then
    echo "{\"status\": \"STALE\", \"staleState\": $state, \"planned\": $planned,
           \"actions\": [{\"name\": \"resize\", \"args\": [\"write\"]}]}"
  else
    echo "{\"status\": \"STALE\", \"staleState\": $state, \"planned\": $planned, \"replace\": true,
           \"differences\": [{\"attribute\": \"zone\", \"old\": \"${now#* }\", \"new\": \"$zone\"}],
           \"actions\": [{\"name\": \"create\", \"args\": [\"write\"]}]}"
  fi ;;
write) [ ! -e "$path" ] || [ "$(cat "$path" | cut -d ' ' -f 2)" = "$zone" ] || exit 9
  printf '%s' "$size $zone" > "$path.new"; mv "$path.new" "$path" ;;
delete) rm "$path" ;;
reverse)
  if [ -e "$path" ]; then
    now=$(cat "$path")
    echo "{\"config\": {\"path\": \"$path\", \"size\": \"${now% *}\", \"zone\": \"${now#* }\"}}"
  else
    echo '{"config": null}'
  fi ;;
watch) echo up > watching; while read -r line; do echo "$line"; done < fifo ;;
esac
"#;

const SITE: &str = r#"resources:
  data: {type: "program:./disk", config: {path: "@/data", size: "200gb", zone: west, key: k3y-k3y}}
  note: {type: file, dependencies: {disk: data}, config: {path: "@/note", content: "{{ disk.state.size }}"}}
"#;

fn start() -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    program(&machine, "disk", DISK)?;
    Ok(machine)
}

#[tokio::test]
async fn a_plan_shows_what_a_type_foresees() -> TestResult {
    let machine = start()?;

    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let again = machine.run(&["apply", "site.yaml"]).await?;

    let expected = "\
~ data (program:@/disk) would change
    size: absent -> \"200gb\"
    1. create args=[\"write\"]
~ note (file) would change
    state: \"absent\" -> \"exists\"
    content: absent -> \"5 bytes, sha256 ";
    assert!(plan.stdout.starts_with(expected), "{plan:?}");
    assert!(plan.stderr.contains("disks of this type will be gone"), "{plan:?}");
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(machine.read("note").as_deref(), Some("200gb"));
    assert_eq!(again.stdout, "apply: 0 changed, 2 unchanged\n");
    let told: Value = serde_json::from_str(&machine.read("told.check").ok_or("nothing")?)?;
    assert_eq!(
        (&told["protocol"], &told["call"], &told["dependencies"]),
        (&json!(1), &json!("check"), &json!({}))
    );
    Ok(())
}

#[tokio::test]
async fn what_has_to_be_made_anew_is_deleted_first() -> TestResult {
    let machine = start()?;
    machine.write("data", "100gb east")?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    let expected = "\
~ data (program:@/disk) changed
    zone: \"east\" -> \"west\"
    done: delete description=\"Delete it\" args=[\"delete\"]
    done: create args=[\"write\"]
";
    assert!(applied.stdout.starts_with(expected), "{applied:?}");
    assert_eq!(machine.read("data").as_deref(), Some("200gb west"));
    Ok(())
}

#[tokio::test]
async fn what_is_not_as_was_foreseen_has_failed() -> TestResult {
    let machine = start()?;
    program(
        &machine,
        "disk",
        &DISK.replace("\\\"size\\\": \\\"$size\\\"}\"", "\\\"size\\\": \\\"1tb\\\"}\""),
    )?;

    let applied = machine.run(&["apply", "site.yaml", "--only", "data"]).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert!(applied.stdout.contains("size was to be \"1tb\" and is \"200gb\""), "{applied:?}");
    Ok(())
}

#[tokio::test]
async fn what_a_type_says_is_secret_is_shown_nowhere() -> TestResult {
    let machine = start()?;
    program(&machine, "disk", &DISK.replace("write) ", "write) echo \"with $(get key)\"; "))?;
    let tells = SITE.replace("{{ disk.state.size }}", "{{ disk.state.token }}");
    machine.write("site.yaml", &machine.text(&tells))?;

    let applied = machine.run(&["apply", "site.yaml", "-v"]).await?;
    machine.write("note", "other")?;
    let plan = machine.run(&["plan", "site.yaml", "--output", "json"]).await?;

    assert_eq!((applied.code, plan.code), (Some(0), Some(0)), "{applied:?} {plan:?}");
    assert!(applied.stdout.contains("      | with (sensitive)\n"), "{applied:?}");
    for text in [applied.stdout, applied.stderr, plan.stdout, plan.stderr] {
        assert!(!text.contains("k3y-k3y") && !text.contains("tok-200gb-en"), "{text}");
    }
    assert_eq!(machine.read("note").as_deref(), Some("other"));
    Ok(())
}

#[tokio::test]
async fn what_leaves_is_put_back_as_it_was_or_deleted() -> TestResult {
    let machine = start()?;
    let one = r#"  data: {type: "program:./disk", meta: {reverse: true}, config: {path: "@/data", size: "200gb", zone: west}}
"#;
    let other = r#"  other: {type: "program:./disk", meta: {reverse: true}, config: {path: "@/other", size: "1gb", zone: west}}
"#;
    let stays = r#"  stays: {type: "program:./disk", config: {path: "@/stays", size: "1gb", zone: west}}
"#;
    machine.write("data", "100gb west")?;
    machine.write("site.yaml", &machine.text(&format!("resources:\n{one}{other}{stays}")))?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", &machine.text(&format!("resources:\n{stays}")))?;

    let back = machine.run(&["apply", "site.yaml"]).await?;
    let again = machine.run(&["plan", "site.yaml"]).await?;

    assert_eq!((applied.code, back.code), (Some(0), Some(0)), "{applied:?} {back:?}");
    for line in
        ["~ data (program:@/disk) was put back\n", "~ other (program:@/disk) was put back\n"]
    {
        assert!(back.stdout.contains(line), "{back:?}");
    }
    assert_eq!(machine.read("data").as_deref(), Some("100gb west"));
    assert!(!fs::exists(machine.path("other"))? && fs::exists(machine.path("stays"))?);
    assert_eq!(again.stdout, "plan: 0 to change, 0 may change, 1 unchanged\n");
    Ok(())
}

#[tokio::test]
async fn the_last_resource_of_a_type_is_put_back_too() -> TestResult {
    let machine = start()?;
    let plugs = "plugs: {folder: {path: \"@/offered\"}}\n";
    let asks = DISK.replace(
        "\"network\": false,",
        "\"network\": false, \"plugs\": {\"folder\": {\"path\": \"/f\"}},",
    );
    program(&machine, "disk", &asks)?;
    fs::create_dir(machine.path("offered"))?;
    machine.write("data", "100gb west")?;
    let one = r#"  data: {type: "program:./disk", meta: {reverse: true}, config: {path: "@/data", size: "200gb", zone: west}}
"#;
    let other = "  other: {type: print, config: {message: hi}}\n";
    machine.write("site.yaml", &machine.text(&format!("{plugs}resources:\n{one}{other}")))?;
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    machine.write("site.yaml", &machine.text(&format!("{plugs}resources:\n{other}")))?;

    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let back = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!((applied.code, back.code), (Some(0), Some(0)), "{applied:?} {back:?}");
    assert!(plan.stdout.contains("~ data (program:@/disk) would be put back\n"), "{plan:?}");
    assert!(back.stdout.contains("~ data (program:@/disk) was put back\n"), "{back:?}");
    assert_eq!(machine.read("data").as_deref(), Some("100gb west"));
    Ok(())
}

#[tokio::test]
async fn dependencies_are_those_that_the_type_wants() -> TestResult {
    let site = r#"resources:
  net: {type: print, config: {message: hi}}
  file: {type: file, config: {path: "@/file", content: x}}
  right: {type: "program:./disk", dependencies: {net: file}, config: {path: "@/a", size: "1gb"}}
  wrong: {type: "program:./disk", dependencies: {net: net, lan: file}, config: {path: "@/b", size: "1gb"}}
  needs: {type: "program:./needs", config: {path: "@/c", size: "1gb"}}
"#;
    let machine = Machine::new(site)?;
    program(&machine, "disk", DISK)?;
    program(&machine, "needs", &DISK.replace(", \"optional\": true", ""))?;

    let check = machine.run(&["check", "site.yaml"]).await?;

    assert_eq!(check.code, Some(65), "{check:?}");
    for expected in [
        "site.yaml:5:3: 'wrong' does not accept dependencies: 'lan'",
        "site.yaml:5:3: the dependency 'net' of 'wrong' is of type print, and has to be of type file",
        "site.yaml:6:3: 'needs' lacks the dependency 'net'",
    ] {
        assert!(check.stderr.contains(expected), "{expected}: {check:?}");
    }
    assert!(!check.stderr.contains("site.yaml:4"), "{check:?}");
    // Once for each type, and not for each resource.
    assert_eq!(machine.read("calls").as_deref(), Some("init\ninit\n"));
    Ok(())
}

#[tokio::test]
async fn an_agent_looks_again_when_a_watch_says_so() -> TestResult {
    let machine = start()?;
    machine.fifo("fifo")?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["note: changed"]).await?;
    machine.until("watching", |text| text == "up\n").await?;

    machine.write("data", "1gb west")?;
    fs::write(machine.path("fifo"), "something\n")?;
    let repaired = agent.until_logged(&["data: repaired: size: \"1gb\" -> \"200gb\""]).await?;
    // The program has ended with its pipe, and is started again.
    agent.clean_kill(&machine).await?;

    assert!(repaired.contains("why: its watch has told of a change"), "{repaired}");
    Ok(())
}

#[tokio::test]
async fn an_agent_looks_again_when_a_check_has_asked_for_it() -> TestResult {
    let machine = start()?;
    let soon = DISK.replace("\"requeue_after\\\": \\\"1h", "\"requeue_after\\\": \\\"100ms");
    program(&machine, "disk", &soon.replace(",\n           \"reverse\": {\"args\": [\"reverse\"]}, \"watch\": {\"args\": [\"watch\"]}", ""))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["note: changed"]).await?;

    machine.write("data", "1gb west")?;
    agent.until_logged(&["data: repaired: size: \"1gb\" -> \"200gb\""]).await?;

    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_watch_that_floods_is_ended() -> TestResult {
    let script = r#"#!/bin/sh
case ${1-init} in
init) echo '{"protocol": 1, "calls": {"check": {"args": ["check"]}, "watch": {"args": ["watch"]}}}' ;;
check) echo '{"status": "VALID", "state": {}}' ;;
watch) echo $$ > up; exec yes ;;
esac
"#;
    let machine = Machine::new("resources: {r1: {type: \"program:./it\"}}\n")?;
    program(&machine, "it", script)?;
    let mut agent = Agent::start(&machine).await?;

    let limit = "wrote more lines than 10000 at once and then 1000 a second and was ended";
    agent.until_logged(&["its watch has failed", limit]).await?;

    gone(machine.read("up").ok_or("it was not started")?.trim()).await?;
    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn a_call_ends_after_the_time_that_the_type_says() -> TestResult {
    let script = r#"#!/bin/sh
case ${1-init} in
init) echo '{"protocol": 1, "timeouts": {"check": "CHECK", "action": "1s"}, "calls": {"check": {"args": ["check"]}}}' ;;
check) [ CHECK = 1s ] && sleep 1000; echo '{"status": "STALE", "actions": [{"name": "mend", "args": ["mend"]}]}' ;;
mend) echo begun; sleep 1000 ;;
esac
"#;
    let ends = async |check: &str, expected: &str| -> TestResult {
        let machine = Machine::new("resources: {r1: {type: \"program:./it\"}}\n")?;
        program(&machine, "it", &script.replace("CHECK", check))?;

        let applied = machine.run(&["apply", "site.yaml"]).await?;

        assert_eq!(applied.code, Some(1), "{applied:?}");
        assert!(applied.stdout.contains(expected), "{applied:?}");
        Ok(())
    };
    // At the same time, because each takes a second.
    tokio::try_join!(
        ends("1s", "check of 'r1' (@/it) took longer than 1s and was ended"),
        ends("1m", "mend of 'r1' (@/it) took longer than 1s and was ended; it said last: begun"),
    )?;
    Ok(())
}

#[tokio::test]
async fn a_type_can_be_tried_against_its_protocol() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    let quiet = DISK.replace(">> calls", ">/dev/null").replace("> \"told.$call\"", ">/dev/null");
    program(&machine, "disk", &quiet)?;
    program(&machine, "lazy", &quiet.replace("write) ", "write) exit; "))?;
    program(&machine, "mute", "#!/bin/sh\n")?;
    let in_place = quiet.replace("> \"$path.new\"; mv \"$path.new\" \"$path\"", "> \"$path\"");
    program(&machine, "torn", &in_place)?;
    let stamped = quiet.replace("write) ", "write) date +%s%N > \"$path.stamp\"; ");
    let stamped = stamped.replace("rm \"$path\"", "rm -f \"$path.stamp\" \"$path\"");
    program(&machine, "stamped", &stamped)?;
    machine.write("config.yaml", "path: FOLDER/disk\nsize: 1gb\nzone: west\n")?;
    let test_with = async |name: &str, words: &[&str]| {
        let all = ["types", "test", name, "--config", "config.yaml", "--sites", "1"];
        machine.run(&[&all[..], words].concat()).await
    };
    let test = async |name: &str| test_with(name, &[]).await;

    let good = test("program:./disk").await?;
    let lazy = test("program:./lazy").await?;
    let mute = test("program:./mute").await?;
    let none = test("disk").await?;
    let torn = test("program:./torn").await?;
    let stamped = test("program:./stamped").await?;
    let allowed = test_with("program:./stamped", &["--volatile", "disk.stamp"]).await?;
    let shown = machine.run(&["types", "program:./disk"]).await?;

    assert_eq!(
        (good.code, &*good.stdout),
        (Some(0), "program:@/disk is as it should be\n"),
        "{good:?}"
    );
    assert_eq!(lazy.code, Some(1), "{lazy:?}");
    assert!(lazy.stdout.contains("it is still not as declared after its actions"), "{lazy:?}");
    assert_eq!(mute.code, Some(65), "{mute:?}");
    assert!(mute.stderr.contains("command did not provide any JSON back!"), "{mute:?}");
    assert_eq!(none.code, Some(65), "{none:?}");
    for limit in [0, 1, 4, 7] {
        let expected = format!(
            "killed in action 1 when it has written {limit} bytes, it leaves files that are neither old nor new: "
        );
        let line = torn.stdout.lines().find(|line| line.contains(&expected));
        assert!(line.is_some_and(|line| line.ends_with("/world/disk")), "{limit}: {torn:?}");
    }
    let expected = "its actions and an apply leave different files, or other ones each time: ";
    let line = stamped.stdout.lines().find(|line| line.contains(expected));
    assert!(line.is_some_and(|line| line.ends_with("/world/disk.stamp")), "{stamped:?}");
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    let expected =
        "program:@/disk: a disk\n\nconfig, as a JSON Schema:\n{\n  \"type\": \"object\",\n";
    assert!(shown.stdout.starts_with(expected), "{shown:?}");
    Ok(())
}

#[tokio::test]
async fn the_protocols_are_printed_as_schemas() -> TestResult {
    let machine = Machine::new("resources: {}\n")?;
    for version in ["0", "1"] {
        let printed = machine.run(&["types", "--protocol", version]).await?;

        let schema: Value = serde_json::from_str(&printed.stdout)?;
        assert_eq!(schema["$id"], format!("urn:crankcase:protocol:{version}"));
    }
    let wrong = machine.run(&["types", "--protocol", "2"]).await?;
    assert_eq!(wrong.code, Some(64), "{wrong:?}");
    Ok(())
}
