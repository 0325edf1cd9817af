//! Gates, values and owned workers.

use std::time::Duration;

use crankcase_testing::{Bare, Journal, clean_kill};
use crankcase_workers::{Flag, Gate, Owned, Value, ValueHandle};
use tokio::time::sleep;

use crate::running::TestResult;
use crate::trace::{Idle, Trace};

#[tokio::test(start_paused = true)]
async fn a_gate_is_unlocked_once_and_for_all_who_wait() -> TestResult {
    let gate = Gate::new();
    let (first, second, mut flag) = (gate.waiter(), gate.waiter(), gate.flag());
    let running = Bare::run(gate.clone());

    let unlock = async {
        sleep(Duration::from_secs(1)).await;
        assert!(!gate.waiter().is_unlocked());
        gate.unlocker().unlock();
        gate.unlocker().unlock();
    };
    tokio::join!(first.unlocked(), second.unlocked(), unlock);

    gate.waiter().unlocked().await;
    assert_eq!(*flag.borrow_and_update(), Flag::SET);
    assert!(!flag.has_changed()?, "a second unlocking is no change");
    Ok(clean_kill(running).await?)
}

#[tokio::test(start_paused = true)]
async fn a_gate_outlives_its_worker() -> TestResult {
    let gate = Gate::new();
    clean_kill(Bare::run(gate.clone())).await?;

    gate.unlocker().unlock();

    assert!(gate.waiter().is_unlocked());
    assert!(Gate::unlocked().waiter().is_unlocked());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_is_set_and_followed_and_outlives_its_workers() -> TestResult {
    let handle = ValueHandle::new(1);
    let mut changes = handle.subscribe();
    let running = Bare::run(Value::of(handle.clone()));
    handle.set(2);
    changes.changed().await?;
    assert_eq!(*changes.borrow(), 2);
    clean_kill(running).await?;

    assert_eq!(Value::of(handle).handle().get(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_is_exposed_outlives_the_worker_however_it_ends() -> TestResult {
    for is_run in [false, true] {
        let journal = Journal::new();
        let worker = Idle(Trace(journal.clone(), "worker"));
        let owned = Owned::new(worker, Trace(journal.clone(), "exposed"));
        assert_eq!(owned.exposed().1, "exposed");
        assert_eq!(owned.worker().0.1, "worker");

        let running = Bare::run(owned);
        if is_run {
            sleep(Duration::from_secs(1)).await;
            drop(running);
            sleep(Duration::from_secs(1)).await;
        } else {
            clean_kill(running).await?;
        }

        assert_eq!(journal.lines(), ["worker", "exposed"]);
    }
    Ok(())
}
