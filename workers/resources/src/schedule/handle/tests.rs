//! Workers in the schedule of a small site, without engine and kinds.

use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::ScheduleHandle;
use crate::base::error::BoxError;
use crate::declare::action::Action;
use crate::declare::declaration::{
    Declaration, Dependency, Inputs, OnChange, Place, Render, RenderError, Rendered,
};
use crate::declare::order::Order;
use crate::kind::context::Notice;
use crate::kind::kinds::Kinds;
use crate::report::observer::{Event, EventKind};
use crate::schedule::shared::{AfterVisit, BegunVisit, Rest, Schedule, VisitReport};
use crate::schedule::state::State;
use crate::schedule::{Answer, Outcome, Reason, Ticket};
use crate::state::facilities::Facilities;
use crate::state::{
    Document, Key, Loaded, MemoryStore, Notification, Record, Records, Store, StoreError,
};

type TestResult<T = ()> = Result<T, BoxError>;

#[derive(Debug)]
struct NoConfig;

impl Render for NoConfig {
    fn render(&self, _: &Inputs) -> Result<Rendered, RenderError> {
        Ok(Rendered::Unknown { because: Vec::new() })
    }
}

fn resource(name: &str) -> Declaration {
    let place = Place { file: PathBuf::from("site.yaml"), line: 1, column: 1 };
    Declaration::new(name.into(), "it".into(), PathBuf::from("/"), place, Arc::new(NoConfig))
}

/// Returns a resource that depends on others.
fn after(name: &str, used: &[&str]) -> Declaration {
    let uses = used.iter().map(|used| Dependency {
        alias: (*used).to_owned(),
        resource: (*used).to_owned(),
        on_change: OnChange::Check,
    });
    let mut after = resource(name);
    after.dependencies = uses.collect();
    after
}

/// Returns a resource that notifies others.
fn telling(name: &str, targets: &[&str]) -> Declaration {
    let mut telling = resource(name);
    telling.notify = targets.iter().map(|target| (*target).to_owned()).collect();
    telling
}

/// Makes a schedule take over resources.
fn connect(
    schedule: &Schedule,
    declarations: &[Declaration],
    (facilities, fresh): (&Facilities, &[&str]),
) -> TestResult {
    let order = Order::new(declarations)?;
    let fresh = fresh.iter().copied();
    schedule.connect((&order, declarations), &Kinds::default(), facilities, fresh);
    Ok(())
}

/// Returns a schedule of a site whose resources are all new.
fn schedule(declarations: &[Declaration]) -> TestResult<Schedule> {
    let schedule = Schedule::default();
    connect(&schedule, declarations, (&Facilities::default(), &[]))?;
    Ok(schedule)
}

fn notice(by: &str, attributes: &[&str], actions: &[(&str, &str)]) -> Notice {
    let attributes = attributes.iter().map(|attribute| (*attribute).to_owned()).collect();
    let actions = actions.iter().map(|(name, to)| Action::new(name).with("to", *to)).collect();
    Notice::new(by, attributes, actions)
}

fn closing(ticket: Ticket, outcome: Outcome) -> VisitReport {
    let (has_acted, is_holding, state) = (false, false, None);
    VisitReport { ticket, outcome, has_acted, is_holding, state, notice: notice("", &[], &[]) }
}

impl ScheduleHandle {
    /// Ends the visit that has begun without an action.
    async fn end(&self, outcome: Outcome) -> AfterVisit {
        let BegunVisit { ticket, .. } = *self.visit().await;
        self.report(closing(ticket, outcome)).stands
    }

    /// Makes the visit that has begun ask, and end if it may not act. Returns the answer.
    async fn refused(&self) -> (Result<(), Answer>, AfterVisit) {
        let BegunVisit { ticket, .. } = *self.visit().await;
        let answer = self.turn(ticket).ask_alone().await;
        (answer, self.report(closing(ticket, Outcome::NotAllowed)).stands)
    }

    /// Requests a visit, and makes it act.
    async fn act(&self, notice: Notice) -> Result<AfterVisit, Answer> {
        self.request(Reason::Change);
        let BegunVisit { ticket, .. } = *self.visit().await;
        self.turn(ticket).ask_alone().await?;
        let closing = VisitReport { has_acted: true, notice, ..closing(ticket, Outcome::Good) };
        Ok(self.report(closing).stands)
    }
}

/// Returns the workers of some resources, after their first visits.
async fn handles<const COUNT: usize>(
    schedule: &Schedule,
    names: [&str; COUNT],
) -> [ScheduleHandle; COUNT] {
    let handles = names.map(|name| ScheduleHandle::new(schedule.clone(), name));
    for handle in &handles {
        handle.end(Outcome::Good).await;
    }
    handles
}

#[tokio::test]
async fn notifications_before_the_first_was_answered_are_one_of_all_that_was_done() -> TestResult {
    let schedule = schedule(&[telling("source", &["target"]), resource("target")])?;
    let [source, target] = handles(&schedule, ["source", "target"]).await;

    for (attribute, action) in
        [("mode", ("chmod", "0600")), ("content", ("write", "a")), ("mode", ("chmod", "0640"))]
    {
        source.act(notice("source", &[attribute], &[action])).await.expect("it may act");
    }
    let first = target.visit().await;
    let answer = target.turn(first.ticket).ask_alone().await;
    target.report(closing(first.ticket, Outcome::NotAllowed));
    let second = target.visit().await;
    target.report(closing(second.ticket, Outcome::Good));
    source.act(notice("source", &["mode"], &[("chmod", "0644")])).await.expect("it may act");
    let third = target.visit().await;

    assert_eq!(answer, Err(Answer::Again));
    let all = [("write", "a"), ("chmod", "0640")];
    assert_eq!(second.notices, [notice("source", &["mode", "content"], &all)]);
    assert_eq!(third.notices, [notice("source", &["mode"], &[("chmod", "0644")])]);
    Ok(())
}

#[tokio::test]
async fn a_visit_learns_that_it_is_outdated_and_the_next_one_gets_nothing_that_it_has_answered()
-> TestResult {
    let schedule = schedule(&[telling("source", &["target"]), resource("target")])?;
    let [source, target] = handles(&schedule, ["source", "target"]).await;
    source.act(notice("source", &["mode"], &[])).await.expect("it may act");
    let first = target.visit().await;
    let mut outdated = Box::pin(target.outdated());
    let is_early = timeout(Duration::ZERO, outdated.as_mut()).await.is_ok();

    target.answer();
    schedule.renew(["target"], || {});
    timeout(Duration::from_secs(60), outdated).await?;
    let answer = target.turn(first.ticket).ask_alone().await;
    target.report(closing(first.ticket, Outcome::NotAllowed));
    let second = target.visit().await;

    assert_eq!((is_early, answer), (false, Err(Answer::Again)));
    assert_eq!(first.notices, [notice("source", &["mode"], &[])]);
    assert!(second.notices.is_empty(), "{:?}", second.notices);
    Ok(())
}

#[tokio::test]
async fn what_was_answered_is_not_told_again_with_what_came_meanwhile() -> TestResult {
    let sources = [telling("one", &["target"]), telling("other", &["target"])];
    let schedule = schedule(&[&sources[..], &[resource("target")]].concat())?;
    let [one, other, target] = handles(&schedule, ["one", "other", "target"]).await;

    one.act(notice("one", &["mode"], &[])).await.expect("it may act");
    let first = target.visit().await;
    other.act(notice("other", &["content"], &[])).await.expect("it may act");
    target.report(closing(first.ticket, Outcome::Good));
    let second = target.visit().await;

    assert_eq!(first.notices, [notice("one", &["mode"], &[])]);
    assert_eq!(second.notices, [notice("other", &["content"], &[])]);
    Ok(())
}

#[tokio::test]
async fn what_was_answered_is_not_told_again_with_what_its_source_does_meanwhile() -> TestResult {
    let schedule = schedule(&[telling("source", &["target"]), resource("target")])?;
    let [source, target] = handles(&schedule, ["source", "target"]).await;
    let said = |attribute| notice("source", &[attribute], &[]);

    source.act(said("mode")).await.expect("it may act");
    let first = target.visit().await;
    source.request(Reason::Change);
    let begun = source.visit().await;
    source.turn(begun.ticket).ask_alone().await.expect("it may act");
    // It is answered while the source acts, which reports after that.
    target.report(closing(first.ticket, Outcome::Good));
    let (ticket, notice) = (begun.ticket, said("content"));
    source.report(VisitReport { has_acted: true, notice, ..closing(ticket, Outcome::Good) });
    let second = target.visit().await;
    // The source acts and reports before it is answered.
    source.act(said("owner")).await.expect("it may act");
    target.report(closing(second.ticket, Outcome::Good));
    let third = target.visit().await;

    assert_eq!(first.notices, [said("mode")]);
    assert_eq!(second.notices, [said("content")]);
    assert_eq!(third.notices, [said("owner")]);
    Ok(())
}

#[tokio::test]
async fn a_resource_is_held_back_until_a_visit_of_it_counts() -> TestResult {
    let schedule = schedule(&[resource("root"), after("page", &["root"])])?;
    let [root, page] = handles(&schedule, ["root", "page"]).await;
    let held_back_by = || schedule.tallies().tally().resources["page"].held_back_by.clone();
    root.request(Reason::Change);
    root.end(Outcome::Failed).await;

    page.request(Reason::Change);
    let refused = page.refused().await;
    let held_back = held_back_by();
    // While the root is tried again, the page says the same of itself.
    root.request(Reason::Routine);
    let tried = held_back_by();
    root.end(Outcome::Good).await;
    page.end(Outcome::Good).await;

    assert_eq!(refused, (Err(Answer::HeldBack), AfterVisit::HeldBack("root".into())));
    let root = || Some("root".to_owned());
    assert_eq!([held_back, tried, held_back_by()], [root(), root(), None]);
    Ok(())
}

#[tokio::test]
async fn changes_repairs_failures_restarts_and_looks_are_counted() -> TestResult {
    let schedule = schedule(&[resource("page")])?;
    let [page] = handles(&schedule, ["page"]).await;
    let counts = || {
        let fared = schedule.tallies().tally().resources["page"].clone();
        [fared.changes, fared.repairs, fared.failures, fared.restarts, fared.looks]
    };
    let before = counts();

    page.note_change(true);
    page.note_change(false);
    for outcome in [Outcome::CannotLook, Outcome::Failed, Outcome::Good] {
        page.request(Reason::Change);
        page.end(outcome).await;
    }
    let who = ("page", "it");
    page.note_event(Event::new(EventKind::Started, who, ("it did not run", Duration::ZERO)));
    page.note_event(Event::new(EventKind::Restarted, who, ("it has ended", Duration::ZERO)));
    // An adoption is neither a start nor a restart.
    page.note_event(Event::new(EventKind::Adopted, who, ("it ran", Duration::ZERO)));
    page.fail();

    assert_eq!((before, counts()), ([0, 0, 0, 0, 1], [2, 1, 3, 1, 4]));
    Ok(())
}

#[tokio::test]
async fn a_failed_resource_that_is_held_back_says_so() -> TestResult {
    let schedule = schedule(&[resource("root"), after("page", &["root"])])?;
    let [root, page] = handles(&schedule, ["root", "page"]).await;
    for handle in [&page, &root] {
        handle.request(Reason::Change);
        handle.end(Outcome::Failed).await;
    }

    page.request(Reason::Routine);
    let refused = page.refused().await;

    assert_eq!(refused, (Err(Answer::HeldBack), AfterVisit::HeldBack("root".into())));
    Ok(())
}

#[tokio::test]
async fn a_resource_waits_for_the_first_start_of_another_one_in_its_place() -> TestResult {
    let both = [resource("root"), after("page", &["root"])];
    let schedule = schedule(&both)?;
    let page = ScheduleHandle::new(schedule.clone(), "page");
    let first = page.refused().await;

    connect(&schedule, &both, (&Facilities::default(), &["root"]))?;
    let root = ScheduleHandle::new(schedule.clone(), "root");
    root.end(Outcome::Failed).await;
    let then = page.refused().await;

    assert_eq!(first, (Err(Answer::HeldBack), AfterVisit::Waits));
    assert_eq!(then, (Err(Answer::HeldBack), AfterVisit::HeldBack("root".into())));
    Ok(())
}

#[tokio::test]
async fn a_resource_waits_for_the_first_start_of_another_one_and_is_not_held_back() -> TestResult {
    let schedule = schedule(&[resource("root"), after("page", &["root"])])?;
    let page = ScheduleHandle::new(schedule.clone(), "page");

    let first = page.refused().await;
    let root = ScheduleHandle::new(schedule.clone(), "root");
    let waits_for = page.waits_for();
    root.end(Outcome::Failed).await;
    let then = page.refused().await;

    let held_back = |stands| (Err(Answer::HeldBack), stands);
    assert_eq!(first, held_back(AfterVisit::Waits));
    assert_eq!(waits_for.as_deref(), Some("root"));
    assert_eq!(then, held_back(AfterVisit::HeldBack("root".into())));
    Ok(())
}

#[tokio::test]
async fn a_resource_waits_for_another_one_that_was_told_to_stop_during_its_action() -> TestResult {
    let schedule =
        schedule(&[telling("root", &["bell"]), after("page", &["root"]), resource("bell")])?;
    let [root, page, bell] = handles(&schedule, ["root", "page", "bell"]).await;
    root.request(Reason::Change);
    let begun = root.visit().await;
    root.turn(begun.ticket).ask_alone().await.expect("it may act");
    page.request(Reason::Change);

    let said = notice("root", &["mode"], &[("chmod", "0600")]);
    let interrupted = closing(begun.ticket, Outcome::Stopped);
    root.give_up(&VisitReport { has_acted: true, notice: said.clone(), ..interrupted });
    let (without, rest) = (page.refused().await, schedule.activity().rest());
    drop(root);
    let root = ScheduleHandle::new(schedule.clone(), "root");
    let waits_for = page.waits_for();
    let then = [root.end(Outcome::Good).await, page.end(Outcome::Good).await];

    assert_eq!((without, rest), ((Err(Answer::HeldBack), AfterVisit::Waits), Rest::Starting));
    assert_eq!(waits_for.as_deref(), Some("root"));
    assert_eq!(then, [AfterVisit::Counted, AfterVisit::Counted]);
    assert_eq!(bell.visit().await.notices, [said]);
    Ok(())
}

#[tokio::test]
async fn a_new_state_is_there_when_its_dependents_are_visited() -> TestResult {
    let schedule = schedule(&[resource("root"), after("page", &["root"])])?;
    let [root, page] = handles(&schedule, ["root", "page"]).await;
    let state = State::new(&json!({"on": true}));

    root.request(Reason::Change);
    let visit = root.visit().await;
    let new_state = Some(state.clone());
    root.report(VisitReport { state: new_state, ..closing(visit.ticket, Outcome::Good) });
    let because = page.visit().await.because;

    assert_eq!(schedule.last_state("root"), Some(state));
    assert_eq!(because.map(|why| why.to_string()).as_deref(), Some("\"root\" has a new state"));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_another_one_has_followed_changes_nothing() -> TestResult {
    let schedule = schedule(&[resource("it")])?;
    let old = ScheduleHandle::new(schedule.clone(), "it");
    let visit = old.visit().await;

    let new = ScheduleHandle::new(schedule.clone(), "it");
    let answer = old.turn(visit.ticket).ask_alone().await;
    let state = Some(State::new(&json!({})));
    let stands = old.report(VisitReport { state, ..closing(visit.ticket, Outcome::Good) }).stands;
    drop(old);

    assert_eq!(answer, Err(Answer::Halted));
    assert_eq!((stands, schedule.last_state("it")), (AfterVisit::Waits, None));
    assert_eq!(new.end(Outcome::Good).await, AfterVisit::Counted);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_still_waits_is_not_woken_in_the_place_of_the_one_after_it() -> TestResult {
    let schedule = schedule(&[resource("it")])?;
    let old = ScheduleHandle::new(schedule.clone(), "it");
    old.end(Outcome::Good).await;

    let visited = async {
        let new = ScheduleHandle::new(schedule.clone(), "it");
        new.end(Outcome::Good).await;
        // If the old one was woken, it waits again now.
        yield_now().await;
        let (visit, ()) = tokio::join!(new.visit(), async { new.request(Reason::Change) });
        new.report(closing(visit.ticket, Outcome::Good)).stands
    };
    let stands = tokio::select! {
        biased;
        visit = old.visit() => return Err(format!("the old one has {visit:?}").into()),
        stands = timeout(Duration::from_secs(1), visited) => stands?,
    };

    assert_eq!(stands, AfterVisit::Counted);
    Ok(())
}

#[tokio::test]
async fn what_has_left_the_site_is_not_told_when_its_name_is_back() -> TestResult {
    let both = [telling("source", &["target"]), resource("target")];
    let schedule = schedule(&both)?;
    let [source, target] = handles(&schedule, ["source", "target"]).await;
    source.act(notice("source", &["mode"], &[])).await.expect("it may act");
    drop(target);

    let facilities = Facilities::default();
    connect(&schedule, &[resource("source")], (&facilities, &[]))?;
    connect(&schedule, &both, (&facilities, &["target"]))?;
    let target = ScheduleHandle::new(schedule.clone(), "target");

    assert_eq!(target.visit().await.notices, []);
    Ok(())
}

#[tokio::test]
async fn what_the_record_hands_over_is_told_to_the_heir() -> TestResult {
    let (facilities, schedule) = (Facilities::default(), Schedule::default());
    let before = [telling("source", &["home"]), resource("home")];
    connect(&schedule, &before, (&facilities, &[]))?;
    let [source, _home] = handles(&schedule, ["source", "home"]).await;
    source.act(notice("source", &["mode"], &[])).await.expect("it may act");

    facilities.records().push([
        Record::Pending(Notification::new("item", "source")),
        Record::Acknowledged(Notification::new("home", "source")),
    ]);
    let after = [telling("source", &["item"]), resource("item")];
    connect(&schedule, &after, (&facilities, &["item"]))?;
    let item = ScheduleHandle::new(schedule.clone(), "item");

    assert_eq!(item.visit().await.notices, [notice("source", &[], &[])]);
    Ok(())
}

#[tokio::test]
async fn whom_an_action_notifies_is_in_the_store_until_it_is_answered() -> TestResult {
    let (folder, store) = (tempfile::tempdir()?, Arc::new(MemoryStore::default()));
    let facilities = Facilities::open(folder.path(), Records::open(store.clone())?);
    let schedule = Schedule::default();
    let site = [telling("source", &["target"]), resource("target")];
    connect(&schedule, &site, (&facilities, &[]))?;
    let [source, target] = handles(&schedule, ["source", "target"]).await;

    source.request(Reason::Change);
    let visit = source.visit().await;
    source.turn(visit.ticket).ask_alone().await.expect("it may act");
    let allowed = store.load()?.pending;
    let acted = VisitReport { has_acted: true, ..closing(visit.ticket, Outcome::Good) };
    source.report(acted);
    let records = {
        let visit = target.visit().await;
        target.report(closing(visit.ticket, Outcome::Good)).records
    };
    facilities.records().flush(records).await?;

    assert_eq!(allowed, [Notification::new("target", "source")].into());
    assert!(store.load()?.pending.is_empty());
    Ok(())
}

/// A store that writes nothing while its gate is closed: until the other end is dropped.
#[derive(Debug)]
struct Gated {
    inner: MemoryStore,
    gate: Mutex<mpsc::Receiver<()>>,
}

impl Store for Gated {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }

    fn document(&self, key: &Key) -> Result<Option<Document>, StoreError> {
        self.inner.document(key)
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let _ = self.gate.lock().recv();
        self.inner.write(records)
    }
}

#[tokio::test]
async fn what_a_rule_sends_during_a_visit_that_answers_it_stays_in_the_store() -> TestResult {
    let pending = Notification::new("target", "rule");
    let (inner, (open, gate)) = (MemoryStore::default(), mpsc::channel::<()>());
    inner.write(&[Record::Pending(pending.clone())])?;
    let store = Arc::new(Gated { inner, gate: gate.into() });
    let (folder, records) = (tempfile::tempdir()?, Records::open(store.clone())?);
    let (facilities, schedule) =
        (Facilities::open(folder.path(), records.clone()), Schedule::default());
    connect(&schedule, &[resource("target")], (&facilities, &[]))?;
    let target = ScheduleHandle::new(schedule.clone(), "target");
    let visit = target.visit().await;

    let (is_there, followed) = tokio::join!(schedule.notify("target", "rule"), async {
        let followed = target.report(closing(visit.ticket, Outcome::Good));
        drop(open);
        followed
    });
    records.flush(followed.records).await?;

    assert_eq!(visit.notices, [notice("rule", &[], &[])]);
    assert!(is_there?);
    assert_eq!(store.load()?.pending, [pending].into());
    assert_eq!(target.visit().await.notices, [notice("rule", &[], &[])]);
    Ok(())
}

#[tokio::test]
async fn a_site_is_at_rest_when_all_have_started_and_were_visited() -> TestResult {
    let schedule = schedule(&[resource("root"), after("page", &["root"])])?;
    let mut activity = schedule.activity();

    let before = activity.rest();
    let root = ScheduleHandle::new(schedule.clone(), "root");
    let started = activity.rest();
    let visit = root.visit().await;
    let state = Some(State::new(&json!({})));
    root.report(VisitReport { state, ..closing(visit.ticket, Outcome::Good) });
    let published = activity.rest();
    let page = ScheduleHandle::new(schedule.clone(), "page");
    page.end(Outcome::Good).await;

    assert_eq!([before, started, published], [Rest::Starting, Rest::AtWork, Rest::Starting]);
    assert_eq!(activity.rest(), Rest::AtRest);
    Ok(())
}
