//! What the model of `top` asks the agent for, and what it keeps of the answers and events.

use std::error::Error;
use std::slice::from_ref;
use std::time::{Duration, SystemTime};

use crankcase_status::wire::{Act, EngineReport, EventLine, Why, WorkerChange};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Model, Next};
use crate::command::top::keys::Key;
use crate::command::top::prompt::Prompt;
use crate::command::top::question::{Answer, Of, Question, Reports};

type TestResult = Result<(), Box<dyn Error>>;

const BOUNCE: WorkerChange = WorkerChange::Act(Act::Bounce);
const PARK: WorkerChange = WorkerChange::Act(Act::Park);

/// The moments of a test.
struct Clock {
    now: Instant,
}

impl Clock {
    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }
}

/// Returns a report that knows the events up to those of its workers, and no later one.
fn report(workers: &[(&str, &str, u64)]) -> Result<EngineReport, serde_json::Error> {
    let worker = |(name, state, _): &(&str, &str, u64)| {
        let worker = json!({"path": format!("/agent/{name}"), "state": state, "generation": 1,
            "starts": 1, "failures": 0, "is_essential": true});
        ((*name).to_owned(), worker)
    };
    let newest = workers.iter().map(|(_, _, event)| *event).max().unwrap_or_default();
    let workers: serde_json::Map<String, Value> = workers.iter().map(worker).collect();
    let report = json!({"path": "/agent", "state": "running", "is_healthy": true,
        "at": at(newest + 1), "workers": workers});
    serde_json::from_value(report)
}

/// Returns when an event was.
fn at(sequence: u64) -> String {
    format!("2026-01-02T03:04:05.{sequence:04}Z")
}

fn answer(workers: &[(&str, &str, u64)]) -> Result<Result<Answer, String>, serde_json::Error> {
    let (report, waiting, is_cut) = (report(workers)?, None, false);
    Ok(Ok(Answer::Report(Reports { report, waiting, is_cut }.into())))
}

fn event((sequence, name, kind): (u64, &str, &str)) -> Result<EventLine, serde_json::Error> {
    serde_json::from_value(json!({"sequence": sequence, "at": at(sequence),
        "path": format!("/agent/{name}"), "event": {"type": kind}, "text": kind}))
}

fn why(paths: &[&str]) -> Result<Result<Answer, String>, serde_json::Error> {
    let step = |path: &&str| json!({"path": path, "state": "waiting", "failures": 0});
    let steps: Vec<_> = paths.iter().map(step).collect();
    Ok(Ok(Answer::Why(serde_json::from_value::<Why>(json!({ "steps": steps }))?)))
}

/// Returns a model to which all that it asked at first was answered.
fn model(workers: &[(&str, &str, u64)]) -> Result<(Model, Clock), Box<dyn Error>> {
    let mut clock = Clock { now: Instant::now() };
    let mut model = Model::new(false);
    model.connected("life");
    model.page = 4;
    assert_eq!(model.questions(clock.now), [Question::Report(None)]);
    model.answered(&Question::Report(None), answer(workers)?, clock.now);
    for question in model.questions(clock.now) {
        let Question::Why(path) = &question else { return Err(format!("{question:?}").into()) };
        model.answered(&question, why(&[path])?, clock.now);
    }
    clock.pass(10_000);
    Ok((model, clock))
}

fn typed(model: &mut Model, text: &str) {
    for character in text.chars() {
        assert_eq!(model.key(&Key::Character(character)), Next::Go);
    }
}

fn states(model: &Model) -> Vec<(&str, &str)> {
    model.table.rows(0, 100).map(|row| (&*row.shown, &*row.state)).collect()
}

#[test]
fn nothing_is_asked_while_nothing_happens() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3), ("b", "waiting", 4)])?;

    assert_eq!((model.questions(clock.now), model.due(clock.now)), (vec![], None));
    // What was reported already is no change.
    model.event(event((3, "a", "started"))?);
    clock.pass(1_000_000);
    assert_eq!((model.questions(clock.now), model.due(clock.now)), (vec![], None));
    Ok(())
}

#[test]
fn what_events_change_is_asked_for_together_and_a_few_times_a_second() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3), ("b", "running", 4)])?;
    for line in [(5, "b", "ended"), (6, "a", "ended"), (7, "b", "starting")] {
        model.event(event(line)?);
    }

    let asked = Question::Report(Some(5));
    assert_eq!(model.questions(clock.now), from_ref(&asked));
    model.event(event((8, "a", "starting"))?);
    assert_eq!(model.questions(clock.now), []);
    clock.pass(100);
    model.answered(&asked, answer(&[("b", "starting", 7), ("a", "waiting", 6)])?, clock.now);

    assert_eq!(states(&model), [("a", "waiting"), ("b", "starting")]);
    let why = Question::Why("/agent/a".to_owned());
    assert_eq!(model.questions(clock.now), [why]);
    let due = model.due(clock.now);
    assert_eq!(due, Some(clock.now + Duration::from_millis(400)));
    clock.pass(399);
    assert_eq!(model.questions(clock.now), []);
    clock.pass(1);
    assert_eq!(model.questions(clock.now), [Question::Report(Some(8))]);
    Ok(())
}

#[test]
fn after_a_gap_all_is_asked_for_but_not_for_what_the_agent_has_no_more() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3)])?;
    let missed = || serde_json::from_value(json!({ "missed": 7 }));

    model.event(missed()?);
    assert_eq!(model.questions(clock.now), []);
    model.event(event((3, "a", "started"))?);
    model.event(missed()?);
    assert_eq!(model.questions(clock.now), [Question::Report(None)]);
    Ok(())
}

#[test]
fn a_worker_that_was_uninstalled_leaves_the_table() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3), ("b", "running", 4)])?;
    model.event(event((5, "b", "uninstalled"))?);

    let question = Question::Report(Some(5));
    assert_eq!(model.questions(clock.now), from_ref(&question));
    model.answered(&question, answer(&[])?, clock.now);

    assert_eq!(states(&model), [("a", "running")]);
    Ok(())
}

#[test]
fn a_worker_that_is_gone_leaves_the_table_though_a_report_was_begun_after_that() -> TestResult {
    let workers =
        [("a", "running", 3), ("b", "running", 4), ("c", "running", 4), ("d", "running", 4)];
    let (mut model, mut clock) = model(&workers)?;
    model.event(event((5, "b", "removed"))?);
    let question = Question::Report(Some(5));
    assert_eq!(model.questions(clock.now), from_ref(&question));
    // One is told before the answer and one after it, and both happened before the report was begun.
    model.event(event((6, "c", "removed"))?);
    model.answered(&question, answer(&[("a", "running", 9)])?, clock.now);
    model.event(event((7, "d", "removed"))?);

    clock.pass(1_000);
    let question = Question::Report(Some(6));
    assert!(model.questions(clock.now).contains(&question));
    model.answered(&question, answer(&[("a", "running", 9)])?, clock.now);

    assert_eq!(states(&model), [("a", "running")]);
    Ok(())
}

#[test]
fn a_worker_that_was_reported_while_it_was_being_uninstalled_leaves_the_table() -> TestResult {
    let mut clock = Clock { now: Instant::now() };
    let mut model = Model::new(false);
    model.connected("life");
    assert_eq!(model.questions(clock.now), [Question::Report(None)]);
    model.event(event((2, "b", "uninstalled"))?);
    model.event(event((9, "b", "removed"))?);
    let workers = [("a", "running", 1), ("b", "stopping", 5)];
    model.answered(&Question::Report(None), answer(&workers)?, clock.now);

    clock.pass(1_000);
    let question = Question::Report(Some(9));
    assert!(model.questions(clock.now).contains(&question));
    model.answered(&question, answer(&[("a", "running", 9)])?, clock.now);

    assert_eq!(states(&model), [("a", "running")]);
    Ok(())
}

#[test]
fn what_happens_in_the_moment_of_a_report_may_not_be_in_it() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3), ("b", "running", 3)])?;

    model.event(event((3, "b", "ended"))?);
    assert_eq!(model.questions(clock.now), []);
    model.event(event((4, "b", "ended"))?);
    assert_eq!(model.questions(clock.now), [Question::Report(Some(4))]);
    Ok(())
}

#[test]
fn more_than_can_be_kept_is_asked_for_as_a_whole() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3)])?;
    model.event(event((4, "a", "ended"))?);
    let question = Question::Report(Some(4));
    assert_eq!(model.questions(clock.now), from_ref(&question));
    for sequence in 5..2_000 {
        model.event(event((sequence, "a", "failed"))?);
    }
    model.answered(&question, answer(&[("a", "running", 4)])?, clock.now);

    clock.pass(1_000);
    assert!(model.questions(clock.now).contains(&Question::Report(None)));
    Ok(())
}

#[test]
fn a_worker_that_was_installed_again_stays_in_the_table() -> TestResult {
    let mut clock = Clock { now: Instant::now() };
    let mut model = Model::new(false);
    model.connected("life");
    assert_eq!(model.questions(clock.now), [Question::Report(None)]);
    // What the report has already, and what comes after it.
    for line in [(1, "a", "uninstalled"), (2, "a", "installed"), (7, "b", "uninstalled")] {
        model.event(event(line)?);
    }
    let workers = [("a", "running", 2), ("b", "running", 3)];
    model.answered(&Question::Report(None), answer(&workers)?, clock.now);
    clock.pass(1_000);
    let question = Question::Report(None);
    assert!(model.questions(clock.now).contains(&question));
    model.answered(&question, answer(&workers[..1])?, clock.now);
    assert_eq!(states(&model), [("a", "running")]);

    model.event(event((8, "b", "uninstalled"))?);
    model.event(event((9, "b", "installed"))?);
    clock.pass(1_000);
    assert!(model.questions(clock.now).contains(&question));
    Ok(())
}

#[test]
fn why_is_asked_again_only_when_a_worker_of_the_chain_has_changed() -> TestResult {
    let (mut model, mut clock) =
        model(&[("a", "waiting", 1), ("b", "missing", 2), ("c", "running", 3)])?;
    let question = Question::Why("/agent/a".to_owned());

    model.key(&Key::Down);
    assert_eq!(model.questions(clock.now), from_ref(&question));
    model.answered(&question, why(&["/agent/a", "/agent/b"])?, clock.now);
    clock.pass(1_000);
    model.event(event((3, "c", "health"))?);
    assert_eq!(model.questions(clock.now), []);
    model.event(event((4, "b", "health"))?);
    assert!(model.questions(clock.now).contains(&Question::Report(Some(4))));
    let workers = [("a", "waiting", 1), ("b", "missing", 4)];
    model.answered(&Question::Report(Some(4)), answer(&workers)?, clock.now);
    assert_eq!(model.questions(clock.now), from_ref(&question));

    // What happens before the answer may not be in it.
    model.event(event((5, "b", "health"))?);
    model.answered(&question, why(&["/agent/a", "/agent/b"])?, clock.now);
    clock.pass(1_000);
    let report = Question::Report(Some(5));
    assert_eq!(model.questions(clock.now), from_ref(&report));
    model.answered(&report, answer(&[("b", "missing", 5)])?, clock.now);
    assert_eq!(model.questions(clock.now), [question]);
    Ok(())
}

#[test]
fn a_lost_agent_is_told_with_its_age_and_looked_for_until_one_is_there() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3)])?;
    let wall = SystemTime::UNIX_EPOCH;
    model.event(event((9, "a", "ended"))?);
    model.disconnected("it broke", (clock.now, wall));

    assert_eq!(model.questions(clock.now), []);
    clock.pass(300);
    assert_eq!(model.questions(clock.now), [Question::Connect]);
    model.disconnected("none", (clock.now, wall + Duration::from_secs(9)));
    assert_eq!(model.lost, Some((wall, "none".to_owned())));
    assert_eq!(states(&model), [("a", "running")]);
    clock.pass(300);
    assert_eq!(model.questions(clock.now), [Question::Connect]);
    model.connected("another life");

    assert_eq!((&model.lost, model.events.len()), (&None, 0));
    assert_eq!(model.message.as_deref(), Some("the agent was restarted"));
    assert!(model.questions(clock.now).contains(&Question::Report(None)));
    Ok(())
}

#[test]
fn a_report_that_fails_is_asked_for_again_but_not_at_once() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3), ("b", "running", 3)])?;
    model.event(event((9, "b", "ended"))?);
    let question = Question::Report(Some(9));
    assert_eq!(model.questions(clock.now), from_ref(&question));
    clock.pass(5_000);
    assert_eq!(model.waits(clock.now), Some(Duration::from_secs(5)));

    model.answered(&question, Err("busy".to_owned()), clock.now);

    assert_eq!((model.questions(clock.now), model.message.as_deref()), (vec![], Some("busy")));
    assert_eq!(model.waits(clock.now), None);
    // It took long, so that the agent is left alone for longer.
    clock.pass(20_000);
    assert_eq!(model.questions(clock.now), [Question::Report(None)]);
    Ok(())
}

#[test]
fn a_wish_needs_its_consequence_and_a_y() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3)])?;
    typed(&mut model, "p");
    let asked = Question::Preview(PARK, "/agent/a".to_owned());
    assert_eq!(model.questions(clock.now), from_ref(&asked));
    assert_eq!(model.questions(clock.now), []);

    // A pasted text is only text, whatever is in it.
    model.key(&Key::Pasted("too\ny loud\u{1b}".to_owned()));
    model.key(&Key::Enter);
    typed(&mut model, "y");
    assert!(matches!(model.prompt, Some(Prompt::Confirm(..))), "{:?}", model.prompt);
    model.answered(&asked, Ok(Answer::Preview("bounces also b".to_owned())), clock.now);
    let consequence = model.prompt.as_mut().and_then(Prompt::wish).map(|wish| wish.consequence());
    assert_eq!(consequence.as_deref(), Some("bounces also b"));
    assert_eq!(model.questions(clock.now), []);
    typed(&mut model, "y");

    let control = Question::Control(PARK, "/agent/a".to_owned(), "tooy loud".to_owned());
    assert_eq!(model.questions(clock.now), from_ref(&control));
    assert_eq!(model.message.as_deref(), Some("asked to park a ..."));
    model.answered(&control, Ok(Answer::Done("parked a".to_owned())), clock.now);
    assert_eq!(model.message.as_deref(), Some("parked a"));
    Ok(())
}

#[test]
fn a_pause_and_its_end_are_wished_like_a_park() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3)])?;
    for (key, change) in [("P", WorkerChange::Pause), ("r", WorkerChange::Resume)] {
        typed(&mut model, key);
        let asked = Question::Preview(change, "/agent/a".to_owned());
        assert_eq!(model.questions(clock.now), from_ref(&asked));
        model.answered(&asked, Ok(Answer::Preview("stops no worker".to_owned())), clock.now);
        typed(&mut model, "a look");
        model.key(&Key::Enter);
        typed(&mut model, "y");

        let control = Question::Control(change, "/agent/a".to_owned(), "a look".to_owned());
        assert_eq!(model.questions(clock.now), [control]);
    }
    Ok(())
}

#[test]
fn any_other_key_does_nothing_to_a_worker() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3)])?;
    for key in [Key::Enter, Key::Escape, Key::Character('n'), Key::Pasted("y".to_owned())] {
        typed(&mut model, "b");
        let asked = Question::Preview(BOUNCE, "/agent/a".to_owned());
        assert_eq!(model.questions(clock.now), from_ref(&asked));
        model.answered(
            &asked,
            Ok(Answer::Preview("bounces no other worker".to_owned())),
            clock.now,
        );
        model.key(&Key::Enter);
        model.key(&Key::Resized);
        assert!(matches!(model.prompt, Some(Prompt::Confirm(..))), "{:?}", model.prompt);

        model.key(&key);

        assert_eq!((model.questions(clock.now), &model.prompt), (vec![], &None));
        assert_eq!(model.message.as_deref(), Some("nothing was done"));
    }
    Ok(())
}

#[test]
fn there_are_no_wishes_when_it_only_reads_or_no_agent_is_there() -> TestResult {
    let (mut model, clock) = model(&[("a", "running", 3)])?;
    model.is_read_only = true;
    typed(&mut model, "bpuPr");
    assert_eq!((model.questions(clock.now), &model.prompt), (vec![], &None));

    model.is_read_only = false;
    typed(&mut model, "p");
    model.disconnected("it broke", (clock.now, SystemTime::UNIX_EPOCH));
    assert_eq!(model.prompt, None);
    typed(&mut model, "p");
    assert_eq!(model.message.as_deref(), Some("there is no agent to ask"));
    Ok(())
}

#[test]
fn the_screen_of_a_worker_is_asked_for_again_when_its_engine_has_changed() -> TestResult {
    let (mut model, mut clock) = model(&[("a", "running", 3), ("b", "running", 4)])?;
    model.key(&Key::Enter);
    let question = Question::Sheet(Of::Report, "/agent/a".to_owned());
    assert_eq!(model.questions(clock.now), from_ref(&question));
    model.answered(&question, Ok(Answer::Lines(vec![Default::default(); 9])), clock.now);
    clock.pass(1_000);

    // It shows nothing of another engine, but its inputs and users.
    model.event(event((4, "other/x", "health"))?);
    assert!(!model.questions(clock.now).contains(&question));
    model.event(event((5, "b", "health"))?);
    assert!(model.questions(clock.now).contains(&question));
    model.answered(&question, Ok(Answer::Lines(vec![Default::default(); 9])), clock.now);
    clock.pass(1_000);
    model.event(event((6, "a", "health"))?);
    assert!(model.questions(clock.now).contains(&question));
    model.answered(&question, Err("gone".to_owned()), clock.now);

    let sheet = model.sheet.as_ref().ok_or("no sheet")?;
    assert_eq!((sheet.error.as_deref(), sheet.lines.len()), (Some("gone"), 9));
    for (key, first) in [(Key::Down, 1), (Key::PageDown, 5), (Key::End, 5), (Key::PageUp, 1)] {
        model.key(&key);
        assert_eq!(model.sheet.as_ref().map(|sheet| sheet.first.0), Some(first));
    }
    typed(&mut model, "g");
    clock.pass(1_000);
    assert_eq!(model.questions(clock.now), [Question::Sheet(Of::Near, "/agent/a".to_owned())]);
    model.key(&Key::Escape);
    assert!(model.sheet.is_none());
    Ok(())
}

#[test]
fn a_filter_is_applied_as_it_is_typed() -> TestResult {
    let (mut model, _) = model(&[("page", "running", 3), ("disk", "waiting", 4)])?;

    typed(&mut model, "/PAX");
    assert_eq!(states(&model), []);
    model.key(&Key::Backspace);
    model.key(&Key::Enter);
    assert_eq!((states(&model), &model.prompt), (vec![("page", "running")], &None));
    typed(&mut model, "/");
    model.key(&Key::EraseAll);
    typed(&mut model, "wait");
    assert_eq!(states(&model), [("disk", "waiting")]);
    model.key(&Key::Escape);
    assert_eq!((states(&model).len(), model.table.filter()), (2, ""));
    assert_eq!(model.key(&Key::Character('q')), Next::Quit);
    Ok(())
}

#[test]
fn nothing_is_typed_into_a_screen_that_is_too_small() -> TestResult {
    let (mut model, _clock) = model(&[("a", "running", 3)])?;
    typed(&mut model, "p");
    model.is_hidden = true;

    typed(&mut model, "xy");

    assert_eq!(model.prompt, None);
    assert_eq!(model.key(&Key::Character('q')), Next::Quit);
    Ok(())
}
