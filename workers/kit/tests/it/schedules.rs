//! Runs random schedules, each of which is compared with a model by who runs it.

use std::collections::BTreeSet;

use crate::running::TestResult;

/// Runs this many schedules, or the one whose seed is `CRANKCASE_SEED`, and requires that each of
/// `answers` came in one of them.
pub(crate) async fn every_schedule_passes(
    count: u64,
    run: impl AsyncFn(u64) -> Result<BTreeSet<&'static str>, String>,
    answers: &[&str],
) -> TestResult {
    let one = std::env::var("CRANKCASE_SEED").ok().map(|seed| seed.parse::<u64>()).transpose()?;
    let seeds = one.map_or(0..count, |seed| seed..seed + 1);
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let answered = run(seed).await;
        seen.extend(
            answered.map_err(|text| {
                format!("seed {seed}: {text}\nreplay with CRANKCASE_SEED={seed}")
            })?,
        );
    }
    let has_all = answers.iter().all(|answer| seen.contains(answer));
    assert!(one.is_some() || has_all, "only {seen:?}");
    Ok(())
}
