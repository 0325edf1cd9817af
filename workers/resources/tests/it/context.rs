//! The facilities that a resource gets beside its config.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crankcase_resources::dynamic::Shared;
use crankcase_resources::run::plan;
use crankcase_resources::state::Records;
use crankcase_resources::{
    Actions, ApplyOptions, BoxError, Check, Context, Facilities, Kinds, Params, PlanOptions,
    Resource, Stale, Unfinished, kind,
};
use crankcase_workers::Folder;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::notify::notifying;
use crate::support::{StateFolder, TestResult, apply_with, declare, failure, uses};

/// says what it sees
#[derive(Debug, Clone, PartialEq, Params)]
struct Seer {
    /// whether it is as declared
    #[param(default = false)]
    is_valid: bool,
    /// the bus on which it counts itself
    bus: Option<String>,
    /// what it does in its private folder
    #[param(default = false)]
    has_folder: bool,
}

#[derive(Debug, Actions)]
enum Do {
    /// tells what it sees
    Tell,
    /// answers a notification
    Answer { notices: Vec<String> },
}

/// A bus that resources share.
#[derive(Debug)]
struct Bus {
    members: AtomicUsize,
    is_lost: AtomicBool,
}

static OPENED: AtomicUsize = AtomicUsize::new(0);

impl Shared for Bus {
    async fn open(key: &str) -> Result<Self, BoxError> {
        tokio::task::yield_now().await;
        if key == "broken" && OPENED.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err("the bus does not answer".into());
        }
        Ok(Self { members: AtomicUsize::new(0), is_lost: AtomicBool::new(false) })
    }

    fn is_usable(&self) -> bool {
        !self.is_lost.load(Ordering::Relaxed)
    }
}

type Told = AtomicBool;

impl Resource for Seer {
    const NAME: &'static str = "seer";
    type State = Self;
    type Action = Do;

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        if self.is_valid || context.memory::<Told>().load(Ordering::Relaxed) {
            return Ok(Check::valid(self.clone()));
        }
        Ok(Stale::absent().differs("told", false, true).act(Do::Tell).into())
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        match action {
            Do::Tell => {
                for used in context.dependencies() {
                    let actions: Vec<_> = used.actions.iter().map(ToString::to_string).collect();
                    context.log(&format!("{} did {}", used.alias, actions.join(", ")));
                }
                if let Some(key) = &self.bus {
                    let bus = context.shared::<Bus>(key).await?;
                    let before = bus.members.fetch_add(1, Ordering::Relaxed);
                    context.log(&format!("{before} were on the bus"));
                    bus.is_lost.store(before == 1, Ordering::Relaxed);
                }
                if self.has_folder {
                    let folder = context.private_folder()?;
                    let mode = fs::metadata(&folder)?.permissions().mode() & 0o777;
                    let runs = fs::read(folder.join("runs")).unwrap_or_default().len();
                    context.log(&format!("{mode:o}, {runs} runs before"));
                    fs::write(folder.join("runs"), "x".repeat(runs + 1))?;
                    if runs == 1 {
                        context.remove_private_folder()?;
                    }
                }
                context.memory::<Told>().store(true, Ordering::Relaxed);
            }
            Do::Answer { notices } => context.log(&notices.join(", ")),
        }
        Ok(())
    }

    fn refresh(&self, _: &[Do], context: &Context) -> Option<Do> {
        let notices = context.notices().iter().map(|notice| {
            let actions: Vec<_> = notice.actions.iter().map(ToString::to_string).collect();
            format!("{}: {} by {}", notice.by, notice.attributes.join(" "), actions.join(", "))
        });
        let notices = notices.collect();
        Some(Do::Answer { notices })
    }
}

fn kinds() -> Kinds {
    Kinds::default().with(kind::<Seer>())
}

/// Returns what the resources said, in the order of the account.
async fn said(
    site: &[(&str, Value)],
    facilities: &Facilities,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let declared: Vec<_> =
        site.iter().map(|(name, it)| declare(name, "seer", it.clone())).collect();
    let options = ApplyOptions { facilities: facilities.clone(), ..ApplyOptions::default() };
    let account = apply_with(&declared, &kinds(), &options).await?;
    let done = account.resources.iter().flat_map(|it| &it.done);
    Ok(done.flat_map(|done| done.log.clone()).collect())
}

#[tokio::test]
async fn a_resource_sees_what_those_before_it_did_and_who_notifies_it() -> TestResult {
    let first = notifying(declare("first", "seer", json!({})), "second");
    let site = [first, uses(declare("second", "seer", json!({})), &["first"])];

    let planned = plan(&site, &kinds(), &PlanOptions::default()).await?;
    let account = apply_with(&site, &kinds(), &ApplyOptions::default()).await?;

    let second = account.get("second").ok_or("it was declared")?;
    assert_eq!(second.done[0].log, ["first did tell"]);
    assert_eq!(second.done[1].log, ["first: told by tell"]);
    let refresh = planned.get("second").and_then(|it| it.refresh.clone()).ok_or("no refresh")?;
    assert_eq!(refresh.action, second.done[1].action);
    Ok(())
}

#[tokio::test]
async fn a_service_is_opened_once_for_all_and_anew_when_it_is_lost() -> TestResult {
    let bus = || json!({"bus": "one"});
    let site = [("a", bus()), ("b", bus()), ("c", bus()), ("d", json!({"bus": "two"}))];

    let mut said = said(&site, &Facilities::default()).await?;

    said.sort();
    // The second who joins "one" loses it; the third has a new one, and "two" is another.
    let expected =
        ["0 were", "0 were", "0 were", "1 were"].map(|said| format!("{said} on the bus"));
    assert_eq!(said, expected);
    Ok(())
}

#[tokio::test]
async fn a_service_that_could_not_be_opened_is_tried_again_by_who_asks_next() -> TestResult {
    let bus = || json!({"bus": "broken"});
    let site = [declare("a", "seer", bus()), uses(declare("b", "seer", bus()), &[])];
    let facilities = Facilities::default();
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };

    let account = apply_with(&site, &kinds(), &options).await?;

    assert_eq!(account.failures(), 1, "{account}");
    let failed = if account.get("a").is_some_and(|a| a.done.is_empty()) { "a" } else { "b" };
    assert!(failure(&account, failed).contains("the bus does not answer"));
    Ok(())
}

#[tokio::test]
async fn a_private_folder_is_found_again_until_it_is_removed() -> TestResult {
    let state = StateFolder::new()?;
    let site = [(r#"it["a/b"]"#, json!({"has_folder": true}))];

    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend(said(&site, &state.open()?).await?);
    }

    assert_eq!(all, ["700, 0 runs before", "700, 1 runs before", "700, 0 runs before"]);
    assert!(state.path().join("private/it..a.2fb").is_dir());
    Ok(())
}

#[tokio::test]
async fn what_a_symlink_in_a_private_folder_leads_to_is_not_removed_with_it() -> TestResult {
    let (state, other) = (StateFolder::new()?, tempdir()?);
    let site = [("it", json!({"has_folder": true}))];
    said(&site, &state.open()?).await?;
    fs::write(other.path().join("file"), "precious")?;
    symlink(other.path(), state.path().join("private/it/link"))?;

    said(&site, &state.open()?).await?;

    assert!(!state.path().join("private/it").exists());
    assert_eq!(fs::read_to_string(other.path().join("file"))?, "precious");
    Ok(())
}

#[tokio::test]
async fn a_private_folder_is_in_the_state_folder_that_is_held_when_another_one_has_got_its_path()
-> TestResult {
    let outer = tempdir()?;
    let (state, moved) = (outer.path().join("state"), outer.path().join("moved"));
    let held = Folder::make(&state)?.hold_path()?;
    let facilities = Facilities::open(&state, Records::default());
    fs::rename(&state, &moved)?;
    fs::create_dir(&state)?;

    said(&[("it", json!({"has_folder": true}))], &facilities).await?;

    assert!(moved.join("private/it/runs").exists());
    assert_eq!(fs::read_dir(&state)?.count(), 0);
    drop(held);
    Ok(())
}

#[tokio::test]
async fn without_a_state_folder_there_is_no_private_one() -> TestResult {
    let site = [declare("it", "seer", json!({"has_folder": true}))];

    let account = apply_with(&site, &kinds(), &ApplyOptions::default()).await?;

    assert!(failure(&account, "it").contains("there is no state folder"));
    Ok(())
}
