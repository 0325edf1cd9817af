//! Facts that are wrong for some resources of a site that is to be kept.

use std::error::Error;
use std::fs;
use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_engine::Stop;
use crankcase_manifest::{SeenFacts, SiteFacts, SiteFiles, SiteJudge, WrongFacts};
use crankcase_resources::state::Records;
use crankcase_resources::{ApplyOptions, Facilities, Site};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Facts that never change.
#[derive(Debug)]
struct Said(Value);

impl Said {
    fn seen(&self) -> SeenFacts {
        SeenFacts { revision: 1, value: Arc::new(self.0.clone()), ..SeenFacts::default() }
    }
}

#[async_trait]
impl SiteFacts for Said {
    fn current(&self) -> SeenFacts {
        self.seen()
    }

    async fn changed(&self, _revision: u64) {
        pending::<()>().await;
    }
}

fn right() -> Value {
    json!({"mode": "0600", "poll": "1h", "port": 80, "users": ["ada", "brian"], "on": true, "path": "/tmp/p", "other": "/tmp/o", "motd": "hi"})
}

/// Returns the right facts with another one.
fn but(name: &str, value: Value) -> Value {
    let mut facts = right();
    facts[name] = value;
    facts
}

fn files(folder: &TempDir, manifest: &str, facts: Value) -> Result<SiteFiles, Box<dyn Error>> {
    let path = folder.path().join("site.yaml");
    fs::write(&path, manifest)?;
    let mut files = SiteFiles::new(vec![path], crankcase_kinds::with_facts());
    files.facts = Arc::new(Said(facts));
    Ok(files)
}

/// A fact that is wrong for a resource.
struct Case {
    manifest: String,
    /// All facts, with the wrong one.
    facts: Value,
    /// The name of the resource.
    resource: &'static str,
    /// A part of the message.
    problem: &'static str,
}

/// Returns a case of the resource `r`: a manifest of these resources, the wrong fact, and a part of the message.
fn case(resources: &[&str], fact: (&str, Value), problem: &'static str) -> Case {
    let (name, value) = fact;
    let lines: String = resources.iter().map(|line| format!("  {line}\n")).collect();
    let manifest = format!("resources:\n{lines}");
    Case { manifest, facts: but(name, value), resource: "r", problem }
}

fn cases() -> [Case; 9] {
    let at_fact = "r: {type: file, config: {path: '{{ facts.path }}', content: x}}";
    let mut of_variable = case(
        &["r: {type: print, config: {message: 'at {{ port }}'}}"],
        ("port", json!([])),
        "variable \"port\" is wrong",
    );
    of_variable.manifest.insert_str(0, "vars: {port: '{{ facts.port + 1 }}'}\n");
    let mut of_item = case(
        &["r: {type: print, for_each: '{{ facts.users }}', config: {message: '{{ item }}'}}"],
        ("users", json!(5)),
        "is a list of texts or a map, not a number",
    );
    of_item.resource = "r[\"ada\"]";
    [
        case(
            &["r: {type: file, config: {path: /tmp/f, content: x, mode: '{{ facts.mode }}'}}"],
            ("mode", json!("banana")),
            "site.yaml:2:",
        ),
        case(
            &[
                "r: {type: print, meta: {noop: true, poll: '{{ facts.poll }}'}, config: {message: x}}",
            ],
            ("poll", json!("banana")),
            "is not a duration",
        ),
        of_variable,
        of_item,
        case(
            &["r: {type: print, when: '{{ facts.on }}', config: {message: x}}"],
            ("on", json!(5)),
            "is true or false, not a number",
        ),
        case(&[at_fact], ("path", json!("/tmp/p/")), "site.yaml:2:"),
        case(
            &["a: {type: file, config: {path: /tmp/a, content: x}}", at_fact],
            ("path", json!("/tmp/a")),
            "/tmp/a",
        ),
        // The resource that has moved is wrong, and not the one that was there.
        case(
            &[at_fact, "s: {type: file, config: {path: '{{ facts.other }}', content: x}}"],
            ("path", json!("/tmp/o")),
            "/tmp/o",
        ),
        case(
            &[
                "r: {type: file, config: {path: /tmp/f, source: '{{ facts.path }}'}}",
                "s: {type: file, config: {path: /tmp/p, content: x}}",
            ],
            ("path", json!("/no/such/file")),
            "/no/such/file",
        ),
    ]
}

#[test]
fn a_change_is_told_for_each_resource_that_it_makes_wrong() -> Result<(), Box<dyn Error>> {
    for Case { manifest, facts, resource, problem } in cases() {
        let folder = tempfile::tempdir()?;
        let judge = SiteJudge::default();
        judge.load_strictly(&files(&folder, &manifest, right())?)?;

        let wrong = Said(facts).seen();
        let found = judge.wrong_after(|| Said(right()).seen(), &wrong);
        let again = judge.wrong_after(|| wrong.clone(), &wrong);

        let is_expected = |it: &WrongFacts| {
            it.resource.as_deref() == Some(resource) && it.problem.contains(problem)
        };
        assert!(found.iter().any(is_expected), "{manifest}: {found:?}");
        assert_eq!(again, []);
    }
    Ok(())
}

#[test]
fn a_site_with_wrong_facts_is_loaded_to_be_kept_and_not_otherwise() -> Result<(), Box<dyn Error>> {
    for Case { manifest, facts, .. } in cases() {
        let folder = tempfile::tempdir()?;
        let files = files(&folder, &manifest, facts)?;

        SiteJudge::default().load(&files)?;
        assert!(files.load().is_err(), "{manifest}");
    }
    Ok(())
}

#[test]
fn what_is_wrong_whatever_the_facts_are_is_refused() -> Result<(), Box<dyn Error>> {
    let cases = [
        ("print, for_each: '{{ facts.users | frist }}', config: {message: x}", "unknown filter"),
        ("print, when: '{{ facts.on and nobody }}', config: {message: x}", "unknown name"),
        ("print, config: {mesage: '{{ facts.motd }}'}", "there is no such attribute"),
        (
            "print, meta: {nop: true, poll: '{{ facts.poll }}'}, config: {message: x}",
            "unknown key \"nop\"",
        ),
        (
            "print, meta: {poll: '{{ facts.poll }}', timeout: soon}, config: {message: x}",
            "is not a duration",
        ),
        (
            "file, config: {path: /tmp/f, content: '{{ facts.motd }}', mode: banana}",
            "is not a mode",
        ),
        (
            "fact, config: {path: /seen/a, value: x}}\n  s: {type: fact, config: {path: /seen/a, value: y}",
            "is kept by resource \"r\" already",
        ),
    ];
    for (rest, said) in cases {
        let folder = tempfile::tempdir()?;
        let manifest = format!("resources:\n  r: {{type: {rest}}}\n");

        let loaded = SiteJudge::default().load(&files(&folder, &manifest, right())?);

        let error = loaded.err().ok_or("it was loaded")?.to_string();
        assert!(error.contains(said), "{error}");
    }
    Ok(())
}

/// A resource whose thing a fact names, and one whose thing is written out and whose value follows from a fact.
const ONE_THING: &str = "resources:\n  r: {type: fact, config: {path: '{{ facts.path }}', value: x}}\n  s: {type: fact, config: {path: /tmp/o, value: '{{ facts.motd }}'}}\n";

#[test]
fn what_a_fact_names_like_a_thing_of_another_resource_is_wrong() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let judge = SiteJudge::default();
    judge.load_strictly(&files(&folder, ONE_THING, right())?)?;

    let wrong = Said(but("path", json!("/tmp/o"))).seen();
    let found = judge.wrong_after(|| Said(right()).seen(), &wrong);

    let named: Vec<_> = found.iter().map(|it| it.resource.as_deref()).collect();
    assert_eq!(named, [Some("r")], "{found:?}");
    assert!(found[0].problem.contains("fact \"/tmp/o\" is kept by resource"), "{found:?}");
    Ok(())
}

#[test]
fn the_thing_of_one_that_names_it_itself_is_kept_at_the_start() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let files = files(&folder, ONE_THING, but("path", json!("/tmp/o")))?;

    let site = SiteJudge::default().load(&files)?;

    let unsure = site.declarations().iter().filter(|it| it.is_unsure);
    let unsure: Vec<_> = unsure.map(|it| it.name.as_str()).collect();
    assert_eq!(unsure, ["r"]);
    assert!(files.load().is_err());
    Ok(())
}

#[test]
fn a_variable_is_used_by_what_facts_make_wrong() -> Result<(), Box<dyn Error>> {
    let manifest =
        "resources:\n  r: {type: print, when: '{{ facts.on == env }}', config: {message: x}}\n";
    let folder = tempfile::tempdir()?;
    let mut files = files(&folder, manifest, json!({}))?;
    files.overrides.vars.push(("env".to_owned(), "web".to_owned()));

    SiteJudge::default().load(&files)?;
    Ok(())
}

#[test]
fn a_manifest_that_is_wrong_by_now_is_not_told_of_facts() -> Result<(), Box<dyn Error>> {
    let manifest =
        "resources:\n  r: {type: print, for_each: '{{ facts.users }}', config: {message: x}}\n";
    let folder = tempfile::tempdir()?;
    let judge = SiteJudge::default();
    judge.load(&files(&folder, manifest, right())?)?;
    files(&folder, &manifest.replace("message", "mesage"), right())?;

    let other = Said(but("users", json!(["cyd"]))).seen();
    let found = judge.wrong_after(|| Said(right()).seen(), &other);

    assert_eq!(found, []);
    Ok(())
}

#[tokio::test]
async fn what_facts_put_in_conflict_is_neither_put_back_nor_released() -> Result<(), Box<dyn Error>>
{
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let taken = format!(
        "resources:\n  taken: {{type: file, config: {{path: {}, content: x}}}}\n",
        path("taken")
    );
    let back = "  back: {type: file, meta: {reverse: true}, config: {path: '{{ facts.path }}', content: x}}\n";
    let site = |manifest: &str, name: &str| -> Result<Arc<Site>, Box<dyn Error>> {
        let files = files(&folder, manifest, but("path", path(name).into()))?;
        Ok(SiteJudge::default().load(&files)?)
    };
    let both = format!("{taken}{back}");
    let facilities = Facilities::open(&folder.path().join("state"), Records::default());
    let options = ApplyOptions { facilities: facilities.clone(), ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();
    let account = site(&both, "back")?.apply(&options, stop).await;
    assert_eq!((account.changes(), account.failures()), (2, 0), "{account}");

    let wrong = site(&both, "taken")?;

    assert!(wrong.with_departed(&facilities).await.is_none());
    assert!(wrong.leaving(&facilities).released().is_empty());
    let gone = site(&taken, "back")?;
    assert!(gone.with_departed(&facilities).await.is_some());
    Ok(())
}

#[tokio::test]
async fn what_was_kept_before_a_fact_is_wrong_at_the_start_is_not_put_back()
-> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let manifest = "resources:\n  back: {type: file, meta: {reverse: true}, config: {path: '{{ facts.path }}', content: x}}\n";
    let site = |path: Value| -> Result<Arc<Site>, Box<dyn Error>> {
        Ok(SiteJudge::default().load(&files(&folder, manifest, but("path", path))?)?)
    };
    let path = folder.path().join("back").display().to_string();
    let facilities = Facilities::open(&folder.path().join("state"), Records::default());
    let options = ApplyOptions { facilities: facilities.clone(), ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();
    let account = site(path.into())?.apply(&options, stop).await;
    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");

    let wrong = site(json!(5))?;

    assert!(wrong.with_departed(&facilities).await.is_none());
    assert!(wrong.leaving(&facilities).released().is_empty());
    Ok(())
}
