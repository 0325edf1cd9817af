//! Waits that come to an end: with what was waited for, or with a failure that says what was not.

use std::time::Duration;

use crankcase_engine::{ChangeError, Engine, WorkerState};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::failure::Failure;

/// How long the kit waits by the clock, if nothing else is said: no time at all on a paused one.
/// Without it a test that waits for what never comes would hang without a word.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Waits for a future, and fails with this text if it takes longer than [`LIMIT`].
pub(crate) async fn within<F: Future>(
    late: impl FnOnce() -> String,
    future: F,
) -> Result<F::Output, Failure> {
    let came = timeout(LIMIT, future).await;
    came.map_err(|_| Failure::new(format!("{} within {LIMIT:?}", late())))
}

/// Waits until an engine has settled and all its events up to then can be read.
///
/// A turn of the engine answers first and lets its events be seen then, which another thread may come
/// between. The second answer is of a later turn.
pub(crate) async fn settled(engine: &Engine) -> Result<(), ChangeError> {
    engine.settled().await?;
    engine.settled().await
}

/// Lets every task of this thread's runtime that can run go on until it waits for something else
/// than a turn. The clock stands still meanwhile.
pub(crate) async fn all_turns() {
    // Who is woken by a task that was polled comes in the next round.
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Waits until a worker is in a state that lasts. The path is written as for [`Engine::find`].
///
/// It looks again at each event, so a state that is left at once may be missed: wait for its event
/// instead.
///
/// # Errors
///
/// When the engine ends first, or it is not in that state within ten minutes by the clock; the
/// failure lists the states that the worker was in.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Exit, Name, WorkerState};
/// use crankcase_testing::{Script, clean_kill, test_engine, wait_for_state};
///
/// const WEB: Name<u32> = Name::new("web");
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = test_engine().build()?;
/// let script = Script::new();
/// script.fail_start(Exit::missing("its licence"));
/// engine.install(WEB, script.manifold(())).await?;
/// wait_for_state(&engine, "web", WorkerState::Missing).await?;
/// clean_kill(engine).await?;
/// # Ok(()) }
/// ```
pub async fn wait_for_state(
    engine: &Engine,
    path: &str,
    wanted: WorkerState,
) -> Result<(), Failure> {
    state_within(engine, path, wanted, LIMIT).await
}

/// Waits until a worker is in a state, as [`wait_for_state`] does, for as long as this.
pub(crate) async fn state_within(
    engine: &Engine,
    path: &str,
    wanted: WorkerState,
    limit: Duration,
) -> Result<(), Failure> {
    let mut events = engine.events();
    let mut seen: Vec<String> = Vec::new();
    let came = async {
        let mut has_ended = false;
        while !has_ended {
            let state = state_of(engine, path).await;
            if state == wanted {
                return true;
            }
            if seen.last().is_none_or(|last| last != state.as_str()) {
                seen.push(state.to_string());
            }
            // How many events were missed does not matter: the state is looked at anew.
            tokio::select! {
                biased;
                notice = events.next() => has_ended = notice.is_none(),
                _ = engine.wait() => has_ended = true,
            }
        }
        false
    };
    let why = match timeout(limit, came).await {
        Ok(true) => return Ok(()),
        Ok(false) => format!("{path:?} was never {wanted}: the engine has ended"),
        Err(_) => format!("{path:?} was not {wanted} within {limit:?}"),
    };
    Err(Failure::with_seen(&why, &seen))
}

/// Returns what a worker is doing. In an engine that is not there, it is absent.
async fn state_of(engine: &Engine, path: &str) -> WorkerState {
    let Some((engine, name)) = engine.find(path) else { return WorkerState::Absent };
    let graph = engine.graph().await;
    let nodes = graph.into_iter().flat_map(|graph| graph.nodes);
    let mut state = nodes.filter(|node| node.name == name.as_str()).map(|node| node.state);
    state.next().unwrap_or(WorkerState::Absent)
}
