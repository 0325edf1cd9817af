//! Resources that depend on a program that only `run` starts.

use crankcase_resources::run::plan;
use crankcase_resources::{ApplyOptions, Outcome, PlanOptions};
use serde_json::json;

use crate::probe::{Event, probe, probes};
use crate::program::Program;
use crate::support::{TestResult, apply_with, declare, uses};

#[tokio::test]
async fn what_depends_on_a_program_is_not_touched_and_is_no_failure() -> TestResult {
    let (kinds, journal) = probes();
    let kinds = kinds.with(Program);
    let site = [
        declare("program", "program", json!({})),
        uses(probe("seed", ""), &["program"]),
        uses(probe("page", "cannot look"), &["seed"]),
        probe("other", ""),
    ];

    let planned = plan(&site, &kinds, &PlanOptions::default()).await?;
    let account = apply_with(&site, &kinds, &ApplyOptions::default()).await?;

    assert_eq!((planned.needs_run(), planned.changes(), planned.failures()), (2, 1, 0));
    assert_eq!((account.needs_run(), account.changes(), account.failures()), (2, 1, 0));
    assert_eq!((account.run_only(), account.halted()), (1, 0));
    let began = journal.events().into_iter().filter(|event| matches!(event, Event::Began(_)));
    assert_eq!(began.collect::<Vec<_>>(), [Event::Began("other".to_owned())]);
    Ok(())
}

#[tokio::test]
async fn what_depends_on_a_failed_resource_as_well_is_skipped() -> TestResult {
    let site = [
        declare("program", "program", json!({})),
        probe("bad", "fails"),
        uses(probe("both", ""), &["program", "bad"]),
        uses(probe("behind", ""), &["both"]),
    ];

    let account = apply_with(&site, &probes().0.with(Program), &ApplyOptions::default()).await?;

    for name in ["both", "behind"] {
        let outcome = account.get(name).map(|it| &it.outcome);
        assert_eq!(outcome, Some(&Outcome::Skipped { because: "bad".to_owned() }), "{account}");
    }
    Ok(())
}
