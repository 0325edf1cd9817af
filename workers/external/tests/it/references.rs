//! Images and places that a type names wrongly.

use std::fs;

use crankcase_resources::Outcome;

use crate::world::{TestResult, World};

const SITE: &str = "resources: {r1: {type: \"program:./it\"}}\n";

fn answering(init: &str) -> String {
    format!("#!/bin/sh\necho '{init}'\n")
}

#[test]
fn an_image_that_a_first_answer_names_wrongly_is_refused_at_load() -> TestResult {
    let v1 = |call: &str, image: &str| {
        let image = format!(r#"{{"image": "{image}", "args": ["x"]}}"#);
        let others = match call {
            "check" => String::new(),
            "reverse" => r#""check": {"args": ["c"]}, "delete": {"args": ["d"]}, "#.to_owned(),
            _ => r#""check": {"args": ["c"]}, "#.to_owned(),
        };
        format!(r#"{{"protocol": 1, "calls": {{{others}"{call}": {image}}}}}"#)
    };
    let v0 = |image: &str| format!(r#"{{"state_action": {{"image": "{image}"}}}}"#);

    for (init, expected) in [
        (v0("Acme//x"), "state_action: the image \"Acme//x\": it is no reference of an image"),
        (v0("docker:-v"), "state_action: the image \"docker:-v\": it is no reference"),
        (v1("check", "a b"), "calls.check: the image \"a b\": it is no reference"),
        (v1("delete", "x:"), "calls.delete: the image \"x:\": it is no reference"),
        (v1("reverse", "../x"), "calls.reverse: the image \"../x\": it is no reference"),
        (v1("watch", "program:"), "calls.watch: the image \"program:\": it names no program"),
    ] {
        let loaded = World::new(SITE, &answering(&init))?.files().load();

        let error = loaded.err().ok_or("it was loaded")?.to_string();
        assert!(error.contains("site.yaml:1:13: protocol error: 'r1'"), "{error}");
        assert!(error.contains(expected), "{init}: {error}");
    }
    for right in [v0("acme/x:1"), v0("busybox"), v1("watch", "podman:acme/x"), v1("check", "x")] {
        assert!(World::new(SITE, &answering(&right))?.files().load().is_ok(), "{right}");
    }
    Ok(())
}

#[tokio::test]
async fn an_image_that_a_look_names_wrongly_is_refused_before_anything_is_done() -> TestResult {
    let script = r#"#!/bin/sh
case ${1-init} in
init) echo '{"state_action": {"args": ["state"]}}' ;;
state) echo '{"status": "STALE", "actions": [{"name": "a", "args": ["act"]}, {"name": "b", "image": "Acme//x"}]}' ;;
act) echo done > done ;;
esac
"#;
    let world = World::new(SITE, script)?;

    let (account, _) = world.apply().await?;

    let Outcome::Failed { at: None, error } = &account.resources[0].outcome else {
        return Err(account.to_string().into());
    };
    assert!(error.contains("the image \"Acme//x\": it is no reference of an image"), "{error}");
    assert!(!fs::exists(world.path("done"))?);
    Ok(())
}

#[test]
fn a_resource_comes_after_those_that_make_its_program_and_its_plugs() -> TestResult {
    let init = r#"{"state_action": {"args": ["state"]}, "plugs": {"key": {"container_path": "/key", "writable": false}}}"#;
    let world = World::new("", &answering(init))?;
    fs::write(world.path("key"), "x")?;
    let kept = |name: &str, file: &str| {
        let path = world.path(file);
        format!("  {name}: {{type: file, config: {{path: '{}', mode: '0755'}}}}\n", path.display())
    };
    let site = format!(
        "plugs: {{key: {{path: key}}}}\nresources:\n  r1: {{type: 'program:./it'}}\n{}{}{}",
        kept("plug", "key"),
        kept("program", "it"),
        kept("other", "other"),
    );
    fs::write(world.path("site.yaml"), site)?;

    let loaded = world.files().load()?;

    let automatic = &loaded.resource("r1")?.automatic;
    let mut edges: Vec<_> = automatic.iter().map(|edge| edge.resource.as_str()).collect();
    edges.sort_unstable();
    assert_eq!(edges, ["plug", "program"]);
    Ok(())
}
