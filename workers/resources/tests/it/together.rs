//! Resources that are acted on together.

use std::error::Error;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crankcase_engine::Stop;
use crankcase_resources::testing::{Conformance, Sample, Violations};
use crankcase_resources::{
    AbsPath, Account, Actions, ApplyOptions, BoxError, Check, Claim, Claimed, Context, Declaration,
    Grouping, Halt, Kinds, Member, Outcome, PATH, Params, PlanOptions, Resource, Stale, Unfinished,
    Verdict, apply, kind, plan,
};
use serde_json::json;
use tempfile::{TempDir, tempdir};
use tokio::sync::Notify;

use crate::support::{TestResult, apply_with, declare, failure, uses};

/// How many packages are installed alone at this moment, and the most that were.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);
static MOST_AT_ONCE: AtomicUsize = AtomicUsize::new(0);
/// Wakes a test when packages that never end are installed together.
static SLOW: Notify = Notify::const_new();

/// keeps a package installed
#[derive(Debug, Clone, PartialEq, Params)]
struct Package {
    /// the file that it consists of
    path: AbsPath,
    /// the packages that it is installed together with; alone if not given
    set: Option<String>,
    /// what is wrong with it
    #[param(default = "nothing")]
    fault: String,
}

/// The state of a package.
#[derive(Debug, Clone, PartialEq, Params)]
struct PackageState {
    /// whether it is installed
    installed: bool,
}

#[derive(Debug, Actions)]
enum Do {
    /// installs it
    Install,
}

impl Package {
    fn path(&self) -> &Path {
        self.path.as_ref()
    }

    fn name(&self) -> String {
        self.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Adds a line to the journal beside the packages, if there is one: what was installed at once.
    fn install(packages: &[&Self]) -> Result<(), BoxError> {
        if let Some(wrong) = packages.iter().find(|package| package.fault == "unknown") {
            return Err(format!("there is no package {}", wrong.name()).into());
        }
        let journal = packages[0].path().with_file_name("journal");
        let mut names: Vec<_> = packages.iter().map(|package| package.name()).collect();
        names.sort();
        if let Ok(before) = fs::read_to_string(&journal) {
            fs::write(&journal, format!("{before}{}\n", names.join(" ")))?;
        }
        packages.iter().try_for_each(|package| fs::write(package.path(), ""))?;
        Ok(())
    }
}

impl Resource for Package {
    const NAME: &'static str = "package";
    type State = PackageState;
    type Action = Do;

    fn claims(half: &PackageHalf) -> Claimed {
        let path = half.path.as_given().map(|path| path.as_ref().display().to_string());
        let mut claimed = Claimed::of(path.into_iter().map(|it| Claim::keeps(PATH, it)).collect());
        (claimed.is_open, claimed.may_make_any) = (half.path.is_unknown(), true);
        claimed
    }

    async fn check(&self, _: &Context) -> Result<Check<Self>, BoxError> {
        if self.fault == "hidden" {
            return Err("nobody can see it".into());
        }
        if self.path().exists() {
            return Ok(Check::valid(PackageState { installed: true }));
        }
        Ok(Stale::absent().differs("installed", false, true).act(Do::Install).into())
    }

    async fn act(&self, Do::Install: &Do, context: &Context) -> Result<(), Unfinished> {
        context.log("alone");
        let at_once = AT_ONCE.fetch_add(1, Ordering::Relaxed) + 1;
        MOST_AT_ONCE.fetch_max(at_once, Ordering::Relaxed);
        // Others that may act at the same time begin meanwhile.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        AT_ONCE.fetch_sub(1, Ordering::Relaxed);
        Ok(Self::install(&[self])?)
    }
}

impl Grouping for Package {
    fn group(&self) -> Option<String> {
        self.set.clone()
    }

    async fn act_together(members: &[Member<'_, Self>]) -> Result<(), Unfinished> {
        let packages: Vec<_> = members.iter().map(|member| member.config).collect();
        if packages.iter().any(|package| package.fault == "slow") {
            SLOW.notify_one();
            members[0].context.stop().wait().await;
            return Err(Unfinished::Interrupted);
        }
        assert!(packages.iter().all(|package| package.fault != "panics"), "bang");
        Self::install(&packages)?;
        members.iter().for_each(|member| member.context.log("together"));
        Ok(())
    }
}

fn kinds() -> Kinds {
    Kinds::default().with(kind::<Package>().grouping())
}

/// A folder with a journal of what was installed at once.
struct World(TempDir);

impl World {
    fn new() -> io::Result<Self> {
        let world = Self(tempdir()?);
        fs::write(world.path("journal"), "")?;
        Ok(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn package(&self, name: &str, set: Option<&str>, fault: &str) -> Declaration {
        let config = json!({"path": self.path(name), "set": set, "fault": fault});
        declare(name, "package", config)
    }

    fn packages<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<Declaration> {
        names.into_iter().map(|name| self.package(name, Some("apt"), "nothing")).collect()
    }

    /// Returns what was installed at once, in order of the names.
    fn installed(&self) -> Vec<String> {
        let journal = fs::read_to_string(self.path("journal")).unwrap_or_default();
        let mut lines: Vec<_> = journal.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }
}

async fn apply_packages(declarations: &[Declaration]) -> Result<Account, Box<dyn Error>> {
    apply_with(declarations, &kinds(), &ApplyOptions::default()).await
}

fn logs(account: &Account, name: &str) -> Vec<String> {
    let accounted = account.get(name).expect("it was declared");
    accounted.done.iter().flat_map(|done| done.log.clone()).collect()
}

#[tokio::test]
async fn more_than_there_are_slots_are_one_action_as_planned() -> TestResult {
    let world = World::new()?;
    let names: Vec<_> = (10..50).map(|number| format!("p{number}")).collect();
    let declarations = world.packages(names.iter().map(String::as_str));

    let plan = plan(&declarations, &kinds(), &PlanOptions::default()).await?;
    let account = apply_packages(&declarations).await?;

    assert_eq!(world.installed(), [names.join(" ")]);
    for name in &names {
        let Verdict::Changes(change) = &plan.get(name).unwrap().verdict else { panic!("{plan}") };
        let done: Vec<_> = account.get(name).unwrap().done.iter().map(|it| &it.action).collect();
        assert_eq!(done, change.actions.iter().collect::<Vec<_>>());
        assert_eq!(logs(&account, name), ["together"]);
    }
    Ok(())
}

#[tokio::test]
async fn each_set_is_an_action_and_so_is_each_without_one() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.extend(["c", "d"].map(|name| world.package(name, Some("pip"), "nothing")));
    declarations.extend(["e", "f"].map(|name| world.package(name, None, "nothing")));

    let account = apply_packages(&declarations).await?;

    assert_eq!(account.changes(), 6, "{account}");
    assert_eq!(world.installed(), ["a b", "c d", "e", "f"]);
    Ok(())
}

#[tokio::test]
async fn those_that_come_later_are_another_action() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b", "c", "d"]);
    declarations[1] = uses(declarations[1].clone(), &["a"]);
    declarations[3] = uses(declarations[3].clone(), &["c"]);

    let account = apply_packages(&declarations).await?;

    assert_eq!(account.changes(), 4, "{account}");
    assert_eq!(world.installed(), ["a c", "b d"]);
    Ok(())
}

#[tokio::test]
async fn who_has_nothing_to_do_or_cannot_is_not_waited_for() -> TestResult {
    let world = World::new()?;
    fs::write(world.path("there"), "")?;
    let mut declarations = world.packages(["a", "b", "there"]);
    declarations.push(world.package("hidden", Some("apt"), "hidden"));
    let mut left_alone = world.package("left", Some("apt"), "nothing");
    left_alone.noop = true;
    declarations.push(left_alone);
    declarations.push(declare("broken", "package", json!({"path": "relative"})));

    let account = apply_packages(&declarations).await?;

    assert_eq!(world.installed(), ["a b"]);
    assert_eq!((account.changes(), account.failures()), (2, 2), "{account}");
    Ok(())
}

#[tokio::test]
async fn one_that_is_wrong_does_not_fail_the_others() -> TestResult {
    for fault in ["unknown", "panics"] {
        let world = World::new()?;
        let mut declarations = world.packages(["a", "b"]);
        declarations.push(world.package("wrong", Some("apt"), fault));

        let account = apply_packages(&declarations).await?;

        // Alone, a package that panics only among others is fine.
        let wanted = if fault == "unknown" { vec!["a", "b"] } else { vec!["a", "b", "wrong"] };
        assert_eq!(world.installed(), wanted);
        assert_eq!(logs(&account, "b").last().map(String::as_str), Some("alone"));
        if fault == "unknown" {
            let said = failure(&account, "wrong");
            assert!(said.contains("there is no package wrong"), "{said}");
        }
        let first = logs(&account, "a").concat();
        assert!(first.contains("as together with others it failed"), "{first}");
    }
    Ok(())
}

#[tokio::test]
async fn no_more_work_at_a_time_than_are_to_when_a_group_has_failed() -> TestResult {
    let world = World::new()?;
    let names: Vec<_> = (10..40).map(|number| format!("p{number}")).collect();
    let mut declarations = world.packages(names.iter().map(String::as_str));
    declarations.push(world.package("wrong", Some("apt"), "unknown"));
    let parallel = NonZeroUsize::new(3).ok_or("3 is not zero")?;
    let options = ApplyOptions { parallel, ..ApplyOptions::default() };

    let account = apply_with(&declarations, &kinds(), &options).await?;

    assert_eq!((account.changes(), account.failures()), (30, 1), "{account}");
    assert_eq!(MOST_AT_ONCE.load(Ordering::Relaxed), 3);
    Ok(())
}

#[tokio::test]
async fn a_group_does_not_begin_after_a_failure_that_ends_all() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.push(world.package("hidden", Some("apt"), "hidden"));
    let options = ApplyOptions { fail_fast: true, ..ApplyOptions::default() };

    let account = apply_with(&declarations, &kinds(), &options).await?;

    assert_eq!(world.installed(), Vec::<String>::new());
    for name in ["a", "b"] {
        let accounted = account.get(name).expect("declared");
        let wanted = Outcome::Halted { at: None, by: Halt::FailFast };
        assert_eq!((&accounted.outcome, accounted.remaining.len()), (&wanted, 1), "{account}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stop_interrupts_all_of_them() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.push(world.package("slow", Some("apt"), "slow"));
    let (stopper, stop) = Stop::pair();
    let (kinds, options) = (kinds(), ApplyOptions::default());

    let (account, ()) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        SLOW.notified().await;
        stopper.stop();
    });
    let account = account?;

    for name in ["a", "b", "slow"] {
        let outcome = &account.get(name).unwrap().outcome;
        let is_interrupted = matches!(outcome, Outcome::Halted { at: Some(_), by: Halt::Stop });
        assert!(is_interrupted, "{account}");
    }
    assert_eq!(world.installed(), Vec::<String>::new());
    Ok(())
}

#[test]
fn a_kind_that_groups_conforms() -> Result<(), Violations> {
    let sample = Sample::new(
        "package",
        "one of a set",
        |folder| json!({"path": folder.join("package"), "set": "apt"}),
    );
    let sample = sample.drift("it is gone", |folder| fs::remove_file(folder.join("package")));
    Conformance::new(kinds()).sample(sample).graphs(30).check()
}
