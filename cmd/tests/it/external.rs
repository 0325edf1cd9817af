//! Types that are programs of the machine, by protocol 0.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::machine::Machine;
use crate::world::{Error, TestResult};

/// A type that keeps a size in a file. Each call is noted in `calls`, with what it was told in `told.CALL`.
pub(crate) const DISK: &str = r#"#!/bin/sh
input=$(cat)
call=${1-init}
get() { printf '%s\n' "$input" | sed -n "s/^ *\"$1\": \"\(.*\)\",\{0,1\}\$/\1/p" | head -n 1; }
echo "$call $(printf '%s\n' "$input" | sed -n 's/^  "name": "\(.*\)",$/\1/p')" >> calls
printf '%s\n' "$input" > "told.$call"
path=$(get path) size=$(get size)
case $call in
init)
  echo "a type is asked" >&2
  echo '{"config_schema": {"type": "object", "required": ["path"], "additionalProperties": false,
         "properties": {"path": {"type": "string"}, "size": {"type": "string"}}},
         "state_action": {"args": ["state"]}}' ;;
state)
  if [ ! -e "$path" ]; then
    echo '{"status": "STALE", "actions": [{"name": "create", "description": "Create disk", "args": ["write"]}]}'
  elif [ "$(cat "$path")" = "$size" ]; then
    echo "{\"status\": \"VALID\", \"state\": {\"path\": \"$path\", \"size\": \"$size\", \"zone\": \"west\"}}"
  else
    echo "{\"status\": \"STALE\", \"staleState\": {\"path\": \"$path\", \"size\": \"$(cat "$path")\"},
           \"actions\": [{\"name\": \"resize\", \"args\": [\"write\"]}, {\"name\": \"notify\", \"args\": [\"say\", \"a b\"]}]}"
  fi ;;
write) echo "writes $size"; printf %s "$size" > "$path" ;;
say) echo "says $2" >&2 ;;
esac
"#;

const SITE: &str = r#"resources:
  vm:
    type: file
    dependencies: {disk: data}
    config: {path: "@/vm", content: "{{ disk.name }} {{ deps.disk.type == deps['disk'].type }} {{ disk.state.zone }}"}
  data: {type: "program:./disk", config: {path: "@/data", size: "200gb"}}
"#;

/// Writes a program.
pub(crate) fn program(machine: &Machine, name: &str, text: &str) -> TestResult {
    machine.write(name, text)?;
    Ok(fs::set_permissions(machine.path(name), Permissions::from_mode(0o755))?)
}

fn start() -> Result<Machine, Error> {
    let machine = Machine::new(SITE)?;
    program(&machine, "disk", DISK)?;
    Ok(machine)
}

fn calls(machine: &Machine) -> Vec<String> {
    let calls = machine.read("calls").unwrap_or_default();
    let _gone = fs::remove_file(machine.path("calls"));
    calls.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_program_is_checked_planned_applied_and_found_as_declared() -> TestResult {
    let machine = start()?;

    let check = machine.run(&["check", "site.yaml"]).await?;
    let first = calls(&machine);
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    let looked = calls(&machine);
    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let acted = calls(&machine);
    let again = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!((check.code, &*check.stdout), (Some(0), "2 resources are valid\n"), "{check:?}");
    assert_eq!(
        (first, looked),
        (vec!["init data".to_owned()], vec!["init data".to_owned(), "state data".to_owned()])
    );
    let expected = "\
~ data (program:@/disk) would change
    state: \"absent\" -> \"exists\"
    1. create description=\"Create disk\" args=[\"write\"]
? vm (file) may change after data: ";
    assert!(plan.stdout.starts_with(expected), "{plan:?}");
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert!(
        applied.stdout.contains(
            "    done: create description=\"Create disk\" args=[\"write\"]\n      | writes 200gb\n"
        ),
        "{applied:?}"
    );
    assert_eq!(acted, ["init data", "state data", "write data", "state data"]);
    assert_eq!(machine.read("vm").as_deref(), Some("data true west"));
    assert_eq!(again.stdout, "apply: 0 changed, 2 unchanged\n");
    Ok(())
}

#[tokio::test]
async fn each_call_is_told_what_the_protocol_says() -> TestResult {
    let machine = start()?;
    machine.write("data", "100gb")?;

    let applied = machine.run(&["apply", "site.yaml", "--only", "data", "-v"]).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    let expected = "\
~ data (program:@/disk) changed
    size: \"100gb\" -> \"200gb\"
    done: resize args=[\"write\"]
      | writes 200gb
    done: notify args=[\"say\",\"a b\"]
      | says a b
apply: 1 changed, 0 unchanged
";
    assert_eq!(applied.stdout, expected);
    assert!(applied.stderr.contains("a type is asked"), "{applied:?}");
    let told = |call: &str| -> Result<Value, Error> {
        let told = machine.read(&format!("told.{call}")).ok_or("it was not called")?;
        Ok(serde_json::from_str(&machine.generic(&told))?)
    };
    let init = json!({"name": "data", "type": "program:@/disk", "version": "18.0.0", "verbose": true, "workspace": "@"});
    let mut state = init.clone();
    state["config"] = json!({"path": "@/data", "size": "200gb"});
    let mut action = state.clone();
    action["staleState"] = json!({"path": "@/data", "size": "100gb"});
    assert_eq!((told("init")?, told("state")?, told("write")?), (init, state, action));
    Ok(())
}

#[tokio::test]
async fn nothing_is_asked_of_a_manifest_that_is_wrong() -> TestResult {
    let machine = start()?;
    let circle =
        SITE.replace("type: \"program:./disk\",", "type: \"program:./disk\", dependencies: [vm],");
    let unknown = SITE.replace("disk: data", "disk: dat");
    let reference =
        "resources: {a: {type: \"acme/-x\"}, b: {type: \"docker:\"}, c: {type: \"program:\"}}\n";
    let undefined = SITE.replace("size: \"200gb\"", "size: \"{{ nope }}\"");
    for (site, expected) in [
        (circle.as_str(), "circular dependency: vm -> data -> vm"),
        (&unknown, "unknown resource \"dat\""),
        (
            reference,
            "it is no reference of an image; write it as [HOST[:PORT]/]NAME[:TAG][@DIGEST]",
        ),
        (&undefined, "unknown name \"nope\""),
    ] {
        machine.write("site.yaml", &machine.text(site))?;

        let check = machine.run(&["check", "site.yaml"]).await?;

        assert_eq!(check.code, Some(65), "{check:?}");
        assert!(check.stderr.contains(expected), "{check:?}");
    }
    assert_eq!(calls(&machine), [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_config_that_the_schema_refuses_is_refused_before_anything_is_changed() -> TestResult {
    let machine = start()?;
    let wrong = SITE.replace("size: \"200gb\"", "size: 200, colour: red");
    machine.write("site.yaml", &machine.text(&wrong))?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(65), "{applied:?}");
    for expected in [
        "site.yaml:6:73: size: illegal config for 'data.config.size': 200 is not of type \"string\"",
        "illegal config for 'data.config': Additional properties are not allowed ('colour' was unexpected)",
    ] {
        assert!(applied.stderr.contains(expected), "{expected}: {applied:?}");
    }
    assert_eq!(calls(&machine), ["init data"]);
    Ok(())
}

/// Returns a program that answers so.
pub(crate) fn answering(init: &str, state: &str) -> String {
    format!("#!/bin/sh\ncase ${{1-init}} in init) {init} ;; state) {state} ;; *) exit 3 ;; esac\n")
}

pub(crate) const INIT: &str = r#"echo '{"state_action": {"args": ["state"]}}'"#;

#[tokio::test]
async fn a_type_that_does_not_say_how_it_works_is_an_error_of_its_resource() -> TestResult {
    let site =
        "resources:\n  r1: {type: \"program:./it\"}\n  ok: {type: print, config: {message: hi}}\n";
    let machine = Machine::new(site)?;
    for (init, expected) in [
        (
            "echo no >&2; exit 7",
            "init of 'r1' (@/it): command terminated with exit code #7!; it said last: no",
        ),
        ("kill -9 $$", "command was ended by signal 9"),
        ("echo nope", "command provided invalid JSON: expected"),
        ("echo '{} x'", "command provided invalid JSON: trailing characters"),
        (":", "command did not provide any JSON back!"),
        (
            "echo '{}'",
            "protocol error: 'r1' initialization result failed validation: missing field `state_action`",
        ),
        ("echo '{\"state_action\": {}}'", "state action must not equal the default 'init' action"),
        (
            "echo '{\"state_action\": {\"args\": [\"x\"]}, \"config_schema\": {\"type\": \"objekt\"}}'",
            "protocol error: the config_schema of 'r1' is no schema: ",
        ),
        (
            "echo '{\"state_action\": {\"args\": [\"x\"]}, \"plugs\": {\"p\": {\"container_path\": \"/p\"}}}'",
            "illegal config: plug 'p' required by 'r1' does not exist",
        ),
        ("head -c 20000000 /dev/zero", "command answered more than 16777216 bytes"),
    ] {
        program(&machine, "it", &answering(init, "exit 9"))?;

        let plan = machine.run(&["plan", "site.yaml"]).await?;

        assert_eq!((plan.code, &*plan.stdout), (Some(65), ""), "{init}: {plan:?}");
        assert!(plan.stderr.contains("site.yaml:2:3: "), "{init}: {plan:?}");
        assert!(plan.stderr.contains(expected), "{init}: {plan:?}");
    }
    fs::remove_file(machine.path("it"))?;
    let plan = machine.run(&["plan", "site.yaml"]).await?;
    assert!(plan.stderr.contains("cannot read the program @/it: "), "{plan:?}");
    Ok(())
}

#[tokio::test]
async fn a_state_that_is_not_of_the_protocol_fails_the_resource_alone() -> TestResult {
    let site = "resources:\n  r1: {type: \"program:./it\"}\n  after: {type: print, dependencies: [r1], \
                config: {message: no}}\n  other: {type: file, config: {path: \"@/other\", content: x}}\n";
    let machine = Machine::new(site)?;
    for (state, expected) in [
        (
            r#"echo '{"status": "VALID", "state": {}, "actions": []}'"#,
            "protocol error: 'r1' state result failed validation: 'actions' is forbidden when status is VALID",
        ),
        (r#"echo '{"status": "STALE", "actions": []}'"#, "'actions' is empty"),
        ("exit 4", "state of 'r1' (@/it): command terminated with exit code #4!"),
        (
            r#"echo '{"status": "STALE", "actions": [{"name": "mend", "args": ["mend"]}]}'"#,
            "r1 (program:@/it) failed at mend args=[\"mend\"]: mend of 'r1' (@/it): command terminated with exit code #3!",
        ),
        (r#"echo '{"status": "STALE", "actions": [{"name": "mend", "args": ["state"]}]}'"#, "r1"),
        (
            r#"echo '{"status": "STALE", "actions": [{"name": "mend", "image": "-v"}]}'"#,
            "protocol error: the image \"-v\": it is no reference of an image",
        ),
    ] {
        program(&machine, "it", &answering(INIT, state))?;

        let applied = machine.run(&["apply", "site.yaml"]).await?;

        assert_eq!(applied.code, Some(1), "{state}: {applied:?}");
        assert!(applied.stdout.contains(expected), "{state}: {applied:?}");
        assert!(
            applied.stdout.contains("- after (print) was skipped because of r1\n"),
            "{applied:?}"
        );
        assert_eq!(machine.read("other").as_deref(), Some("x"));
    }
    Ok(())
}

#[tokio::test]
async fn plugs_are_handed_over_by_name() -> TestResult {
    let plugs =
        "plugs: {key-file: {path: \"{{ root }}/key\", read_only: true}}\nvars: {root: \"@\"}\n";
    let machine = Machine::new(&format!("{plugs}resources: {{r1: {{type: \"program:./it\"}}}}\n"))?;
    machine.write("key", "secret")?;
    let plug = "{\"container_path\": \"/key\", \"writable\": false}";
    let init = format!(
        "echo '{{\"state_action\": {{\"args\": [\"state\"]}}, \"plugs\": {{\"key-file\": {plug}}}}}'"
    );
    let state = r#"printf '{"status": "VALID", "state": {"key": "%s"}}' "$(cat "$CRANKCASE_PLUG_KEY_FILE")""#;
    program(&machine, "it", &answering(&init, state))?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;
    let above = "plugs: {key-file: {path: \"@\"}}\nresources: {r1: {type: \"program:./it\"}}\n";
    machine.write("site.yaml", above)?;
    let refused = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(
        (applied.code, &*applied.stdout),
        (Some(0), "apply: 0 changed, 1 unchanged\n"),
        "{applied:?}"
    );
    assert_eq!(refused.code, Some(65), "{refused:?}");
    assert!(
        refused.stderr.contains("site.yaml:1:9: @ holds the state folder, which no type may have"),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn what_is_only_read_is_never_acted_on() -> TestResult {
    let machine = start()?;
    let site =
        SITE.replace("type: \"program:./disk\",", "type: \"program:./disk\", readonly: true,");
    machine.write("site.yaml", &machine.text(&site))?;
    machine.write("data", "100gb")?;

    let applied = machine.run(&["apply", "site.yaml", "--only", "data"]).await?;

    assert!(!applied.stdout.contains("done:"), "{applied:?}");
    assert_eq!(machine.read("data").as_deref(), Some("100gb"));
    assert!(calls(&machine).iter().all(|call| !call.starts_with("write")));
    Ok(())
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended_with_all_that_it_has_started() -> TestResult {
    let site = "resources: {r1: {type: \"program:./it\", meta: {timeout: 1s}}}\n";
    let machine = Machine::new(site)?;
    program(&machine, "it", &answering(INIT, "sleep 1000 & echo $! > child; wait"))?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    let child = machine.read("child").ok_or("it was not started")?;
    crate::machine::gone(child.trim()).await?;
    Ok(())
}

#[tokio::test]
async fn an_agent_repairs_what_a_poll_has_found_and_goes_on_without_a_broken_type() -> TestResult {
    let site = format!("{SITE}  broken: {{type: \"program:./broken\"}}\n")
        .replace("size: \"200gb\"}}", "size: \"200gb\"}, meta: {poll: 1s}}");
    let machine = Machine::new(&site)?;
    program(&machine, "disk", DISK)?;
    program(&machine, "broken", &answering("exit 5", "exit 6"))?;
    let mut agent = Agent::start(&machine).await?;
    agent.until_logged(&["/agent/resources/broken: a worker is degraded", "exit code #5!"]).await?;
    agent.until_logged(&["vm: changed"]).await?;

    machine.write("data", "1gb")?;
    agent.until_logged(&["data: repaired: size: \"1gb\" -> \"200gb\""]).await?;
    let right = answering(INIT, r#"echo '{"status": "VALID", "state": {}}'"#);
    program(&machine, "broken", &right)?;
    agent.until_logged(&["/agent/resources/broken: a worker is well again"]).await?;

    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn an_agent_looks_again_at_what_depends_on_a_state_that_has_changed() -> TestResult {
    let site = r#"resources:
  a: {type: "program:./a", meta: {poll: 1s}}
  b: {type: "program:./b", dependencies: [a], config: {x: "{{ a.state.x }}"}, meta: {poll: 1h}}
"#;
    let machine = Machine::new(site)?;
    machine.write("x", "first")?;
    let tells = r#"printf '{"status": "VALID", "state": {"x": "%s"}}' "$(cat x)""#;
    program(&machine, "a", &answering(INIT, tells))?;
    let notes = r#"cat > told.new; mv told.new told; echo '{"status": "VALID", "state": {}}'"#;
    program(&machine, "b", &answering(INIT, notes))?;
    let agent = Agent::start(&machine).await?;
    machine.until("told", |told| told.contains("\"x\": \"first\"")).await?;

    machine.write("x", "second")?;
    machine.until("told", |told| told.contains("\"x\": \"second\"")).await?;

    agent.clean_kill(&machine).await
}

#[tokio::test]
async fn files_of_variables_count_without_being_named() -> TestResult {
    let site = "vars: {a: \"0\", b: \"0\", c: \"0\", d: \"0\"}\nresources: {it: {type: file, config: \
                {path: \"@/it\", content: \"{{ a }}{{ b }}{{ c }}{{ d }}\"}}}\n";
    let machine = Machine::new(site)?;
    fs::create_dir(machine.path("conf"))?;
    machine.write("conf/vars.auto.yaml", "{a: \"1\", b: \"1\", c: \"1\", d: \"1\"}\n")?;
    machine.write("vars.1.auto.yaml", "{b: \"2\", c: \"2\", d: \"2\"}\n")?;
    machine.write("vars.2.auto.yaml", "{c: \"3\", d: \"3\"}\n")?;
    machine.write("mine.txt", "{d: \"4\"}\n")?;
    let words = ["--conf", "conf", "--var-file", "mine.txt"];

    let file = machine.run(&[&["apply", "site.yaml"], &words[..]].concat()).await?;
    let by_file = machine.read("it");
    fs::remove_file(machine.path("mine.txt"))?;
    let folder = machine.run(&["apply", "."]).await?;

    assert_eq!((file.code, by_file.as_deref()), (Some(0), Some("1234")), "{file:?}");
    assert_eq!((folder.code, machine.read("it").as_deref()), (Some(0), Some("0233")), "{folder:?}");
    Ok(())
}

#[tokio::test]
async fn what_the_machine_lacks_is_told_from_what_the_manifest_says_wrong() -> TestResult {
    let site = "resources:\n  r1: {type: \"program:./it\"}\n  other: {type: file, config: {path: \"@/other\", content: x}}\n";
    let machine = Machine::new(site)?;
    let apply = async || machine.run(&["apply", "site.yaml"]).await;

    // A program that may not be executed, and one of no machine.
    machine.write("it", "#!/bin/sh\n")?;
    let not_executable = apply().await?;
    program(&machine, "it", "\u{7f}ELF and no more")?;
    let other = apply().await?;
    fs::remove_file(machine.path("it"))?;
    let missing = apply().await?;
    // A stand-in, as root may use every socket: it says what an engine says that may not be asked.
    machine.write("site.yaml", &machine.text(&site.replace("program:./it", "acme/it:1")))?;
    program(
        &machine,
        "engine",
        "#!/bin/sh\necho 'permission denied while trying to connect' >&2; exit 1\n",
    )?;
    let engine = machine.path("engine").display().to_string();
    let denied = machine.run(&["apply", "site.yaml", "--engine", &engine]).await?;
    machine.write(
        "site.yaml",
        &machine.text(&format!("{}  more: 3\n", site.replace("program:./it", "acme/it:1"))),
    )?;
    let both = machine.run(&["apply", "site.yaml", "--engine", &engine]).await?;

    for (ran, code, expected) in [
        (&not_executable, 1, "cannot run init of 'r1' (@/it): "),
        (&other, 1, "cannot run init of 'r1' (@/it): "),
        (&missing, 65, "cannot read the program @/it: "),
        (&denied, 1, "does not say what acme/it:1 is: permission denied while trying to connect"),
        (&both, 65, "resource \"more\" is a map, not a number"),
    ] {
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.stderr.contains("site.yaml:") && ran.stderr.contains(expected), "{ran:?}");
        assert_eq!(machine.read("other"), None, "{ran:?}");
    }
    Ok(())
}
