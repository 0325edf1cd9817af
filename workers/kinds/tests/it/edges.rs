//! The order of resources that read or execute what others make.

use std::error::Error;
use std::fs;
use std::path::Path;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::front::Surroundings;
use crankcase_resources::{ApplyOptions, Graph, Node, PlanOptions, Site, Verdict};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{TestResult, names};

/// Returns a site of resources by name, kind and config, in the manifest of a folder.
fn site(folder: &Path, nodes: &[(&str, &str, Value)]) -> Result<Site, Box<dyn Error>> {
    let nodes = nodes.iter().map(|(name, kind, config)| {
        let config = config.as_object().into_iter().flatten();
        let node = Node::new(name, kind);
        Graph::from(config.fold(node, |node, (name, value)| node.with(name, value.clone())))
    });
    let all = nodes.map(Ok).reduce(|all, node| all?.merge(&node?)).ok_or("no nodes")??;
    Ok(all.site(&builtin(), &Surroundings::new(folder))?)
}

/// Returns whether `reader` comes after `maker`, each by kind and config.
fn is_edge(reader: (&str, &Value), maker: (&str, &Value)) -> Result<bool, Box<dyn Error>> {
    let nodes = [("a", reader.0, reader.1.clone()), ("z", maker.0, maker.1.clone())];
    let site = site(Path::new("/srv/site"), &nodes)?;
    Ok(site.resource("a")?.automatic.iter().any(|edge| edge.resource == "z"))
}

#[test]
fn whatever_a_resource_reads_is_an_edge_to_the_one_that_makes_it() -> TestResult {
    let kept = |path: &str| ("file", json!({"path": path, "content": "x"}));
    let made = |path: &str| ("exec", json!({"command": ["make"], "creates": path}));
    let copy = |source: &str| ("file", json!({"path": "/srv/a", "source": source}));
    let rendered = |template: &str| ("file", json!({"path": "/srv/a", "template": template}));
    let guarded =
        |guard: Value| ("exec", json!({"command": ["true"], "cwd": "/srv/in", "unless": guard}));
    let only = |line: &str| ("exec", json!({"command": ":", "shell": true, "onlyif": line}));
    let line = |line: &str| ("exec", json!({"command": line, "shell": true}));
    let validated =
        |validate: Value| ("file", json!({"path": "/srv/a", "content": "x", "validate": validate}));
    let process = |command: Value| ("process", json!({"command": command}));
    let with_path =
        json!({"command": ["tool"], "env": {"PATH": "/opt/bin:/srv/bin"}, "unless": ["other"]});
    let cases = [
        (copy("/srv/z"), kept("/srv/z")),
        (copy("z"), kept("/srv/site/z")),
        (copy("../z/./y/../x"), kept("/srv/z/x")),
        (copy("/srv/z/below"), made("/srv/z")),
        (rendered("z.j2"), kept("/srv/site/z.j2")),
        (guarded(json!(["test", "-e", "/srv/z"])), kept("/srv/z")),
        (guarded(json!(["test", "-e", "z"])), kept("/srv/in/z")),
        (guarded(json!(["test", "-e", "../z"])), made("/srv/z")),
        (guarded(json!(["sh", "-c", "test -e /srv/z"])), kept("/srv/z")),
        (guarded(json!(["/srv/z", "x"])), kept("/srv/z")),
        (only("grep -q x '/srv/z'"), kept("/srv/z")),
        (only("! grep -q x</srv/z"), kept("/srv/z")),
        (line("cat \"/srv/z\"|sort>/srv/y"), kept("/srv/z")),
        (("exec", with_path.clone()), kept("/opt/bin/tool")),
        (("exec", with_path), made("/srv/bin/other")),
        (("exec", json!({"command": ["z/y"], "cwd": "/srv"})), kept("/srv/z/y")),
        (
            ("exec", json!({"command": ["true"], "cwd": "/srv/z"})),
            ("file", json!({"path": "/srv/z/"})),
        ),
        (("exec", json!({"command": ["true"], "creates": "/srv/z//y/../x"})), made("/srv/z")),
        (validated(json!(["/srv/z", "%s"])), kept("/srv/z")),
        (validated(json!(["sh", "-c", "grep -f /srv/z %s"])), made("/srv/z")),
        (process(json!(["/srv/z"])), kept("/srv/z")),
        (process(json!(["serve", "/srv/z/conf"])), made("/srv/z")),
        (process(json!(["serve a line of /srv/z"])), made("/srv/z")),
        (process(json!(["serve", "--config=/srv/z"])), kept("/srv/z")),
        (guarded(json!(["cmp", "if=z", "x"])), kept("/srv/in/z")),
        (only("CONFIG=/srv/z check"), kept("/srv/z")),
    ];

    for ((reader, config), (maker, made)) in cases {
        assert!(is_edge((reader, &config), (maker, &made))?, "{config} reads what {made} makes");
    }
    Ok(())
}

#[test]
fn what_a_resource_does_not_read_is_no_edge() -> TestResult {
    let kept = |path: &str| json!({"path": path, "content": "x"});
    let cases = [
        (json!({"command": ["echo", "-/srv/z", "z"]}), kept("/srv/z")),
        (json!({"command": ["cat", "/srv/zz"]}), kept("/srv/z")),
        (json!({"command": ["tool"], "env": {"PATH": "/opt/bin"}}), kept("/srv/tool")),
        // Nothing that is so long can be a path.
        (json!({"command": ["echo", format!("/srv/z{}", "/a".repeat(500_000))]}), kept("/srv/z")),
    ];

    for (config, made) in cases {
        assert!(!is_edge(("exec", &config), ("file", &made))?, "{config} does not read {made}");
    }
    Ok(())
}

#[test]
fn what_is_only_looked_at_comes_after_what_makes_it() -> TestResult {
    let reader = Node::new("a", "file").with("path", "/srv/z").with("content", "x").readonly();
    let maker = Node::new("z", "file").with("path", "/srv/z").with("content", "x");
    let all = Graph::from(reader).merge(&Graph::from(maker))?;

    let site = all.site(&builtin(), &Surroundings::new(Path::new("/")))?;

    assert_eq!(site.resource("a")?.automatic.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_copy_is_up_to_date_after_one_apply() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path();
    for name in ["a", "z"] {
        fs::write(root.join(name), "old\n")?;
    }
    let nodes = [
        ("a", "file", json!({"path": root.join("a"), "source": root.join("z")})),
        ("z", "file", json!({"path": root.join("z"), "content": "new\n"})),
    ];
    let site = site(root, &nodes)?;
    let (_stopper, stop) = Stop::pair();

    let plan = site.plan(&PlanOptions::default()).await;
    let account = site.apply(&ApplyOptions::default(), stop).await;

    let copy = plan.get("a").map(|planned| &planned.verdict);
    assert!(matches!(copy, Some(Verdict::MayChange { .. })), "{plan}");
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");
    assert_eq!(fs::read_to_string(root.join("a"))?, "new\n");
    assert_eq!(site.plan(&PlanOptions::default()).await.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn a_program_its_folder_and_its_guard_are_made_first() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path();
    let script = "#!/bin/sh\nprintf hello > made\n";
    let (tool, work) = (root.join("tool"), root.join("work"));
    let nodes = [
        ("a", "exec", json!({"command": [tool], "cwd": work, "creates": work.join("made")})),
        ("y", "file", json!({"path": format!("{}/", work.display())})),
        ("z", "file", json!({"path": tool, "content": script, "mode": "0755"})),
    ];
    let site = site(root, &nodes)?;
    let (_stopper, stop) = Stop::pair();

    let plan = site.plan(&PlanOptions::default()).await;
    let account = site.apply(&ApplyOptions::default(), stop).await;

    assert_eq!((plan.changes(), plan.may_change(), plan.failures()), (3, 0, 0), "{plan}");
    assert_eq!((account.changes(), account.failures()), (3, 0), "{account}");
    assert_eq!(names(&work)?, ["made"]);
    Ok(())
}
