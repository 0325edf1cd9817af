//! Resources that are acted on together.

use std::error::Error;
use std::fs;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::run::{apply, plan};
use crankcase_resources::testing::{Conformance, Sample, Violations};
use crankcase_resources::{
    Account, ApplyOptions, Declaration, Halt, Outcome, PlanOptions, Verdict,
};
use serde_json::json;
use tokio::time::timeout;

use self::package::{World, kinds};
use crate::notify::notifying;
use crate::support::{StateFolder, TestResult, apply_with, declare, failure, uses};

mod package;

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
async fn each_kind_is_an_action_although_the_set_has_one_name() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.extend(["c", "d"].map(|name| world.snap(name)));

    let account = apply_packages(&declarations).await?;

    assert_eq!(account.changes(), 4, "{account}");
    assert_eq!(world.installed(), ["a b", "c d"]);
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
async fn what_stops_something_first_is_acted_on_alone() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.extend(["c", "d"].map(|name| world.package(name, Some("apt"), "in use")));

    let account = apply_packages(&declarations).await?;

    assert_eq!(account.changes(), 4, "{account}");
    assert_eq!(world.installed(), ["a b", "c", "d"]);
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
    assert_eq!(world.watched().most_at_once.load(Ordering::Relaxed), 3);
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

/// Returns `a`, `b` and a package with a fault, which notify one that is there.
fn notifying_packages(world: &World, fault: &str) -> Result<Vec<Declaration>, Box<dyn Error>> {
    fs::write(world.path("there"), "")?;
    let mut sources = world.packages(["a", "b"]);
    sources.push(world.package("c", Some("apt"), fault));
    let mut declarations: Vec<_> =
        sources.into_iter().map(|source| notifying(source, "there")).collect();
    declarations.push(world.package("there", None, "nothing"));
    Ok(declarations)
}

#[tokio::test]
async fn a_group_that_does_not_begin_leaves_no_notification() -> TestResult {
    let (world, state) = (World::new()?, StateFolder::new()?);
    let declarations = notifying_packages(&world, "hidden")?;
    let facilities = state.open()?;
    let options = ApplyOptions { fail_fast: true, facilities, ..ApplyOptions::default() };

    let account = apply_with(&declarations, &kinds(), &options).await?;

    assert_eq!((account.changes(), account.failures()), (0, 1), "{account}");
    assert!(state.loaded()?.pending.is_empty());
    Ok(())
}

#[tokio::test]
async fn whom_all_of_a_group_notify_is_on_disk_before_they_are_acted_on() -> TestResult {
    let (world, state) = (World::new()?, StateFolder::new()?);
    let declarations = notifying_packages(&world, "slow")?;
    let (kinds, facilities) = (kinds(), state.open()?);
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (stopper, stop) = Stop::pair();

    let (account, loaded) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        world.watched().slow.notified().await;
        let loaded = state.loaded();
        stopper.stop();
        loaded
    });

    let pending = loaded?.pending;
    let sources: Vec<_> = pending.iter().map(|it| &*it.source).collect();
    assert_eq!(sources, ["a", "b", "c"]);
    assert_eq!(account?.changes(), 0);
    Ok(())
}

/// Applies `a`, `b` and a package with a fault as one group, and stops while that acts.
async fn stop_during(world: &World, fault: &str) -> Result<Account, Box<dyn Error>> {
    let mut declarations = world.packages(["a", "b"]);
    declarations.push(world.package("c", Some("apt"), fault));
    let (stopper, stop) = Stop::pair();
    let (kinds, options) = (kinds(), ApplyOptions::default());

    let (account, ()) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        world.watched().slow.notified().await;
        stopper.stop();
    });
    Ok(account?)
}

/// Returns the log of an action that was begun and not finished.
fn interrupted(account: &Account, name: &str, by: Halt) -> String {
    let accounted = account.get(name).expect("it was declared");
    assert_eq!(accounted.remaining, [], "{account}");
    match &accounted.outcome {
        Outcome::Halted { at: Some(at), by: halt } if *halt == by => at.log.concat(),
        _ => panic!("{name} was not interrupted: {account}"),
    }
}

#[tokio::test]
async fn a_stop_interrupts_all_of_them() -> TestResult {
    let world = World::new()?;

    let account = stop_during(&world, "slow").await?;

    for name in ["a", "b", "c"] {
        assert_eq!(interrupted(&account, name, Halt::Stop), "");
    }
    assert_eq!(world.installed(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn those_that_fail_together_after_a_stop_were_begun() -> TestResult {
    let world = World::new()?;

    let account = stop_during(&world, "locked").await?;

    for name in ["a", "b", "c"] {
        let log = interrupted(&account, name, Halt::Stop);
        assert!(log.contains("it failed: it is locked"), "{log}");
    }
    assert_eq!(world.installed(), Vec::<String>::new());
    Ok(())
}

#[tokio::test]
async fn those_that_failed_together_were_begun_when_one_of_them_ends_all() -> TestResult {
    let world = World::new()?;
    let mut declarations = vec![world.package("wrong", Some("apt"), "unknown")];
    declarations.extend(world.packages(["a", "b"]));
    // The first has the only slot, so it fails alone before others are done alone.
    let (parallel, fail_fast) = (NonZeroUsize::MIN, true);
    let options = ApplyOptions { parallel, fail_fast, ..ApplyOptions::default() };

    let account = apply_with(&declarations, &kinds(), &options).await?;

    for name in ["a", "b"] {
        let log = interrupted(&account, name, Halt::FailFast);
        assert!(log.contains("it failed: there is no package wrong"), "{log}");
    }
    assert_eq!(account.failures(), 1, "{account}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_apply_that_is_dropped_while_a_group_waits_drops_its_visits() -> TestResult {
    let world = World::new()?;
    let mut declarations = world.packages(["a", "b"]);
    declarations.push(world.package("endless", Some("apt"), "endless"));
    let (kinds, options, watched) = (kinds(), ApplyOptions::default(), world.watched());
    let (_stopper, stop) = Stop::pair();

    tokio::select! {
        biased;
        account = apply(&declarations, &kinds, &options, stop) => panic!("it ends: {account:?}"),
        () = watched.wait_for(3) => {}
    }

    let dropped = timeout(Duration::from_secs(300), watched.dropped.notified()).await;
    assert!(dropped.is_ok(), "a visit goes on");
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
