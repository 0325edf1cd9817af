//! How a runner treats all workers whose specs say nothing else.

use crankcase_engine::Policy;

/// How a [`Runner`](super::Runner) treats its workers.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunnerConfig {
    /// Delays, deadlines and intensity, as an engine has them, for all workers whose spec has none
    /// of its own. Default: [`Policy::default`].
    pub policy: Policy,
    /// The seed of the jitter. Default: that of the worker that the runner is made for, or runs as
    /// ([`Stop::seed`](crankcase_engine::Stop::seed)), so that it follows from the engine's. Two runners
    /// of one worker that are to draw different delays need seeds of their own. Without an engine it is
    /// another one each time, so that runners that have lost the same thing do not come back to it in
    /// step.
    pub seed: Option<u64>,
}

crankcase_engine::setters! {
    RunnerConfig {
        policy: Policy,
    }
    optional {
        seed: u64,
    }
}
