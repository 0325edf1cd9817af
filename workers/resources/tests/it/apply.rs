//! What an apply does, and the account of it.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::run::{apply, plan};
use crankcase_resources::{
    Account, ApplyOptions, Approval, AsPlanned, Declaration, Facilities, Halt, Outcome, PlanOptions,
};
use serde_json::json;

use crate::notify::notifying;
use crate::probe::{Event, probe, probes};
use crate::support::{StateFolder, TestResult, apply_with, declare, declare_with, failure, uses};

async fn apply_probes(declarations: &[Declaration]) -> Result<Account, Box<dyn Error>> {
    apply_with(declarations, &probes().0, &ApplyOptions::default()).await
}

fn outcome<'a>(account: &'a Account, name: &str) -> &'a Outcome {
    &account.get(name).expect("it was declared").outcome
}

#[tokio::test]
async fn the_account_says_what_failed_where_and_who_was_skipped() -> TestResult {
    let declarations = [
        probe("good", ""),
        probe("bad", "fails"),
        uses(probe("behind", ""), &["bad"]),
        uses(probe("further", ""), &["behind"]),
        probe("same", "valid"),
    ];

    let account = apply_probes(&declarations).await?;

    assert_eq!(
        account.to_string(),
        "\
~ good (probe) changed
    made: false -> true
    done: make
      | begins
    done: polish
! bad (probe) failed at make: out of luck
    made: false -> true
    failed: make
      | begins
    not done:
    1. polish
- behind (probe) was skipped because of bad
- further (probe) was skipped because of bad
apply: 1 changed, 1 unchanged, 3 failed or skipped
"
    );
    Ok(())
}

#[tokio::test]
async fn an_account_survives_being_written_and_read() -> TestResult {
    let declarations = [probe("bad", "fails"), uses(probe("behind", ""), &["bad"])];

    let account = apply_probes(&declarations).await?;

    let text = serde_json::to_string(&account)?;
    assert_eq!(serde_json::from_str::<Account>(&text)?, account);
    Ok(())
}

#[tokio::test]
async fn a_panic_anywhere_in_a_kind_fails_its_resource_alone() -> TestResult {
    for place in ["make", "open", "check", "action", "refresh", "close"] {
        let source = notifying(probe("source", ""), "bad");
        let fault = format!("panic in {place}");
        let declarations = [source, probe("bad", &fault), probe("other", "")];

        let account = apply_probes(&declarations).await?;

        assert!(failure(&account, "bad").contains("panicked: bang"), "{place}: {account}");
        assert_eq!(outcome(&account, "other"), &Outcome::Changed, "{place}");
    }
    Ok(())
}

#[tokio::test]
async fn a_panic_keeps_the_log_from_before_it() -> TestResult {
    let account = apply_probes(&[probe("bad", "panic in action")]).await?;

    assert!(failure(&account, "bad").contains("| begins"));
    Ok(())
}

#[tokio::test]
async fn a_resource_that_is_not_valid_after_its_actions_has_failed() -> TestResult {
    let account = apply_probes(&[probe("liar", "lies")]).await?;

    assert!(
        account.to_string().ends_with("\napply: 0 changed, 0 unchanged, 1 failed or skipped\n")
    );
    let text = failure(&account, "liar");
    assert!(
        text.contains("still not as declared after its actions: made: false -> true"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_state_that_was_foreseen_otherwise_is_a_failure() -> TestResult {
    let declarations =
        [probe("right", "foresees right"), uses(probe("wrong", "foresees right"), &["right"])];

    let account = apply_probes(&declarations).await?;

    assert_eq!(outcome(&account, "right"), &Outcome::Changed);
    let error = "its name was to be \"right\" and is \"wrong\"".to_owned();
    assert_eq!(outcome(&account, "wrong"), &Outcome::Failed { at: None, error });
    Ok(())
}

#[tokio::test]
async fn what_a_plan_does_not_show_is_refused_and_what_it_shows_is_done() -> TestResult {
    let (kinds, journal) = probes();
    let shown = [probe("stops", "stops first"), probe("plain", "")];
    let plan = plan(&shown, &kinds, &PlanOptions::default()).await?;
    let declared = [
        probe("stops", "stops first"),
        probe("plain", "stops first"),
        uses(probe("behind", "valid"), &["plain"]),
    ];
    let approval: Vec<Arc<dyn Approval>> = vec![Arc::new(AsPlanned::new(plan))];
    let options = ApplyOptions { approval, ..ApplyOptions::default() };
    let (_stopper, stop) = Stop::pair();

    let account = apply(&declared, &kinds, &options, stop).await?;

    let because = "it would change otherwise than the plan has shown; plan again".to_owned();
    assert_eq!(outcome(&account, "stops"), &Outcome::Changed, "{account}");
    assert_eq!(outcome(&account, "plain"), &Outcome::Refused { because });
    assert_eq!(outcome(&account, "behind"), &Outcome::Skipped { because: "plain".into() });
    assert!(!journal.events().contains(&Event::ShutDown("plain".into())));
    assert_eq!((account.refused(), account.changes()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn fail_fast_starts_no_further_action() -> TestResult {
    let declarations = [probe("bad", "fails"), probe("other", "")];
    let parallel = NonZeroUsize::MIN;

    let options = ApplyOptions { parallel, fail_fast: true, ..ApplyOptions::default() };
    let account = apply_with(&declarations, &probes().0, &options).await?;

    assert_eq!(outcome(&account, "other"), &Outcome::NotAttempted { by: Halt::FailFast });
    assert_eq!((account.failures(), account.halted()), (1, 1));
    Ok(())
}

#[tokio::test]
async fn a_stop_interrupts_what_runs_and_starts_nothing() -> TestResult {
    let (kinds, journal) = probes();
    let declarations =
        [probe("runs", "waits"), uses(probe("behind", ""), &["runs"]), probe("later", "")];
    let options = ApplyOptions { parallel: NonZeroUsize::MIN, ..ApplyOptions::default() };
    let (stopper, stop) = Stop::pair();

    let (account, ()) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        journal.began.notified().await;
        stopper.stop();
    });

    let account = account?;
    let runs = account.get("runs").unwrap();
    let Outcome::Halted { at: Some(at), by: Halt::Stop } = &runs.outcome else {
        panic!("{account}")
    };
    assert_eq!((at.action.name.as_str(), at.log.len()), ("make", 1));
    assert_eq!(runs.remaining[0].name, "polish");
    assert_eq!(outcome(&account, "behind"), &Outcome::NotAttempted { by: Halt::Stop });
    assert_eq!(outcome(&account, "later"), &Outcome::NotAttempted { by: Halt::Stop });
    assert!(journal.events().contains(&Event::Closed("runs".to_owned())));
    Ok(())
}

#[tokio::test]
async fn a_stop_between_two_actions_says_what_is_left() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [probe("runs", "ends when told")];
    let (stopper, stop) = Stop::pair();

    let options = ApplyOptions::default();
    let (account, ()) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        journal.began.notified().await;
        stopper.stop();
    });

    let account = account?;
    let runs = account.get("runs").unwrap();
    assert_eq!(runs.outcome, Outcome::Halted { at: None, by: Halt::Stop });
    assert_eq!(
        (runs.done[0].action.name.as_str(), runs.remaining[0].name.as_str()),
        ("make", "polish")
    );
    Ok(())
}

#[tokio::test]
async fn shutdown_actions_come_before_all_others_and_dependents_first() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [
        probe("free", ""),
        probe("disk", "stops first"),
        uses(probe("server", "stops first"), &["disk"]),
    ];

    let account = apply_with(&declarations, &kinds, &ApplyOptions::default()).await?;

    let events = journal.events();
    let shut_down: Vec<_> =
        events.iter().filter(|event| matches!(event, Event::ShutDown(_))).cloned().collect();
    assert_eq!(shut_down, ["server", "disk"].map(|name| Event::ShutDown(name.to_owned())));
    let first_began = events.iter().position(|event| matches!(event, Event::Began(_)));
    let last_shut_down = events.iter().rposition(|event| matches!(event, Event::ShutDown(_)));
    assert!(last_shut_down < first_began);
    assert_eq!(account.get("server").unwrap().done[0].action.name, "stop");
    Ok(())
}

#[tokio::test]
async fn a_shutdown_action_that_is_known_late_comes_first_in_its_resource() -> TestResult {
    let (kinds, journal) = probes();
    // The state of the first one has the fault of the other one.
    let first = declare("first", "probe", json!({"name": "stops first", "fault": ""}));
    let fault = ("fault", "first", "name");
    let declarations = [first, declare_with("late", "probe", json!({"name": "late"}), fault)];

    let account = apply_with(&declarations, &kinds, &ApplyOptions::default()).await?;

    let late = account.get("late").unwrap();
    let done: Vec<_> = late.done.iter().map(|done| done.action.name.as_str()).collect();
    assert_eq!(done, ["stop", "make", "polish"], "{account}");
    let events = journal.events();
    let first_ended = events.iter().position(|event| *event == Event::Ended("stops first".into()));
    let late_stops = events.iter().position(|event| *event == Event::ShutDown("late".into()));
    assert!(first_ended < late_stops, "{events:?}");
    Ok(())
}

#[tokio::test]
async fn the_progress_counts_resources_also_while_one_is_shut_down() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [probe("disk", "stops first and waits"), probe("other", "")];
    let options = ApplyOptions::default();
    let (stopper, stop) = Stop::pair();

    let (account, progress) = tokio::join!(apply(&declarations, &kinds, &options, stop), async {
        journal.began.notified().await;
        let progress = options.progress.to_string();
        stopper.stop();
        progress
    });

    assert_eq!(progress, "0 of 2 done, at work on disk");
    assert_eq!(account?.halted(), 2);
    assert_eq!(options.progress.to_string(), "2 of 2 done");
    Ok(())
}

#[tokio::test]
async fn what_could_not_be_shut_down_keeps_what_it_uses_running() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [
        probe("disk", "stops first"),
        uses(probe("server", "stops first and fails"), &["disk"]),
        probe("other", ""),
    ];

    let account = apply_with(&declarations, &kinds, &ApplyOptions::default()).await?;

    assert!(failure(&account, "server").contains("failed at stop: it hangs"));
    assert_eq!(outcome(&account, "disk"), &Outcome::Skipped { because: "server".to_owned() });
    assert!(!journal.events().contains(&Event::Began("disk".to_owned())));
    assert_eq!(outcome(&account, "other"), &Outcome::Changed);
    Ok(())
}

#[tokio::test]
async fn a_noop_resource_is_looked_at_and_left_alone() -> TestResult {
    let mut left = probe("left", "");
    left.noop = true;
    let user = declare_with("user", "probe", json!({}), ("name", "left", "name"));
    let declarations = [left, uses(probe("other", ""), &["left"]), user];

    let account = apply_probes(&declarations).await?;

    assert_eq!(outcome(&account, "left"), &Outcome::Noop);
    assert!(account.to_string().contains("made: false -> true"));
    assert_eq!(outcome(&account, "other"), &Outcome::Changed);
    assert_eq!(outcome(&account, "user"), &Outcome::Skipped { because: "left".to_owned() });
    Ok(())
}

#[tokio::test]
async fn a_config_is_rendered_with_the_state_after_the_change() -> TestResult {
    let made = declare("made", "probe", json!({"name": "fails"}));
    let user = declare_with("user", "probe", json!({"name": "user"}), ("fault", "made", "name"));
    let declarations = [made, user];

    let account = apply_probes(&declarations).await?;

    assert!(failure(&account, "user").contains("out of luck"));
    Ok(())
}

#[tokio::test]
async fn nothing_is_kept_for_a_later_run_without_a_state_folder() -> TestResult {
    let state = StateFolder::new()?;
    for (facilities, count) in [(Facilities::default(), 0), (state.open()?, 2)] {
        let mut page = probe("page", "");
        page.reverse = true;
        let options = ApplyOptions { facilities, ..ApplyOptions::default() };

        let account = apply_with(&[page], &probes().0, &options).await?;

        assert_eq!(account.failures(), 0);
        // How it is put back, and with which config it was good.
        let on_record = options.facilities.records().look(|loaded| loaded.documents.len());
        assert_eq!(on_record, count);
    }
    Ok(())
}
