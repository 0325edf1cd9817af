//! Manifests as they were written for Deployster.

use std::fs;

use crate::external::{INIT, answering, program};
use crate::machine::Machine;
use crate::world::TestResult;

/// A manifest without `vars`: what its expressions use comes from outside.
const SITE: &str = r#"plugs:
  "{{ where }}": {path: "{{ _workspace }}/{{ where }}", read_only: true, resource_types: ["program:"]}
resources:
  disk:
    type: "{{ kind }}"
    config: {path: "{{ _conf }}/disk", size: "{{ size }}"}
  vm:
    type: program:./vm
    dependencies: {"{{ alias }}": "{{ 'di' ~ 'sk' }}"}
    config: {version: "{{ _version }}", size: "{{ small.state.size ~ '!' }}"}
"#;

#[tokio::test]
async fn a_manifest_runs_as_it_is_with_variables_from_outside() -> TestResult {
    let machine = Machine::new("{}\n")?;
    fs::write(machine.path("site.yaml"), SITE)?;
    fs::create_dir(machine.path("keys"))?;
    fs::create_dir(machine.path("conf"))?;
    program(&machine, "disk", crate::external::DISK)?;
    program(
        &machine,
        "vm",
        &answering(INIT, r#"cat > told; echo '{"status": "VALID", "state": {}}'"#),
    )?;
    let words = ["apply", "site.yaml", "--conf", "conf", "--var"];
    let vars =
        ["size=1gb", "--var", "kind=program:./disk", "--var", "where=keys", "--var", "alias=small"];

    let applied = machine.run(&[&words[..], &vars].concat()).await?;
    let unknown = machine.run(&[&words[..], &vars, &["--var", "sise=1"]].concat()).await?;
    // A word that stands somewhere is no use of a variable.
    let word = machine.run(&[&words[..], &vars, &["--var", "config=1"]].concat()).await?;
    let missing = machine.run(&[&words[..], &vars[..5]].concat()).await?;

    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(machine.read("conf/disk").as_deref(), Some("1gb"));
    let told: serde_json::Value = serde_json::from_str(&machine.read("told").ok_or("nothing")?)?;
    assert_eq!(told["config"], serde_json::json!({"version": "18.0.0", "size": "1gb!"}));
    assert_eq!(unknown.code, Some(65), "{unknown:?}");
    let expected = "--var: no manifest has a variable \"sise\"\n  help: did you mean \"size\"?\n";
    assert!(unknown.stderr.contains(expected), "{unknown:?}");
    assert_eq!(word.code, Some(65), "{word:?}");
    assert!(word.stderr.contains("--var: no manifest has a variable \"config\"\n"), "{word:?}");
    assert_eq!(missing.code, Some(65), "{missing:?}");
    assert!(missing.stderr.contains("site.yaml:9:24: unknown name \"alias\""), "{missing:?}");
    Ok(())
}

#[tokio::test]
async fn what_follows_a_failed_action_is_not_done() -> TestResult {
    let site = "resources:\n  r1: {type: \"program:./it\"}\n  after: {type: print, dependencies: [r1], \
                config: {message: no}}\n";
    let machine = Machine::new(site)?;
    let actions = r#"[{"name": "first", "args": ["one"]}, {"name": "second", "args": ["two"]}]"#;
    let state =
        format!("echo look >> calls; echo '{{\"status\": \"STALE\", \"actions\": {actions}}}'");
    let script = answering(INIT, &state).replace("*) exit 3", "*) echo $1 >> calls; exit 3");
    program(&machine, "it", &script)?;

    let applied = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!(applied.code, Some(1), "{applied:?}");
    let expected = "r1 (program:@/it) failed at first args=[\"one\"]: first of 'r1' (@/it): command \
                    terminated with exit code #3!";
    assert!(applied.stdout.contains(expected), "{applied:?}");
    // Neither the other action, nor another look.
    assert_eq!(machine.read("calls").as_deref(), Some("look\none\n"));
    Ok(())
}

#[tokio::test]
async fn an_apply_that_is_interrupted_ends_its_programs() -> TestResult {
    let machine = Machine::new("resources: {r1: {type: \"program:./it\"}}\n")?;
    program(&machine, "it", &answering(INIT, "echo $$ > pid; sleep 1000 & wait"))?;
    let child = machine.begin(&["apply", "site.yaml"])?;
    let pid = machine.lines("pid", 1).await?;

    crate::machine::signal(
        &child.id().ok_or("it has ended")?.to_string(),
        rustix::process::Signal::INT,
    )?;
    let ended = machine.ended(child).await?;

    assert_eq!(ended.code, Some(130), "{ended:?}");
    crate::machine::gone(&pid[0]).await
}

#[tokio::test]
async fn what_is_there_twice_or_not_at_all_is_refused_with_its_places() -> TestResult {
    let machine = Machine::new(
        "plugs: {p: {path: /usr}, q: {path: \"@/none\"}}\nresources: {r1: {type: \"program:./it\"}}\n",
    )?;
    machine.write(
        "more.yaml",
        "plugs: {p: {path: /var}}\nresources: {r1: {type: \"program:./it\"}}\n",
    )?;
    program(&machine, "it", &answering("echo >> calls; exit 1", "exit 1"))?;

    let twice = machine.run(&["apply", "site.yaml", "more.yaml"]).await?;
    let missing = machine.run(&["apply", "site.yaml"]).await?;

    assert_eq!((twice.code, missing.code), (Some(65), Some(65)), "{twice:?} {missing:?}");
    for expected in [
        "more.yaml:1:9: duplicate plug \"p\", first in site.yaml:1:9\n",
        "more.yaml:2:13: duplicate resource \"r1\", first in site.yaml:2:13\n",
    ] {
        assert!(twice.stderr.contains(expected), "{twice:?}");
    }
    assert!(
        missing.stderr.contains("site.yaml:1:26: the path of the plug, @/none: No such file"),
        "{missing:?}"
    );
    assert_eq!(machine.read("calls"), None);
    Ok(())
}
