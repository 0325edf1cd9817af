//! Graphs from Rust with the built-in kinds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crankcase_engine::Stop;
use crankcase_kinds::{Argv, Command, EntryPath, Exec, File, Presence, Principal, builtin};
use crankcase_resources::front::{RenderError, RenderedText, Scope, Surroundings};
use crankcase_resources::{
    AbsPath, ApplyOptions, Graph, GraphError, Mode, Node, NodeError, PlanOptions, Verdict,
};
use serde_json::json;
use tempfile::tempdir;

use crate::support::TestResult;

fn file(path: &Path) -> Result<File, Box<dyn std::error::Error>> {
    Ok(File::new(EntryPath::parse(path.to_str().ok_or("not UTF-8")?)?))
}

#[tokio::test]
async fn a_graph_of_typed_configs_is_planned_and_applied() -> TestResult {
    let folder = tempdir()?;
    let root = folder.path();
    let docroot = Graph::of("docroot", file(&root.join("www/"))?);
    let path = root.join("www/index.html");
    let page = File { content: Some("hello\n".into()), mode: Some(Mode(0o640)), ..file(&path)? };
    let page = Graph::of("page", page).after(&docroot)?;
    let mark = root.join("mark");
    let touch = Argv(vec!["touch".into(), mark.display().to_string()]);
    let touch = Exec {
        creates: Some(AbsPath::parse(mark.to_str().ok_or("not UTF-8")?)?),
        ..Exec::new(Command::Argv(touch))
    };
    let digest = Graph::from(Node::new("digest", "file").with("path", json!(root.join("digest"))));
    let digest = digest.using("content", &page, "sha256")?;
    let all = digest.merge(&Graph::of("touch", touch).told_by(&page)?)?;
    let site = all.site(&builtin(), &Surroundings::new(Path::new("/")))?;
    let (_stopper, stop) = Stop::pair();

    let plan = site.plan(&PlanOptions::default()).await;
    let account = site.apply(&ApplyOptions::default(), stop).await;
    let again = site.plan(&PlanOptions::default()).await;

    assert_eq!((plan.changes(), plan.may_change()), (4, 0), "{plan}");
    assert_eq!((account.changes(), account.failures()), (4, 0), "{account}");
    assert_eq!(again.changes(), 0, "{again}");
    let digest = fs::read_to_string(root.join("digest"))?;
    assert_eq!(digest, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    Ok(())
}

/// Returns each thing that is wrong, an attribute with its node.
fn said(refused: &GraphError) -> Vec<String> {
    let said = refused.errors().iter().map(|error| match error {
        NodeError::Attribute { name, error, .. } => format!("{name}.{error}"),
        other => other.to_string(),
    });
    said.collect()
}

#[test]
fn each_attribute_that_is_wrong_is_named_with_its_node() -> TestResult {
    let wrong = Node::new("page", "file").with("mod", "0644").with("content", 1);
    let path = EntryPath::parse("/srv/")?;
    let folder = File { content: Some("x".into()), ..File::new(path) };
    let all = Graph::from(wrong).merge(&Graph::of("folder", folder))?;

    let refused = all.site(&builtin(), &Surroundings::new(Path::new("/"))).expect_err("is wrong");

    assert_eq!(
        said(&refused),
        [
            "folder.content: a folder has none; take the / from the end of the path for a file",
            "page.mod: there is no such attribute; did you mean \"mode\"?",
            "page.path: is missing",
            "page.content: 1 is not a text; quote it, or add `| string` to an expression",
        ]
    );
    Ok(())
}

#[test]
fn an_attribute_that_a_state_does_not_have_is_refused_with_the_nearest() -> TestResult {
    let source = Graph::from(Node::new("answer", "exec").with("command", json!(["true"])));
    let page = Graph::from(Node::new("page", "file").with("path", "/srv/page"));
    let other = Graph::from(Node::new("other", "noop"));
    let all = page.using("content", &source, "stdot")?.merge(&other.using("any", &source, "x")?)?;

    let refused = all.site(&builtin(), &Surroundings::new(Path::new("/"))).expect_err("is wrong");

    let expected = [
        "other.any: the state of \"answer\" has no \"x\"",
        "page.content: the state of \"answer\" has no \"stdot\"; did you mean \"stdout\"?",
    ];
    assert_eq!(said(&refused), expected);
    let noop = Graph::from(Node::new("noop", "noop").with("any", 1));
    let page = Graph::from(Node::new("page", "file").with("path", "/srv/page"));
    page.using("content", &noop, "any")?.site(&builtin(), &Surroundings::new(Path::new("/")))?;
    Ok(())
}

#[test]
fn two_nodes_that_keep_one_file_are_refused() -> TestResult {
    let path = Path::new("/srv/page");
    let gone = File { state: Presence::Absent, ..file(path)? };
    let all = Graph::of("there", file(path)?).merge(&Graph::of("gone", gone))?;

    let refused = all.site(&builtin(), &Surroundings::new(Path::new("/"))).expect_err("is wrong");

    let [NodeError::Conflict { name, other, .. }] = refused.errors() else {
        return Err(refused.into());
    };
    assert_eq!((name.as_str(), other.as_str()), ("there", "gone"));
    Ok(())
}

#[test]
fn two_nodes_that_keep_one_file_under_two_paths_are_refused() -> TestResult {
    let folder = tempdir()?;
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("run"))?;
    symlink("run", path("link"))?;
    fs::write(path("run/page"), "")?;
    fs::hard_link(path("run/page"), path("hard"))?;
    for (one, two) in [("run/page", "link/page"), ("run/new", "link/new"), ("hard", "run/page")] {
        let both = (file(&path(one))?, file(&path(two))?);
        let all = Graph::of("one", both.0).merge(&Graph::of("two", both.1))?;

        let refused = all.site(&builtin(), &Surroundings::new(Path::new("/")));

        let refused = refused.expect_err("they are one file");
        let [NodeError::SameFile { name, other, path: kept, .. }] = refused.errors() else {
            return Err(refused.into());
        };
        assert_eq!((name.as_str(), other.as_str()), ("two", "one"));
        assert_eq!(Path::new(kept), path(one));
        let said =
            format!("is kept as {kept:?} by node \"one\" already; both paths lead to one file");
        assert!(refused.to_string().contains(&said), "{refused}");
    }
    Ok(())
}

#[test]
fn a_node_that_keeps_something_in_the_state_folder_is_refused() -> TestResult {
    let folder = tempdir()?;
    let state = folder.path().join("state");
    fs::create_dir(&state)?;
    symlink("state", folder.path().join("link"))?;
    let here = Surroundings::new(Path::new("/")).state(&state);
    for name in ["state/lock", "link/lock", "link/private/it"] {
        let graph = Graph::of("lock", file(&folder.path().join(name))?);

        let refused = graph.site(&builtin(), &here).expect_err("it is the agent's");

        let [NodeError::InState { name, folder, .. }] = refused.errors() else {
            return Err(refused.into());
        };
        assert_eq!((name.as_str(), folder), ("lock", &state));
        let said = format!("is in the agent's state folder {state:?}");
        assert!(refused.to_string().ends_with(&said), "{refused}");
    }
    let beside = Graph::of("lock", file(&folder.path().join("lock"))?);
    assert!(beside.site(&builtin(), &here).is_ok());
    Ok(())
}

/// Renders the one expression that it knows.
#[derive(Debug)]
struct Greeting;

impl Scope for Greeting {
    fn render_text(&self, _: &Path, text: &str) -> Result<RenderedText, RenderError> {
        Ok(RenderedText::Known(text.replace("{{ greeting }}", "hello")))
    }
}

#[test]
fn what_stands_in_local_files_travels_in_the_config() -> TestResult {
    let folder = tempdir()?;
    fs::write(folder.path().join("page.j2"), "\u{feff}{{ greeting }}, world\n")?;
    fs::write(folder.path().join("logo"), "{{ as it is }}")?;
    fs::write(folder.path().join("binary"), [0xff, 0xfe])?;
    let kept = |name: &str| file(&Path::new("/srv").join(name));
    let page = File { template: Some("page.j2".into()), ..kept("page")? };
    let owner = Some(Principal::Name("www-data".into()));
    let logo = File { source: Some("logo".into()), owner, ..kept("logo")? };
    let binary = File { source: Some("binary".into()), ..kept("binary")? };
    let surroundings = Surroundings::new(folder.path()).scope(Greeting);
    let kinds = builtin();
    let all = Graph::of("page", page).merge(&Graph::of("logo", logo))?;

    let sent = all.to_wire(&kinds, &surroundings)?;
    let there = Surroundings::new(Path::new("/"));
    let received = Graph::from_wire(&sent, &kinds, &there)?;
    let refused =
        Graph::of("binary", binary).to_wire(&kinds, &surroundings).expect_err("is binary");

    let config = |name: &str| received.node(name).map(|node| node.config().clone());
    let content = |name: &str| config(name).and_then(|config| config.get("content").cloned());
    assert_eq!(content("page"), Some(json!("hello, world\n")));
    assert_eq!(content("logo"), Some(json!("{{ as it is }}")));
    assert!(config("page").is_some_and(|config| !config.contains_key("template")));
    // The filled-in values stay as they are when the graph is sent again.
    assert_eq!(received.to_wire(&kinds, &there)?, sent);
    assert!(matches!(refused.errors(), [NodeError::Travel { name, .. }] if name == "binary"));
    assert!(refused.to_string().contains("only UTF-8 text of at most 16 MiB is sent"), "{refused}");
    Ok(())
}

#[test]
fn an_empty_local_file_travels_only_if_that_is_allowed() -> TestResult {
    let folder = tempdir()?;
    fs::write(folder.path().join("empty"), "")?;
    let (kinds, surroundings) = (builtin(), Surroundings::new(folder.path()).scope(Greeting));

    for is_template in [false, true] {
        let kept = |allow_empty| -> TestResult<File> {
            let page = File { allow_empty, ..file(Path::new("/srv/page"))? };
            let from = Some("empty".to_owned());
            Ok(match is_template {
                true => File { template: from, ..page },
                false => File { source: from, ..page },
            })
        };
        let refused = Graph::of("page", kept(false)?).to_wire(&kinds, &surroundings);
        let sent = Graph::of("page", kept(true)?).to_wire(&kinds, &surroundings)?;

        let refused = refused.expect_err("it is empty").to_string();
        assert!(refused.contains("is empty, which is refused unless allow_empty"), "{refused}");
        assert!(!sent.contains(r#""empty""#) && sent.contains(r#""content""#), "{sent}");
    }
    Ok(())
}

#[test]
fn what_is_wrong_before_the_way_is_not_mended_on_it() -> TestResult {
    let folder = tempdir()?;
    fs::write(folder.path().join("logo"), "logo")?;
    let (kinds, surroundings) = (builtin(), Surroundings::new(folder.path()));
    let both = File {
        source: Some("logo".into()),
        content: Some("x".into()),
        ..file(Path::new("/srv/logo"))?
    };
    let gone = File {
        source: Some("logo".into()),
        state: Presence::Absent,
        ..file(Path::new("/srv/gone"))?
    };

    let refused = Graph::of("both", both).to_wire(&kinds, &surroundings).expect_err("two contents");
    let sent = Graph::of("gone", gone).to_wire(&kinds, &surroundings)?;

    assert!(refused.to_string().contains("only one of content, source, template"), "{refused}");
    assert!(!sent.contains("logo"), "{sent}");
    Ok(())
}

#[tokio::test]
async fn a_claim_orders_nodes_that_require_nothing() -> TestResult {
    let folder = tempdir()?;
    let page = File { content: Some("x".into()), ..file(&folder.path().join("www/page"))? };
    let all =
        Graph::of("a-page", page).merge(&Graph::of("www", file(&folder.path().join("www/"))?))?;

    let site = all.site(&builtin(), &Surroundings::new(Path::new("/")))?;
    let plan = site.plan(&PlanOptions::default()).await;

    let page = plan.get("a-page").map(|page| &page.verdict);
    assert!(matches!(page, Some(Verdict::Changes(_))), "{plan}");
    assert_eq!(plan.resources[0].name, "www");
    Ok(())
}
