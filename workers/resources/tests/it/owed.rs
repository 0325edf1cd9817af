//! Notifications that outlive the process.

use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::front::{Dependency, item_name};
use crankcase_resources::run::{apply, plan};
use crankcase_resources::state::Records;
use crankcase_resources::{
    Account, ApplyOptions, Declaration, Facilities, Kinds, OnChange, Outcome, Plan, PlanOptions,
    Selection, Site,
};
use serde_json::json;

use crate::notify::notifying;
use crate::probe::{Event, Journal, probe, probes};
use crate::program::Program;
use crate::support::{Full, StateFolder, TestResult, apply_with, declare, failure, uses};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A page that notifies a server, and what the server depends on.
fn site(page: &str, before: &str) -> [Declaration; 3] {
    let page = notifying(probe("page", page), "server");
    [page, probe("before", before), uses(probe("server", "valid"), &["before"])]
}

async fn apply_in(state: &StateFolder, site: &[Declaration], kinds: &Kinds) -> Result<Account> {
    let facilities = state.open()?;
    apply_with(site, kinds, &ApplyOptions { facilities, ..ApplyOptions::default() }).await
}

/// Returns the selection of one resource.
fn only(name: &str) -> Selection {
    Selection { only: vec![name.to_owned()], ..Selection::default() }
}

/// Returns a part of a site.
fn part(site: &[Declaration], kinds: &Kinds, selection: &Selection) -> Result<Site> {
    Ok(Site::new(site.to_vec(), kinds.clone(), String::new())?.select(selection)?)
}

/// Applies a part of a site, with all that belongs to a site.
async fn apply_part(
    state: &StateFolder,
    (site, selection): (&[Declaration], &Selection),
    kinds: &Kinds,
) -> TestResult {
    let facilities = state.open()?;
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();
    drop(part(site, kinds, selection)?.apply(&options, stop).await);
    Ok(())
}

async fn plan_in(state: &StateFolder, site: &[Declaration], kinds: &Kinds) -> Result<Plan> {
    let facilities = state.of_plan()?;
    Ok(plan(site, kinds, &PlanOptions { facilities, ..PlanOptions::default() }).await?)
}

/// Returns the notifications on record: targets, each with a source.
fn pending(state: &StateFolder) -> Result<Vec<String>> {
    let pending = state.loaded()?.pending.into_iter();
    Ok(pending.map(|it| format!("{} by {}", it.target, it.source)).collect())
}

/// Returns how often the server was refreshed.
fn refreshed(journal: &Journal) -> usize {
    journal.events().iter().filter(|event| **event == Event::Refreshed("server".to_owned())).count()
}

#[tokio::test]
async fn a_notification_that_could_not_be_answered_is_answered_by_a_later_run() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());

    let account = apply_in(&state, &site("", "fails"), &kinds).await?;
    assert_eq!(account.get("server").unwrap().missed, ["page"]);
    let planned = plan_in(&state, &site("", "valid"), &kinds).await?;
    let refresh = planned.get("server").and_then(|server| server.refresh.as_ref());
    assert_eq!(refresh.map(|refresh| &refresh.by[..]), Some(&["page".to_owned()][..]));
    drop(apply_in(&state, &site("", "valid"), &kinds).await?);
    assert_eq!(refreshed(&journal), 1);
    drop(apply_in(&state, &site("", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    assert_eq!(plan_in(&state, &site("", "valid"), &kinds).await?.changes(), 0);
    Ok(())
}

#[tokio::test]
async fn a_notification_is_on_disk_before_the_action_that_causes_it() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let (first, second) = (site("waits", "valid"), site("valid", "valid"));

    {
        let facilities = state.open()?;
        let options = ApplyOptions { facilities, ..ApplyOptions::default() };
        let (_stopper, stop) = Stop::pair();
        let applying = apply(&first, &kinds, &options, stop);
        // It is dropped while its action runs, as by a crash.
        tokio::select! {
            _ = applying => return Err("the action has ended".into()),
            () = journal.began.notified() => {}
        }
    }
    drop(apply_in(&state, &second, &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    Ok(())
}

#[tokio::test]
async fn an_action_that_has_begun_and_failed_may_have_changed_something() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());

    for _ in 0..2 {
        drop(apply_in(&state, &site("fails", "valid"), &kinds).await?);
        assert_eq!(refreshed(&journal), 0, "not while it fails");
    }
    drop(apply_in(&state, &site("valid", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    Ok(())
}

#[tokio::test]
async fn what_was_not_begun_notifies_nobody_later() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let [page, bad, server] = site("", "fails");
    let held = [uses(page, &["before"]), bad, server];

    drop(apply_in(&state, &held, &kinds).await?);
    drop(apply_in(&state, &site("valid", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 0);
    Ok(())
}

#[tokio::test]
async fn what_is_left_alone_still_owes_its_answer() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    drop(apply_in(&state, &site("", "fails"), &kinds).await?);
    let mut left_alone = site("", "valid");
    left_alone[2].noop = true;

    drop(apply_in(&state, &left_alone, &kinds).await?);
    assert_eq!(refreshed(&journal), 0);
    drop(apply_in(&state, &site("", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    Ok(())
}

#[tokio::test]
async fn what_needs_run_still_owes_its_answer() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let kinds = kinds.with(Program);
    let [page, _, server] = site("", "valid");
    let program = declare("before", "program", json!({}));

    for _ in 0..2 {
        let site = [page.clone(), program.clone(), server.clone()];
        let account = apply_in(&state, &site, &kinds).await?;
        assert_eq!(account.get("server").unwrap().missed, ["page"]);
        assert_eq!(pending(&state)?, ["server by page"]);
    }
    assert_eq!(refreshed(&journal), 0);
    drop(apply_in(&state, &site("", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    assert!(pending(&state)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn what_needs_run_notifies_nobody_of_an_earlier_change() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let kinds = kinds.with(Program);
    drop(apply_in(&state, &site("", "fails"), &kinds).await?);
    let [page, before, server] = site("", "valid");
    let program = declare("program", "program", json!({}));
    let needs_run = [uses(page, &["program"]), before, server, program];

    drop(apply_in(&state, &needs_run, &kinds).await?);
    assert_eq!(refreshed(&journal), 0);
    assert_eq!(pending(&state)?, ["server by page"]);
    drop(apply_in(&state, &site("", "valid"), &kinds).await?);

    assert_eq!(refreshed(&journal), 1);
    Ok(())
}

#[tokio::test]
async fn all_who_notify_are_on_record() -> TestResult {
    let (state, (kinds, _)) = (StateFolder::new()?, probes());
    let other = notifying(probe("other", ""), "server");
    let site: Vec<_> = site("", "fails").into_iter().chain([other]).collect();

    drop(apply_in(&state, &site, &kinds).await?);

    let planned = plan_in(&state, &site, &kinds).await?;
    let refresh = planned.get("server").and_then(|server| server.refresh.clone());
    let by = ["other", "page"].map(str::to_owned).to_vec();
    assert_eq!(refresh.map(|refresh| refresh.by), Some(by));
    assert_eq!(pending(&state)?, ["server by other", "server by page"]);
    Ok(())
}

#[tokio::test]
async fn nothing_is_done_that_cannot_be_put_on_record() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let facilities = Facilities::open(state.path(), Records::open(Arc::new(Full))?);
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };

    let account = apply_with(&site("", "valid"), &kinds, &options).await?;

    assert!(failure(&account, "page").contains("cannot put on record whom it notifies: "));
    assert!(!journal.events().contains(&Event::Began("page".to_owned())));
    Ok(())
}

#[tokio::test]
async fn what_could_not_begin_is_not_put_back_later() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let records = Records::open(Arc::new(Full))?;
    let facilities = Facilities::open(state.path(), records.clone());
    let options = ApplyOptions { facilities, ..ApplyOptions::default() };
    let mut page = probe("page", "");
    page.reverse = true;

    let account = apply_with(&[page], &kinds, &options).await?;

    assert!(failure(&account, "page").contains("cannot put on record how to put it back: "));
    assert!(!journal.events().contains(&Event::Began("page".to_owned())));
    // They may be written when there is room.
    assert!(records.look(|loaded| loaded.documents.is_empty()));
    Ok(())
}

#[tokio::test]
async fn an_answer_notifies_others_and_leaves_nothing_on_record() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    drop(apply_in(&state, &site("", "fails"), &kinds).await?);

    let mut before = site("valid", "valid");
    before[2].notify.push("other".to_owned());
    let other = uses(probe("other", "valid"), &["server"]);
    let site: Vec<_> = before.into_iter().chain([other]).collect();
    drop(apply_in(&state, &site, &kinds).await?);

    let events = journal.events();
    assert_eq!(refreshed(&journal), 1);
    assert!(events.contains(&Event::Refreshed("other".to_owned())), "{events:?}");
    assert!(pending(&state)?.is_empty());
    Ok(())
}

#[tokio::test]
async fn what_is_on_record_does_not_grow_for_ever() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let always = notifying(probe("always", "lies"), "bad");
    let mut site: Vec<_> = site("lies", "valid").into();
    site.extend([always, probe("bad", "cannot look")]);

    for _ in 0..20 {
        drop(apply_in(&state, &site, &kinds).await?);
        assert_eq!(pending(&state)?, ["bad by always"]);
    }

    assert_eq!(refreshed(&journal), 20);
    Ok(())
}

#[tokio::test]
async fn without_a_state_folder_a_notification_is_lost_with_the_facilities() -> TestResult {
    for (is_same, count) in [(false, 0), (true, 1)] {
        let (kinds, journal) = probes();
        let first = ApplyOptions::default();

        let account = apply_with(&site("", "fails"), &kinds, &first).await?;
        let second = if is_same { first } else { ApplyOptions::default() };
        drop(apply_with(&site("", "valid"), &kinds, &second).await?);

        assert!(matches!(account.get("server").unwrap().outcome, Outcome::Skipped { .. }));
        assert_eq!(refreshed(&journal), count);
    }
    Ok(())
}

#[tokio::test]
async fn a_notification_of_what_is_left_out_is_answered_by_a_later_run() -> TestResult {
    let notifying = site("", "valid");
    let [mut page, before, mut server] = notifying.clone();
    page.notify.clear();
    let (alias, resource) = ("page".to_owned(), "page".to_owned());
    server.dependencies.push(Dependency { alias, resource, on_change: OnChange::Notify });
    let skip = Selection { skip: vec!["server".to_owned()], ..Selection::default() };
    for site in [notifying, [page, before, server]] {
        for selection in [&only("page"), &skip] {
            let (state, (kinds, journal)) = (StateFolder::new()?, probes());
            let whole = (&site[..], &Selection::default());

            apply_part(&state, (&site, selection), &kinds).await?;
            assert_eq!(refreshed(&journal), 0, "{selection:?}");
            let planned = plan_in(&state, &site, &kinds).await?;
            let refresh = planned.get("server").and_then(|server| server.refresh.as_ref());
            let by = refresh.map(|refresh| &refresh.by[..]);
            assert_eq!(by, Some(&["page".to_owned()][..]), "{selection:?}");
            apply_part(&state, whole, &kinds).await?;
            apply_part(&state, whole, &kinds).await?;

            assert_eq!(refreshed(&journal), 1, "{selection:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_notification_of_what_is_left_out_is_on_disk_before_the_action() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());

    {
        let facilities = state.open()?;
        let options = ApplyOptions { facilities, ..ApplyOptions::default() };
        let (_stopper, stop) = Stop::pair();
        let page = part(&site("waits", "valid"), &kinds, &only("page"))?;
        // It is dropped while its action runs, as by a crash.
        tokio::select! {
            _ = page.apply(&options, stop) => return Err("the action has ended".into()),
            () = journal.began.notified() => {}
        }
    }
    let whole = (&site("valid", "valid")[..], &Selection::default());
    apply_part(&state, whole, &kinds).await?;

    assert_eq!(refreshed(&journal), 1);
    Ok(())
}

#[tokio::test]
async fn a_notification_of_what_has_left_the_site_is_forgotten() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let (site, all) = (site("", "valid"), Selection::default());
    let [mut page, before, _] = site.clone();
    page.notify.clear();

    // A part of a site does not say what has left.
    for name in ["page", "before"] {
        apply_part(&state, (&site, &only(name)), &kinds).await?;
        assert_eq!(pending(&state)?, ["server by page"]);
    }
    apply_part(&state, (&[page, before], &all), &kinds).await?;
    assert!(pending(&state)?.is_empty());
    apply_part(&state, (&site, &all), &kinds).await?;

    assert_eq!(refreshed(&journal), 0);
    Ok(())
}

#[tokio::test]
async fn a_notification_of_a_resource_is_one_of_each_item_that_is_known_later() -> TestResult {
    let (state, (kinds, journal)) = (StateFolder::new()?, probes());
    let mut page = probe("page", "");
    page.notify.push("home".to_owned());
    let early = [page.clone(), probe("home", "valid")];
    let names = ["ada", "brian"].map(|item| item_name("home", item));
    page.notify = names.to_vec();
    let late = [page, probe(&names[0], "valid"), probe(&names[1], "valid")];

    apply_part(&state, (&early, &only("page")), &kinds).await?;
    for _ in 0..2 {
        apply_part(&state, (&late, &Selection::default()), &kinds).await?;
    }

    let mut told = journal.events();
    told.retain(|event| matches!(event, Event::Refreshed(_)));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(names.map(Event::Refreshed).iter().all(|event| told.contains(event)), "{told:?}");
    assert!(pending(&state)?.is_empty());
    Ok(())
}
