//! Facts that parts of resources keep, on a machine.

use std::convert::Infallible;
use std::fs;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_facts::{Facts, Sqlite};
use crankcase_kinds::with_facts;
use crankcase_manifest::{SeenFacts, SiteFiles, SiteJudge};
use crankcase_manifolds::facts;
use crankcase_resources::dynamic::Part;
use crankcase_resources::{
    AbsPath, Account, ApplyOptions, BoxError, Check, Claimed, Context, Facilities, Kinds, Params,
    Plan, PlanOptions, Resource, Site, Unfinished, kind,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::site::machine::{Machine, TestResult};

/// keeps a report: a fact, and a page about it
#[derive(Debug, Clone, PartialEq, Params)]
struct Report {
    /// where the fact is
    path: String,
    /// the value
    value: Value,
    /// the page
    page: AbsPath,
    /// the file that the page is rendered from
    template: String,
}

/// The state of a report.
#[derive(Debug, Clone, PartialEq, Params)]
struct ReportState {
    /// where the fact is
    path: String,
}

impl Resource for Report {
    const NAME: &'static str = "report";
    type State = ReportState;
    type Action = Infallible;

    fn claims(_: &ReportPartial) -> Claimed {
        Claimed::default()
    }

    fn parts(partial: &ReportPartial) -> Vec<Part> {
        let page = partial.page.as_ref().map(|page| page.as_ref().display().to_string());
        vec![
            Part::new("page", "file")
                .with_partial("path", page)
                .with_partial("template", partial.template.clone()),
            Part::new("seen", "fact")
                .with_partial("path", partial.path.clone())
                .with_partial("value", partial.value.clone()),
        ]
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        Ok(Check::valid(ReportState { path: self.path.clone() }))
    }

    async fn act(&self, action: &Infallible, _: &Context) -> Result<(), Unfinished> {
        match *action {}
    }
}

fn kinds() -> Kinds {
    with_facts().with(kind::<Report>())
}

/// A folder with a manifest, and facts.
struct Place {
    folder: TempDir,
    store: Facts,
}

impl Place {
    /// Returns a place without facts. The file `page.j2` has a template that uses the fact `word`.
    fn new() -> TestResult<Self> {
        let store = Facts::open(Box::new(Sqlite::in_memory()?))?;
        let place = Self { folder: tempfile::tempdir()?, store };
        fs::write(place.folder.path().join("page.j2"), "of {{ facts.seen.word }}")?;
        Ok(place)
    }

    /// Writes a manifest; `@` in it stands for the folder.
    fn files(&self, manifest: &str) -> TestResult<SiteFiles> {
        let path = self.folder.path().join("site.yaml");
        fs::write(&path, manifest.replace('@', &self.folder.path().display().to_string()))?;
        let mut files = SiteFiles::new(vec![path], kinds());
        files.facts = facts::seen(self.store.clone(), None);
        Ok(files)
    }

    fn load(&self, manifest: &str) -> TestResult<Site> {
        Ok(self.files(manifest)?.load()?)
    }

    fn facilities(&self) -> Facilities {
        let store = self.store.clone();
        Facilities::default().in_world(facts::world(None, move || Ok(store.clone())))
    }

    async fn plan(&self, manifest: &str) -> TestResult<Plan> {
        let options = PlanOptions { facilities: self.facilities(), ..PlanOptions::default() };
        Ok(self.load(manifest)?.plan(&options).await)
    }

    async fn apply(&self, manifest: &str) -> TestResult<Account> {
        let options = ApplyOptions { facilities: self.facilities(), ..ApplyOptions::default() };
        let (_stopper, stop) = Stop::pair();
        let account = self.load(manifest)?.apply(&options, stop).await;
        assert_eq!(account.failures(), 0, "{account}");
        Ok(account)
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.path().join(name)).ok()
    }
}

const USER: &str = r#"resources:
  user: {type: file, config: {path: "@/user", content: "{{ facts.seen.word }}"}}
"#;

const REPORT: &str = r#"  web:
    type: report
    config: {path: /seen/word, value: one, page: "@/page", template: page.j2}
"#;

#[tokio::test]
async fn a_fact_of_a_part_moves_all_that_use_it_in_one_apply() -> TestResult {
    let place = Place::new()?;
    for word in ["one", "two"] {
        let manifest = format!("{USER}{}", REPORT.replace("one", word));

        let plan = place.plan(&manifest).await?;
        let moved = place.apply(&manifest).await?;
        let again = place.apply(&manifest).await?;

        assert!(plan.to_string().contains(&format!("+{word}")), "{plan}");
        assert_eq!((moved.changes(), again.changes()), (3, 0), "{moved}{again}");
        assert_eq!(place.read("user").as_deref(), Some(word), "{moved}");
        assert_eq!(place.read("page"), Some(format!("of {word}")), "{moved}");
    }
    Ok(())
}

#[tokio::test]
async fn a_fact_of_a_part_that_nobody_can_foresee_is_known_after_apply() -> TestResult {
    let place = Place::new()?;
    let first = "  first: {type: file, config: {path: \"@/first/\"}}\n";
    let web = REPORT.replace("one", "\"{{ first.state.owner }}\"");
    let manifest = format!("{USER}{first}{web}    dependencies: [first]\n");

    let plan = place.plan(&manifest).await?.to_string();
    assert_eq!(place.apply(&manifest).await?.failures(), 0);
    let again = place.apply(&manifest).await?;

    let expected = r#"? user (file) may change after web["seen"]: its config is known after apply"#;
    assert!(plan.contains(expected), "{plan}");
    assert_eq!(again.changes(), 0, "{again}");
    let owner = place.read("user").filter(|owner| !owner.is_empty()).ok_or("no owner")?;
    assert_eq!(place.read("page"), Some(format!("of {owner}")));
    Ok(())
}

#[tokio::test]
async fn a_fact_stays_when_the_composite_that_has_kept_it_leaves() -> TestResult {
    let place = Place::new()?;
    assert_eq!(place.apply(&format!("{USER}{REPORT}")).await?.failures(), 0);

    let plan = place.plan(USER).await?;
    let account = place.apply(USER).await?;

    assert!(!plan.has_something_to_do(), "{plan}");
    assert_eq!(account.resources.len(), 1, "{account}");
    assert_eq!(place.read("user").as_deref(), Some("one"));
    Ok(())
}

#[test]
fn a_wrong_fact_for_a_composite_takes_no_fact_of_its_part_away() -> TestResult {
    let place = Place::new()?;
    let template = "\"{{ facts.template | default('page.j2') }}\"";
    let files = place.files(&format!("{USER}{}", REPORT.replace("page.j2", template)))?;
    let judge = SiteJudge::default();
    judge.load(&files)?;

    let value = Arc::new(json!({"template": ["no", "text"], "seen": {"word": "one"}}));
    let after = SeenFacts { value, ..files.facts.current() };
    let wrong = judge.wrong_after(|| files.facts.current(), &after);

    let names: Vec<_> = wrong.iter().map(|it| it.resource.as_deref()).collect();
    assert_eq!(names, [Some("web")], "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn an_agent_keeps_the_fact_of_a_part_and_all_that_use_it() -> TestResult {
    let Place { folder, store } = Place::new()?;

    let manifest = format!("{USER}{REPORT}");
    let machine = Machine::in_world(folder, &manifest, (kinds(), store)).await?;

    machine.until("user", |text| text == "one").await?;
    machine.until("page", |text| text == "of one").await?;
    let site = machine.resources().await?.report().await;
    let names: Vec<_> = site.workers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["user", "web", "web..page", "web..seen"]);
    machine.stop().await
}
