//! What apply has done, and the events that an observer has seen of it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::run::{apply, plan};
use crankcase_resources::{
    Account, ApplyOptions, Approval, AsPlanned, Declaration, Event, Facilities, Kinds, Observer,
    PlanOptions, Site,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::notify::notifying;
use crate::probe::{probe, probes};
use crate::recorded::lamps::{before_departures, lamp, lamps, one_of_many};
use crate::recorded::{Recording, hidden, left_and_read, needs_run};
use crate::support::{StateFolder, TestResult, declare, declare_with, uses};

/// An account, and the events that came before it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Applied {
    account: Account,
    events: Vec<Event>,
}

/// Keeps all events that it sees.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<Event>>);

impl Observer for Seen {
    fn happened(&self, event: &Event) {
        self.0.lock().push(event.clone());
    }
}

/// Returns options whose events are seen, one resource at a time.
fn seen_by(seen: &Arc<Seen>) -> ApplyOptions {
    let observer = Arc::clone(seen);
    let facilities = Facilities::default().observed_by(observer);
    ApplyOptions { facilities, parallel: NonZeroUsize::MIN, ..ApplyOptions::default() }
}

impl Recording {
    /// Adds an account and the events before it.
    fn account(&mut self, claim: &str, account: Account, seen: &Seen) -> TestResult {
        let events = seen.0.lock().clone();
        let text = account.to_string();
        self.add(claim, &Applied { account, events }, &text)
    }

    /// Applies a site to its end.
    async fn apply(
        &mut self,
        claim: &str,
        (kinds, site): (&Kinds, &[Declaration]),
        change: impl FnOnce(&mut ApplyOptions),
    ) -> TestResult {
        let seen = Arc::new(Seen::default());
        let mut options = seen_by(&seen);
        change(&mut options);
        let (_stopper, stop) = Stop::pair();
        let account = apply(site, kinds, &options, stop).await?;
        self.account(claim, account, &seen)
    }

    /// Applies a site, and stops when its first action has begun.
    async fn stop(&mut self, claim: &str, site: &[Declaration]) -> TestResult {
        let (kinds, journal) = probes();
        let seen = Arc::new(Seen::default());
        let (options, (stopper, stop)) = (seen_by(&seen), Stop::pair());
        let (account, ()) = tokio::join!(apply(site, &kinds, &options, stop), async {
            journal.began.notified().await;
            stopper.stop();
        });
        self.account(claim, account?, &seen)
    }
}

#[tokio::test(start_paused = true)]
async fn accounts_and_events_are_written_as_before() -> TestResult {
    let mut recording = Recording::default();

    outcomes(&mut recording).await?;
    notifications(&mut recording).await?;
    left_alone(&mut recording).await?;
    halts(&mut recording).await?;
    groups(&mut recording).await?;
    approvals(&mut recording).await?;
    departures(&mut recording).await?;

    recording.compare("accounts.txt")
}

async fn outcomes(recording: &mut Recording) -> TestResult {
    let site = [
        probe("good", ""),
        probe("bad", "fails"),
        uses(probe("behind", ""), &["bad"]),
        uses(probe("further", ""), &["behind"]),
        probe("same", "valid"),
    ];
    let claim = "one was changed, one failed, and others were skipped";
    recording.apply(claim, (&probes().0, &site), |_| {}).await?;

    let site = [
        probe("dark", "cannot look"),
        probe("liar", "lies"),
        probe("panics", "panic in action"),
        probe("unmade", "panic in make"),
        probe("other", "foresees another"),
        declare("unknown", "prob", json!({})),
        hidden(),
    ];
    let claim = "others failed without an action, and one has secrets";
    recording.apply(claim, (&probes().0, &site), |_| {}).await?;

    let site = [
        lamp("text"),
        declare("wrong", "lamp", json!({"name": "wrong", "on": "maybe"})),
        uses(one_of_many("broken", "broken"), &["text"]),
    ];
    let claim = "one was changed by a text, one has a wrong config, and one failed";
    recording.apply(claim, (&lamps(), &site), |_| {}).await?;

    let site = [
        probe("disk", "stops first"),
        uses(probe("server", "stops first"), &["disk"]),
        uses(probe("stuck", "stops first and fails"), &["server"]),
        probe("free", "stops first"),
    ];
    let claim = "some were shut down first, and one could not be";
    recording.apply(claim, (&probes().0, &site), |_| {}).await
}

async fn notifications(recording: &mut Recording) -> TestResult {
    let site = [
        notifying(probe("page", ""), "server"),
        notifying(probe("half", "lies"), "server"),
        notifying(probe("conf", ""), "both"),
        notifying(probe("new", ""), "late"),
        probe("bad", "fails"),
        probe("server", "valid"),
        probe("both", ""),
        uses(probe("late", "valid"), &["bad"]),
    ];
    let claim = "some were refreshed, and one missed its notification";
    recording.apply(claim, (&probes().0, &site), |_| {}).await
}

async fn left_alone(recording: &mut Recording) -> TestResult {
    let [left, read] = left_and_read();
    let of = |name: &str, used: &str| {
        declare_with(name, "probe", json!({"fault": "valid"}), ("name", used, "name"))
    };
    let site = [left, read, of("of_left", "left"), of("of_read", "read")];
    let claim = "one was left alone and one was only read, and neither has a state";
    recording.apply(claim, (&probes().0, &site), |_| {}).await?;

    let mut dimmed = lamp("dimmed");
    dimmed.noop = true;
    let program = declare("program", "program", json!({}));
    let site = [dimmed, uses(program, &["dimmed"])];
    let claim = "one was left alone and has a state, and a program was not started";
    recording.apply(claim, (&lamps(), &site), |_| {}).await?;

    let claim = "what depends on a program needs run";
    recording.apply(claim, (&lamps(), &needs_run()), |_| {}).await
}

async fn halts(recording: &mut Recording) -> TestResult {
    let site = [probe("runs", "waits"), uses(probe("behind", ""), &["runs"]), probe("later", "")];
    recording.stop("an action was interrupted, and others were not attempted", &site).await?;

    let site = [probe("runs", "ends when told")];
    recording.stop("it was stopped between two actions", &site).await?;

    let site = [probe("disk", "stops first and waits"), probe("other", "")];
    recording.stop("it was stopped while one was shut down", &site).await?;

    let site = [probe("bad", "fails"), probe("other", ""), uses(probe("behind", ""), &["bad"])];
    let claim = "a failure kept the others from beginning";
    recording.apply(claim, (&probes().0, &site), |options| options.fail_fast = true).await
}

async fn groups(recording: &mut Recording) -> TestResult {
    let many = |fault: &str| [one_of_many("a", ""), one_of_many("b", ""), one_of_many("c", fault)];
    recording.apply("a group was one action", (&lamps(), &many("")), |_| {}).await?;

    let claim = "a group failed, and each was an action alone";
    recording.apply(claim, (&lamps(), &many("broken")), |_| {}).await?;

    let claim = "a failure kept a group from beginning";
    recording.apply(claim, (&lamps(), &many("dark")), |options| options.fail_fast = true).await
}

async fn approvals(recording: &mut Recording) -> TestResult {
    let shown = [probe("shown", "")];
    let plan = plan(&shown, &probes().0, &PlanOptions::default()).await?;
    let planned: Arc<dyn Approval> = Arc::new(AsPlanned::new(plan));
    let site = [
        probe("shown", ""),
        probe("unseen", ""),
        probe("stops", "stops first"),
        uses(probe("behind", ""), &["unseen"]),
    ];
    let claim = "what a plan had not shown was refused";
    recording.apply(claim, (&probes().0, &site), |options| options.approval.push(planned)).await
}

async fn departures(recording: &mut Recording) -> TestResult {
    let (folder, kinds) = (StateFolder::new()?, lamps());
    for (claim, declarations) in [
        ("all were switched on", before_departures()),
        ("one was put back, and two were released", vec![lamp("kept")]),
    ] {
        let seen = Arc::new(Seen::default());
        let observer = Arc::clone(&seen);
        let facilities = folder.open()?.observed_by(observer);
        let options = ApplyOptions { facilities, ..seen_by(&seen) };
        let (_stopper, stop) = Stop::pair();
        let site = Site::new(declarations, kinds.clone(), claim.to_owned())?;
        let account = site.apply(&options, stop).await;
        recording.account(claim, account, &seen)?;
    }
    Ok(())
}
