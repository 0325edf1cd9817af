//! The manifold of a runner.

use std::time::Duration;

use crankcase_engine::{ConfigError, Manifold};
use crankcase_workers::{Runner, RunnerConfig};

/// Returns a manifold that offers the [`RunnerHandle`](crankcase_workers::RunnerHandle) through
/// which others start and stop workers, and reports them.
///
/// The worker's grace is `grace` and `abort_grace` of the runner's policy and a second more; set a
/// longer one if single workers have longer graces.
///
/// # Errors
///
/// When the policy cannot be used; it names the field at fault.
pub fn manifold(config: RunnerConfig) -> Result<Manifold, ConfigError> {
    config.policy.validate()?;
    let policy = &config.policy;
    let grace = policy.grace.saturating_add(policy.abort_grace);
    let deadline = policy.report_deadline;
    let started = Manifold::builder().start_with(config, |config, (), ctx| async move {
        Ok(Runner::new_for(ctx.stop(), config)?)
    });
    let manifold = started
        .output(Runner::handle)
        .report(|runner| {
            let workers = runner.handle();
            move || {
                let workers = workers.clone();
                async move { workers.report().await }
            }
        })
        .build()
        .grace(grace.saturating_add(Duration::from_secs(1)))
        // It waits for its workers' reports, and says which did not answer.
        .report_deadline(deadline.saturating_add(Duration::from_secs(1)));
    Ok(manifold)
}
