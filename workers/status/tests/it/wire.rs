//! The states of workers on the wire, and which of them are trouble.

use crankcase_engine::WorkerState as EnginesState;
use crankcase_status::wire::{Subject, WorkerReport, WorkerState};
use serde_json::{Value, json};

use crate::world::TestResult;

/// All states of the engine's workers, and whether one in it is in trouble.
const STATES: [(EnginesState, bool); 15] = [
    (EnginesState::Running, false),
    (EnginesState::Starting, false),
    (EnginesState::Closing, false),
    (EnginesState::Stopping, false),
    (EnginesState::Aborting, true),
    (EnginesState::Stuck, true),
    (EnginesState::Lingering, false),
    (EnginesState::Waiting, false),
    (EnginesState::Delayed, false),
    (EnginesState::BackingOff, true),
    (EnginesState::Missing, true),
    (EnginesState::Done, false),
    (EnginesState::Spent, true),
    (EnginesState::Parked, true),
    (EnginesState::Absent, false),
];

fn worker(state: &str) -> Value {
    json!({"path": "/agent/it", "state": state, "generation": 1, "starts": 1, "failures": 0,
           "is_essential": false})
}

fn engine(workers: &Value) -> Value {
    json!({"path": "/agent", "state": "running", "is_healthy": true, "at": "then",
           "workers": workers})
}

#[test]
fn every_state_of_the_engine_goes_over_the_wire_by_its_word() -> TestResult {
    for (state, _) in STATES {
        let wire = WorkerState::from(state);

        let word = serde_json::to_value(state)?;
        assert_eq!(serde_json::to_value(&wire)?, word);
        assert_eq!(wire.to_string(), word);
        assert_eq!(serde_json::from_value::<WorkerState>(word)?, wire);
        assert!(!matches!(wire, WorkerState::Other(_)), "{wire}");
    }
    Ok(())
}

#[test]
fn a_state_of_a_later_version_is_kept_by_its_word() -> TestResult {
    let report: WorkerReport = serde_json::from_value(worker("half_asleep"))?;

    assert_eq!(report.state, WorkerState::Other("half_asleep".to_owned()));
    assert_eq!(report.state.to_string(), "half_asleep");
    assert_eq!(serde_json::to_value(&report)?["state"], "half_asleep");
    assert!(!report.has_trouble());
    Ok(())
}

#[test]
fn trouble_is_what_is_degraded_failed_or_parked_in_however_deep_an_engine() -> TestResult {
    let mut cases: Vec<_> = STATES
        .into_iter()
        .map(|(state, is_trouble)| (worker(&WorkerState::from(state).to_string()), is_trouble))
        .collect();
    let mut degraded = worker("starting");
    degraded["degraded"] = json!("the disk is full");
    let mut broken = worker("running");
    broken["report"] = engine(&json!({}));
    broken["report"]["error"] = json!("out of luck");
    cases.extend([(degraded, true), (broken, true)]);

    for (case, is_trouble) in cases {
        let mut nested = worker("running");
        nested["report"] = engine(&json!({"it": case}));
        let reports = [
            json!({"worker": case}),
            json!({"engine": engine(&json!({"it": case}))}),
            json!({"engine": engine(&json!({"it": nested}))}),
        ];
        for report in reports {
            let subject: Subject = serde_json::from_value(report)?;
            assert_eq!(subject.has_trouble(), is_trouble, "{subject:?}");
        }
    }
    Ok(())
}
