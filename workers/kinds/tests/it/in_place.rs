//! Files that are written in place.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crankcase_kinds::builtin;
use crankcase_resources::run::plan;
use crankcase_resources::state::Records;
use crankcase_resources::{Account, ApplyOptions, Facilities, Plan, PlanOptions, Verdict};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{TestResult, apply_builtin, apply_with, declare, failure, names};

/// Plans and applies a file beside a state folder.
pub(crate) async fn plan_and_apply(
    state: &Path,
    config: Value,
) -> Result<(Plan, Account), Box<dyn std::error::Error>> {
    let declarations = [declare("it", "file", config)];
    let facilities = Facilities::of_plan(state, Records::default());
    let options = PlanOptions { facilities, ..PlanOptions::default() };
    let plan = plan(&declarations, &builtin(), &options).await?;
    let facilities = Facilities::open(state, Records::default());
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    Ok((plan, apply_with(&declarations, &builtin(), &options).await?))
}

/// Returns the names of the actions that a plan shows.
pub(crate) fn actions(plan: &Plan) -> Vec<&str> {
    match plan.get("it").map(|planned| &planned.verdict) {
        Some(Verdict::Changes(change)) => change.actions.iter().map(|it| &*it.name).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn a_file_is_written_in_place_if_that_is_declared() -> TestResult {
    for (in_place, action) in
        [(json!("auto"), "write"), (json!(false), "write"), (json!(true), "overwrite")]
    {
        let (folder, state) = (tempdir()?, tempdir()?);
        let path = folder.path().join("page");
        fs::write(&path, "a long old content")?;
        fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
        let other = folder.path().join("other");
        fs::hard_link(&path, &other)?;

        let config = json!({"path": path, "content": "new", "mode": "0644", "in_place": in_place});
        let (plan, account) = plan_and_apply(state.path(), config).await?;

        assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
        assert_eq!(actions(&plan), [action]);
        assert_eq!(fs::read_to_string(&path)?, "new");
        assert_eq!(fs::metadata(&path)?.mode() & 0o7777, 0o644);
        assert_eq!(fs::read_to_string(&other)? == "new", action == "overwrite");
        assert_eq!(names(folder.path())?, ["other", "page"]);
        let kept = fs::read_dir(state.path().join("overwrites")).map_or(0, Iterator::count);
        assert_eq!(kept, 0);
    }
    Ok(())
}

#[tokio::test]
async fn a_new_file_is_made_as_any_other() -> TestResult {
    let (folder, state) = (tempdir()?, tempdir()?);
    let config = json!({"path": folder.path().join("page"), "content": "x", "in_place": true});

    let (plan, account) = plan_and_apply(state.path(), config).await?;

    assert_eq!(actions(&plan), ["create"]);
    assert_eq!((account.changes(), account.failures()), (1, 0), "{account}");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_written_in_place_is_refused_and_left() -> TestResult {
    let (folder, state, shared) = (tempdir()?, tempdir()?, tempdir()?);
    fs::set_permissions(shared.path(), PermissionsExt::from_mode(0o777))?;
    let large = "x".repeat(16 * 1024 * 1024 + 1);
    let cases = [
        (folder.path(), &*large, "is larger than 16777216 bytes"),
        (shared.path(), "new", "others than the agent's user can write to it"),
    ];

    for (folder, content, why) in cases {
        let path = folder.join("page");
        fs::write(&path, "old")?;
        let config = json!({"path": path, "content": content, "in_place": true});
        let (_, account) = plan_and_apply(state.path(), config).await?;

        assert!(failure(&account, "it").contains(why), "{account}");
        assert_eq!(fs::read_to_string(&path)?, "old");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_is_written_in_place_without_a_folder_to_keep_it_meanwhile() -> TestResult {
    let folder = tempdir()?;
    let path = folder.path().join("page");
    fs::write(&path, "old")?;
    let config = json!({"path": path, "content": "new", "in_place": true});

    let account = apply_builtin(&[declare("it", "file", config)]).await?;

    assert!(failure(&account, "it").contains("there is no state folder"), "{account}");
    assert_eq!(fs::read_to_string(&path)?, "old");
    Ok(())
}

#[tokio::test]
async fn a_file_that_a_crash_has_left_in_part_is_whole_at_the_next_start() -> TestResult {
    let (folder, state) = (tempdir()?, tempdir()?);
    let path = folder.path().join("page");
    // The first bytes of the new content were written.
    fs::write(&path, "new content")?;
    let journal = state.path().join("overwrites");
    fs::create_dir(&journal)?;
    let head = json!({"path": path, "old": "old content".len()});
    fs::write(journal.join("record"), format!("{head}\nold contentnew one"))?;

    let plan = Facilities::of_plan(state.path(), Records::default());
    let before = fs::read_to_string(&path)?;
    let agent = Facilities::open(state.path(), Records::default());

    assert_eq!((before.as_str(), fs::read_to_string(&path)?.as_str()), ("new content", "new one"));
    assert_eq!(fs::read_dir(&journal)?.count(), 0);
    drop((plan, agent));
    Ok(())
}
