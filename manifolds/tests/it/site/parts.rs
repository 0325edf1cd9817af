//! Resources that are made of others.

use std::sync::Arc;
use std::time::SystemTime;

use crankcase_facts::{Change, Facts, Operation, Sqlite, Submission, Update};
use crankcase_kinds::builtin;
use crankcase_manifest::{SeenFacts, SiteFiles, SiteJudge};
use crankcase_manifolds::facts;
use crankcase_resources::{Kinds, kind};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::machine::{Machine, TestResult};

use website::Website;

#[path = "../../../../workers/kinds/tests/it/website.rs"]
mod website;

fn kinds() -> Kinds {
    builtin().with(kind::<Website>())
}

/// Loads a manifest and returns the message about it.
fn refused(manifest: &str) -> TestResult<String> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("site.yaml");
    std::fs::write(&path, manifest)?;
    let error = SiteFiles::new(vec![path], kinds()).load().err().ok_or("it is loaded")?;
    Ok(error.to_string())
}

#[tokio::test]
async fn parts_are_kept_and_seen_through_their_owner() -> TestResult {
    let machine = Machine::with_kinds(
        "resources:\n  web: {type: website, config: {root: @/www, text: hello}}\n  link: {type: file, \
         dependencies: [web], config: {path: @/link, content: '{{ deps.web.state.page }}'}}\n",
        kinds(),
    )
    .await?;
    machine.until("link", |link| link.ends_with("/www/index.html")).await?;
    assert_eq!(machine.read("www/index.html").as_deref(), Some("hello"));

    machine.write("www/index.html", "bye")?;

    machine.until("www/index.html", |page| page == "hello").await?;
    let report = machine.resources().await?.report().await;
    let names: Vec<_> = report.workers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["link", "web", "web..folder", "web..page"]);
    Ok(())
}

#[test]
fn what_is_wrong_with_a_part_is_said_where_its_owner_is_written() -> TestResult {
    let said = refused("resources:\n  web: {type: website, config: {root: /, text: x}}\n")?;

    let wanted = "its part \"folder\" (file): path: the root folder is always there";
    assert!(said.contains("site.yaml:2:3") && said.contains(wanted), "{said}");
    Ok(())
}

#[test]
fn a_part_has_no_other_keeper() -> TestResult {
    let said = refused(
        "resources:\n  web: {type: website, config: {root: /srv/www, text: x}}\n  page: {type: file, \
         config: {path: /srv/www/index.html, content: y}}\n",
    )?;

    assert!(said.contains("\"/srv/www/index.html\""), "{said}");
    assert!(said.contains("web[\"page\"]"), "{said}");
    Ok(())
}

#[test]
fn only_a_kind_that_says_how_puts_back() -> TestResult {
    let said = refused(
        "resources:\n  run: {type: exec, config: {command: ['true']}, meta: {reverse: true}}\n",
    )?;

    let wanted = "the type exec of \"run\" does not say how to put it back";
    assert!(said.contains("site.yaml:2:3") && said.contains(wanted), "{said}");
    Ok(())
}

/// Returns a website whose text is a fact.
fn website(folder: &TempDir, text: Value) -> TestResult<SiteFiles> {
    let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
    let update = Update::of(vec![Operation::Set("/text".parse()?, text)]);
    store.submit(&Submission::new(Change::Update(update), "ada"), SystemTime::UNIX_EPOCH)?;
    let path = folder.path().join("site.yaml");
    let manifest =
        "resources:\n  web: {type: website, config: {root: /srv/www, text: '{{ facts.text }}'}}\n";
    std::fs::write(&path, manifest)?;
    let mut files = SiteFiles::new(vec![path], kinds());
    files.facts = facts::seen(store, None);
    Ok(files)
}

#[test]
fn a_wrong_fact_takes_no_part_away() -> TestResult {
    let folder = tempfile::tempdir()?;
    let files = website(&folder, json!(["no", "text"]))?;

    let site = SiteJudge::default().load(&files)?;

    let mut names: Vec<_> = site.declarations().iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["web", r#"web["folder"]"#, r#"web["page"]"#]);
    Ok(())
}

#[test]
fn a_part_that_is_kept_and_misses_what_it_uses_is_told() -> TestResult {
    let folder = tempfile::tempdir()?;
    let files = website(&folder, json!("hello"))?;
    let path = folder.path().join("site.yaml");
    let alone = std::fs::read_to_string(&path)?;
    let web = alone.replace("config", "dependencies: [other], config");
    std::fs::write(&path, format!("{web}  other: {{type: noop}}\n"))?;
    let judge = SiteJudge::default();
    judge.load(&files)?;
    std::fs::write(&path, alone)?;

    let value = Arc::new(json!({"text": ["no", "text"]}));
    let after = SeenFacts { value, ..files.facts.current() };
    let wrong = judge.wrong_after(|| files.facts.current(), &after);

    let [wrong] = &wrong[..] else { return Err(format!("{wrong:?}").into()) };
    let said = "uses \"other\", which is not declared";
    assert!(wrong.problem.contains("site.yaml:2:3") && wrong.problem.contains(said), "{wrong:?}");
    Ok(())
}

#[test]
fn a_wrong_fact_is_told_for_what_is_made_of_parts() -> TestResult {
    let folder = tempfile::tempdir()?;
    let files = website(&folder, json!("hello"))?;
    let judge = SiteJudge::default();
    judge.load(&files)?;

    let value = Arc::new(json!({"text": ["no", "text"]}));
    let after = SeenFacts { value, ..files.facts.current() };
    let wrong = judge.wrong_after(|| files.facts.current(), &after);

    let names: Vec<_> = wrong.iter().map(|it| it.resource.as_deref()).collect();
    assert_eq!(names, [Some("web")], "{wrong:?}");
    Ok(())
}
