//! Files that are put back as they were when they leave their manifest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::dynamic::KnownConfig;
use crankcase_resources::state::{Key, Records, Topic};
use crankcase_resources::{
    Account, ApplyOptions, Declaration, Facilities, Plan, PlanOptions, Selection, Site,
};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{Full, StateFolder, TestResult, declare_in};

/// A machine with a state folder, which is opened anew for each run.
struct Machine {
    folder: TempDir,
    state: StateFolder,
}

impl Machine {
    fn new() -> std::io::Result<Self> {
        let machine = Self { folder: tempdir()?, state: StateFolder::new()? };
        fs::create_dir(machine.path("www"))?;
        Ok(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a file that is put back when it leaves.
    fn file(&self, name: &str, config: Value) -> Declaration {
        let mut declaration = declare_in(self.folder.path(), name, "file", config);
        declaration.reverse = true;
        declaration
    }

    fn page(&self) -> Declaration {
        self.page_at("page", "www/page")
    }

    /// Applies a site with these facilities.
    async fn apply_with(
        &self,
        declarations: Vec<Declaration>,
        facilities: Facilities,
    ) -> TestResult<Account> {
        let site = Site::new(declarations, builtin(), String::new())?;
        let (_stopper, stop) = Stop::pair();
        Ok(site.apply(&ApplyOptions { facilities, ..ApplyOptions::default() }, stop).await)
    }

    async fn apply(&self, declarations: Vec<Declaration>) -> TestResult<Account> {
        let account = self.apply_with(declarations, self.state.open()?).await?;
        assert_eq!(account.failures(), 0, "{account}");
        Ok(account)
    }

    async fn applied(&self, declarations: Vec<Declaration>) -> TestResult {
        self.apply(declarations).await.map(drop)
    }

    async fn plan(&self, declarations: Vec<Declaration>) -> TestResult<Plan> {
        let facilities = self.state.of_plan()?;
        let site = Site::new(declarations, builtin(), String::new())?;
        Ok(site.plan(&PlanOptions { facilities, ..PlanOptions::default() }).await)
    }

    /// Returns how many reversals are on record.
    fn records(&self) -> usize {
        let is_reversal = |key: &&Key| key.topic == Topic::Reversal;
        let loaded = self.state.loaded();
        loaded.map_or(0, |loaded| loaded.documents.iter().filter(is_reversal).count())
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[tokio::test]
async fn a_file_is_put_back_with_its_first_content_and_mode() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    fs::set_permissions(&page, PermissionsExt::from_mode(0o600))?;
    machine.applied(vec![machine.page()]).await?;
    let newer = json!({"path": page, "content": "newer", "mode": "0644"});
    machine.applied(vec![claimed(machine.file("page", newer.clone()), &newer)]).await?;
    assert_eq!(read(&page).as_deref(), Some("newer"));

    let plan = machine.plan(Vec::new()).await?;
    let account = machine.apply(Vec::new()).await?;

    assert!(plan.to_string().contains("~ page (file) would be put back"), "{plan}");
    assert!(account.to_string().contains("~ page (file) was put back"), "{account}");
    assert_eq!(read(&page).as_deref(), Some("old"));
    assert_eq!(page.metadata()?.permissions().mode() & 0o7777, 0o600);
    assert_eq!(machine.records(), 0);
    assert_eq!(machine.apply(Vec::new()).await?.resources, []);
    Ok(())
}

#[tokio::test]
async fn what_was_not_there_goes_again_the_files_before_their_folder() -> TestResult {
    let machine = Machine::new()?;
    let folder = machine.path("www/sub");
    let declared = || {
        let folder = json!({"path": format!("{}/", machine.path("www/sub").display())});
        let page = json!({"path": machine.path("www/sub/page"), "content": "new"});
        let mut page = machine.file("a-page", page);
        page.dependencies = vec![crankcase_resources::front::Dependency {
            alias: "folder".to_owned(),
            resource: "folder".to_owned(),
            on_change: Default::default(),
        }];
        vec![page, machine.file("folder", folder)]
    };
    machine.applied(declared()).await?;
    assert!(folder.join("page").exists());

    let account = machine.apply(Vec::new()).await?;

    assert_eq!(account.changes(), 2, "{account}");
    assert!(!folder.exists());
    Ok(())
}

#[tokio::test]
async fn a_removed_file_comes_back() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    let gone = json!({"path": page, "state": "absent"});
    machine.applied(vec![machine.file("page", gone)]).await?;
    assert!(!page.exists());

    machine.applied(Vec::new()).await?;

    assert_eq!(read(&page).as_deref(), Some("old"));
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_put_back_stays_as_it_is() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, [0, 159, 146, 150])?;
    machine.applied(vec![machine.page()]).await?;
    fs::write(&page, "drifted")?;
    machine.applied(vec![machine.page()]).await?;

    machine.applied(Vec::new()).await?;

    assert_eq!(read(&page).as_deref(), Some("new"));
    assert_eq!(machine.records(), 0);
    Ok(())
}

#[tokio::test]
async fn only_what_was_declared_so_and_was_changed_is_put_back() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "new")?;
    machine.applied(vec![machine.page()]).await?;
    assert_eq!(machine.records(), 0);
    fs::write(&page, "old")?;
    machine.applied(vec![machine.page()]).await?;
    assert_eq!(machine.records(), 1);
    let mut kept = machine.page();
    kept.reverse = false;
    machine.applied(vec![kept]).await?;

    machine.applied(Vec::new()).await?;

    assert_eq!(read(&page).as_deref(), Some("new"));
    Ok(())
}

#[tokio::test]
async fn what_another_resource_keeps_is_left_to_it() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    machine.applied(vec![machine.page()]).await?;
    let config = json!({"path": page, "content": "other"});
    let mut other = claimed(machine.file("other", config.clone()), &config);
    other.reverse = false;

    machine.applied(vec![other]).await?;

    assert_eq!(read(&page).as_deref(), Some("other"));
    assert_eq!(machine.records(), 0);
    Ok(())
}

/// Has the kind of each resource say what it claims, as a manifest does.
fn claimed(mut declaration: Declaration, config: &Value) -> Declaration {
    let (config, unknown) = (config.as_object().expect("a map"), Default::default());
    let declared = builtin().declare(&mut declaration, &KnownConfig { config, unknown: &unknown });
    assert_eq!(declared.judged.errors, []);
    declaration
}

impl Machine {
    fn page_at(&self, name: &str, path: &str) -> Declaration {
        let config = json!({"path": self.path(path), "content": "new"});
        claimed(self.file(name, config.clone()), &config)
    }
}

#[tokio::test]
async fn a_name_that_stands_for_another_file_puts_the_first_one_back() -> TestResult {
    let machine = Machine::new()?;
    let (first, second) = (machine.path("www/first"), machine.path("www/second"));
    fs::write(&first, "old first")?;
    fs::write(&second, "old second")?;
    machine.applied(vec![machine.page_at("page", "www/first")]).await?;

    machine.applied(vec![machine.page_at("page", "www/second")]).await?;

    assert_eq!(
        (read(&first).as_deref(), read(&second).as_deref()),
        (Some("old first"), Some("new"))
    );
    machine.applied(Vec::new()).await?;
    assert_eq!(read(&second).as_deref(), Some("old second"));
    assert_eq!(machine.records(), 0);
    Ok(())
}

#[tokio::test]
async fn another_name_for_a_file_takes_over_what_there_was() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    machine.applied(vec![machine.page_at("page", "www/page")]).await?;

    machine.applied(vec![machine.page_at("index", "www/page")]).await?;

    assert_eq!(read(&page).as_deref(), Some("new"));
    machine.applied(Vec::new()).await?;
    assert_eq!(read(&page).as_deref(), Some("old"));
    Ok(())
}

#[tokio::test]
async fn files_whose_names_are_exchanged_keep_what_there_was() -> TestResult {
    let machine = Machine::new()?;
    let (x, y) = (machine.path("www/x"), machine.path("www/y"));
    fs::write(&x, "old x")?;
    fs::write(&y, "old y")?;
    let site = |a, b| vec![machine.page_at("a", a), machine.page_at("b", b)];
    machine.applied(site("www/x", "www/y")).await?;
    machine.applied(site("www/y", "www/x")).await?;
    machine.applied(site("www/z", "www/x")).await?;
    assert_eq!(read(&y).as_deref(), Some("old y"));

    machine.applied(Vec::new()).await?;

    assert_eq!((read(&x).as_deref(), read(&machine.path("www/z"))), (Some("old x"), None));
    assert_eq!(machine.records(), 0);
    Ok(())
}

#[tokio::test]
async fn a_file_that_becomes_known_late_stays_while_it_is_declared() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    // Nobody has said what it claims, as where its path is an expression.
    let late = || vec![machine.file("page", json!({"path": page, "content": "new"}))];
    machine.applied(late()).await?;

    let again = machine.apply(late()).await?;

    assert_eq!((again.changes(), read(&page).as_deref()), (0, Some("new")), "{again}");
    machine.applied(Vec::new()).await?;
    assert_eq!(read(&page), None);
    Ok(())
}

#[tokio::test]
async fn who_was_notified_of_a_file_is_notified_when_it_is_put_back() -> TestResult {
    let machine = Machine::new()?;
    fs::write(machine.path("www/page"), "old")?;
    let server = || declare_in(machine.folder.path(), "server", "noop", json!({}));
    let mut page = machine.page();
    page.notify = vec!["server".to_owned(), "gone".to_owned()];
    let gone = declare_in(machine.folder.path(), "gone", "noop", json!({}));
    machine.applied(vec![page, server(), gone]).await?;

    let account = machine.apply(vec![server()]).await?;

    let done = &account.get("server").ok_or("no account")?.done;
    assert_eq!(done.len(), 1, "{account}");
    Ok(())
}

#[tokio::test]
async fn some_resources_of_a_site_put_nothing_back() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    machine.applied(vec![machine.page_at("page", "www/page")]).await?;
    let mut tagged = machine.page_at("other", "www/other");
    tagged.tags = vec!["some".to_owned()];
    let site = Site::new(vec![tagged], builtin(), String::new())?
        .select(&Selection { tags: vec!["some".to_owned()], ..Selection::default() })?;
    let facilities = machine.state.open()?;
    let (_stopper, stop) = Stop::pair();

    let account = site.apply(&ApplyOptions { facilities, ..ApplyOptions::default() }, stop).await;

    assert_eq!(account.resources.len(), 1, "{account}");
    assert_eq!(read(&page).as_deref(), Some("new"));
    Ok(())
}

#[tokio::test]
async fn a_folder_that_another_resource_uses_stays() -> TestResult {
    let machine = Machine::new()?;
    let folder = json!({"path": format!("{}/", machine.path("www/sub").display())});
    machine.applied(vec![claimed(machine.file("folder", folder.clone()), &folder)]).await?;
    let mut page = machine.page_at("page", "www/sub/page");
    page.reverse = false;

    machine.applied(vec![page]).await?;

    assert_eq!(read(&machine.path("www/sub/page")).as_deref(), Some("new"));
    // It goes when it is used no more, and is empty.
    assert_eq!(machine.records(), 1);
    fs::remove_file(machine.path("www/sub/page"))?;
    machine.applied(vec![]).await?;
    assert_eq!((machine.path("www/sub").exists(), machine.records()), (false, 0));
    Ok(())
}

#[tokio::test]
async fn a_file_is_not_changed_before_it_is_on_record_how_to_put_it_back() -> TestResult {
    let machine = Machine::new()?;
    let page = machine.path("www/page");
    fs::write(&page, "old")?;
    let full = Facilities::open(machine.state.path(), Records::open(Arc::new(Full))?);
    let text = "cannot put on record how to put it back: ";

    // A try that could not begin makes no difference to the next one.
    for _ in 0..2 {
        let account = machine.apply_with(vec![machine.page()], full.clone()).await?;

        assert_eq!(account.failures(), 1, "{account}");
        assert!(account.to_string().contains(text), "{account}");
        assert_eq!(read(&page).as_deref(), Some("old"));
    }
    Ok(())
}

#[tokio::test]
async fn a_plan_forgets_nothing() -> TestResult {
    let machine = Machine::new()?;
    fs::write(machine.path("www/page"), "old")?;
    machine.applied(vec![machine.page_at("page", "www/page")]).await?;
    let mut kept = machine.page_at("page", "www/page");
    kept.reverse = false;
    let site = Site::new(vec![kept], builtin(), String::new())?;
    let facilities = machine.state.open()?;

    let plan = site.plan(&PlanOptions { facilities, ..PlanOptions::default() }).await;

    assert_eq!((plan.changes(), machine.records()), (0, 1), "{plan}");
    Ok(())
}

#[tokio::test]
async fn a_kind_that_cannot_put_back_refuses_to() {
    let mut declared = declare_in(Path::new("/"), "run", "exec", json!({"command": ["true"]}));
    declared.reverse = true;
    let config = json!({"command": ["true"]});
    let config = config.as_object().expect("a map");
    let unknown = Default::default();
    let known = KnownConfig { config, unknown: &unknown };

    let errors = builtin().declare(&mut declared, &known).judged.errors;

    let wanted = "reverse: the type exec of \"run\" does not say how to put it back";
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
}
