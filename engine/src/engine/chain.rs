//! Finds the chain to a root cause, across any number of engines.

use super::Engine;
use crate::seen::report::WorkerState;
use crate::seen::why::{Why, WhyStep};
use crate::supervisor::call::{Chain, Question};

/// Returns the chain from a worker to the root cause. It ends before it comes to a worker again:
/// workers that wait for each other through the engine may make a circle.
pub(super) async fn why(engine: &Engine, name: &str) -> Option<Why> {
    let Chain { mut steps, mut handed_by } = ask(engine, name).await?;
    let mut shared = engine.shared.clone();
    while let Some(worker) = handed_by {
        let (path, name) = worker.place(&shared.environment.path);
        // If the engine is gone, the chain ends with the missing value.
        let Some(next) = engine.shared.tree.find(&path) else { break };
        let Some(chain) = ask(&engine.beside(next.clone()), name.as_str()).await else { break };
        let is_known = |step: &WhyStep| steps.iter().any(|known| known.path == step.path);
        if chain.steps.iter().any(is_known) {
            break;
        }
        match &*chain.steps {
            // The worker has handed the value over in the meantime.
            [only] if only.state == WorkerState::Running => break,
            [_] => steps.extend(chain.steps),
            // The step of the worker that hands the value over is shown only if it is itself the
            // cause.
            _ => steps.extend(chain.steps.into_iter().skip(1)),
        }
        (shared, handed_by) = (next, chain.handed_by);
    }
    Some(Why { steps })
}

async fn ask(engine: &Engine, name: &str) -> Option<Chain> {
    let name = name.to_owned();
    engine.ask(|reply| Question::Why(name, reply)).await
}
