//! Files that are put back as they were when they leave their manifest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crankcase_engine::Stop;
use crankcase_kinds::builtin;
use crankcase_resources::{
    Account, ApplyOptions, Declaration, Facilities, Plan, PlanOptions, Site,
};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{TestResult, declare_in};

/// A machine with a state folder, which is opened anew for each run.
struct Machine(TempDir);

impl Machine {
    fn new() -> std::io::Result<Self> {
        let machine = Self(tempdir()?);
        fs::create_dir(machine.path("www"))?;
        Ok(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Returns a file that is put back when it leaves.
    fn file(&self, name: &str, config: Value) -> Declaration {
        let mut declaration = declare_in(self.0.path(), name, "file", config);
        declaration.reverse = true;
        declaration
    }

    fn page(&self) -> Declaration {
        self.file("page", json!({"path": self.path("www/page"), "content": "new"}))
    }

    async fn apply(&self, declarations: Vec<Declaration>) -> TestResult<Account> {
        let facilities = Facilities::open(&self.state())?;
        let site = Site::new(declarations, builtin(), String::new())?;
        let (_stopper, stop) = Stop::pair();
        let options = ApplyOptions { facilities, ..ApplyOptions::default() };
        let account = site.apply(&options, stop).await;
        assert_eq!(account.failures(), 0, "{account}");
        Ok(account)
    }

    async fn applied(&self, declarations: Vec<Declaration>) -> TestResult {
        self.apply(declarations).await.map(drop)
    }

    async fn plan(&self, declarations: Vec<Declaration>) -> TestResult<Plan> {
        let facilities = Facilities::of_plan(&self.state())?;
        let site = Site::new(declarations, builtin(), String::new())?;
        Ok(site.plan(&PlanOptions { facilities, ..PlanOptions::default() }).await)
    }

    fn records(&self) -> usize {
        fs::read_dir(self.state().join("reversals")).map_or(0, Iterator::count)
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
    machine.applied(vec![machine.file("page", newer)]).await?;
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
        page.dependencies = vec![crankcase_resources::Dependency {
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
    let mut other = machine.file("other", json!({"path": page, "content": "other"}));
    other.reverse = false;
    let known = json!({"path": page, "content": "other"});
    let known = crankcase_resources::KnownConfig {
        config: known.as_object().expect("a map"),
        unknown: &Default::default(),
    };
    let declared = builtin().declare(&mut other, &known);
    assert_eq!(declared.judged.errors, []);

    machine.applied(vec![other]).await?;

    assert_eq!(read(&page).as_deref(), Some("other"));
    assert_eq!(machine.records(), 0);
    Ok(())
}

#[tokio::test]
async fn a_kind_that_cannot_put_back_refuses_to() {
    let mut declared = declare_in(Path::new("/"), "run", "exec", json!({"command": ["true"]}));
    declared.reverse = true;
    let config = json!({"command": ["true"]});
    let config = config.as_object().expect("a map");
    let unknown = Default::default();
    let known = crankcase_resources::KnownConfig { config, unknown: &unknown };

    let errors = builtin().declare(&mut declared, &known).judged.errors;

    let wanted = "reverse: the type exec of \"run\" does not say how to put it back";
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [wanted]);
}
