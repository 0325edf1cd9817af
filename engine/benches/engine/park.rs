//! For how long a call waits while many workers fail.

use std::time::Duration;

use crankcase_engine::{Backoff, Change, Engine, Manifold, Name, Policy};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::rounds::{median, time};
use crate::runtime::in_task;
use crate::table::Table;
use crate::worker::{Count, idle, names};

const CRASHING: usize = 300;
const INPUTS: usize = 20;
const PARKED: usize = 100;
const LONGEST: Duration = Duration::from_millis(10);
/// A call that has no answer by then is given up.
const GIVEN_UP: Duration = Duration::from_secs(1);

pub(crate) fn measure(table: &Table) {
    let name = format!("longest wait of a park among {CRASHING} in crash loops without backoff");
    if table.wants(&name) {
        let wait = median((0..5).map(|_| in_task(longest_wait()).as_secs_f64()));
        let is_given_up = wait >= GIVEN_UP.as_secs_f64();
        let figure = if is_given_up { "no answer in 1 s".to_owned() } else { time(wait) };
        table.figure(&name, &figure, "10 ms", wait <= LONGEST.as_secs_f64());
    }
}

/// Parks workers one after another while all others fail and are started again at once.
async fn longest_wait() -> Duration {
    let engine =
        Engine::builder().policy(Policy::default().backoff(Backoff::none())).build().unwrap();
    let _events = engine.events();
    let started = Count::new(INPUTS + CRASHING);
    let mut names = names(INPUTS + CRASHING);
    let crash_loops = names.split_off(INPUTS);
    let (fail, failing) = watch::channel(false);
    let change =
        names.iter().fold(Change::new(), |all, name| all.install(name.clone(), idle(&started)));
    let change = crash_loops.iter().fold(change, |all, name| {
        all.install(name.output::<()>(), crashing(&names, &started, &failing))
    });
    engine.apply(change).await.unwrap();
    started.reached().await;
    // The loops are under way when each worker has failed some times.
    started.reset(10 * CRASHING);
    fail.send(true).unwrap();
    started.reached().await;
    let mut longest = Duration::ZERO;
    for name in &crash_loops[..PARKED] {
        let name = name.output::<()>();
        let parking = async {
            let began = Instant::now();
            engine.park(name.clone()).await.unwrap();
            let waited = began.elapsed();
            engine.unpark(name.clone()).await.unwrap();
            waited
        };
        let Ok(waited) = timeout(GIVEN_UP, parking).await else {
            longest = GIVEN_UP;
            break;
        };
        longest = longest.max(waited);
    }
    engine.stop().await.unwrap();
    longest
}

/// Returns the manifold of a worker that fails at once as soon as it may.
fn crashing(inputs: &[Name<usize>], started: &Count, failing: &watch::Receiver<bool>) -> Manifold {
    let config = (started.clone(), failing.clone());
    let builder = Manifold::builder().inputs(inputs.to_vec());
    builder.run_with(config, |(started, mut failing), _inputs, up| async move {
        let stop = up.ready(());
        started.add();
        tokio::select! {
            biased;
            () = stop.wait() => Ok(()),
            _ = failing.wait_for(|is_failing| *is_failing) => Err("it crashes".into()),
        }
    })
}
