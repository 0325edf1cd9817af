//! The chain to a root cause, through any number of engines.

use super::Engine;
use crate::seen::report::WorkerState;
use crate::seen::why::Why;
use crate::supervisor::call::{Chain, Question};

/// Returns the chain from a worker to the root cause. It leads from user to what is used, which
/// makes no circle across engines either, so it ends.
pub(super) async fn why(engine: &Engine, name: &str) -> Option<Why> {
    let Chain { mut steps, mut handed_by } = ask(engine, name).await?;
    let mut shared = engine.shared.clone();
    while let Some(worker) = handed_by {
        let (path, name) = worker.place(&shared.environment.path);
        // An engine that is gone has no more to say than that it misses something.
        let Some(next) = engine.shared.tree.find(&path) else { break };
        let Some(chain) = ask(&engine.beside(next.clone()), name.as_str()).await else { break };
        match &*chain.steps {
            // It has handed the value over meanwhile.
            [only] if only.state == WorkerState::Running => break,
            [_] => steps.extend(chain.steps),
            // What hands over is of interest only if it is the cause itself.
            _ => steps.extend(chain.steps.into_iter().skip(1)),
        }
        (shared, handed_by) = (next, chain.handed_by);
    }
    Some(Why { steps })
}

async fn ask(engine: &Engine, name: &str) -> Option<Chain> {
    let name = name.to_owned();
    engine.ask(|reply| Question::Why(name, reply)).await.flatten()
}
