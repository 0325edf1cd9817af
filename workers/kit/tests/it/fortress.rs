//! Many guests, or one guard alone.

mod schedule;

use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Exit, Outcome, Stop, Worker};
use crankcase_testing::{Bare, Journal, check_alive, clean_kill};
use crankcase_workers::{Fortress, FortressError, FortressState};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::running::TestResult;
use crate::trace::{Idle, Trace};

/// Returns an open fortress.
fn open() -> Fortress {
    let fortress = Fortress::new();
    fortress.guard().unlock();
    fortress
}

#[tokio::test(start_paused = true)]
async fn it_is_locked_at_first_and_shows_every_lockdown() -> TestResult {
    let fortress = Fortress::new();
    let (guard, state) = (fortress.guard(), fortress.state());
    assert!(fortress.guest().try_visit().is_none());
    assert_eq!(*state.borrow(), FortressState { is_open: false, lockdowns: 0 });

    guard.unlock();
    let before = *state.borrow();
    guard.lockdown().await?;
    guard.lockdown().await?;
    guard.unlock();

    assert_eq!(before, FortressState { is_open: true, lockdowns: 0 });
    assert_eq!(*state.borrow(), FortressState { is_open: true, lockdowns: 1 });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lockdown_that_is_dropped_stays_locked() -> TestResult {
    let fortress = open();
    let (guard, visit) = (fortress.guard(), fortress.guest().visit().await?);

    tokio::select! {
        biased;
        _ = guard.lockdown() => return Err("a guest is there".into()),
        () = sleep(Duration::from_secs(1)) => {}
    }
    drop(visit);

    assert!(fortress.guest().try_visit().is_none());
    Ok(fortress.guard().lockdown().await?)
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_told_when_its_worker_ends_or_is_dropped() -> TestResult {
    for is_killed in [false, true] {
        let fortress = Fortress::new();
        let running = Bare::run(fortress.clone());
        sleep(Duration::from_secs(1)).await;
        let (guest, ended) = (fortress.guest(), async {
            sleep(Duration::from_secs(1)).await;
            if is_killed {
                clean_kill(running).await
            } else {
                drop(running);
                Ok(())
            }
        });

        let (visit, ended) = tokio::join!(guest.visit(), ended);

        ended?;
        assert_eq!(visit.err(), Some(FortressError::Ended));
        assert_eq!(fortress.guard().lockdown().await, Err(FortressError::Ended));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn once_it_has_ended_it_is_locked_for_ever() -> TestResult {
    let fortress = open();
    let (guard, state) = (fortress.guard(), fortress.state());
    clean_kill(Bare::run(fortress.clone())).await?;
    let at_end = *state.borrow();

    guard.unlock();

    assert!(!at_end.is_open);
    assert_eq!(*state.borrow(), at_end);
    assert!(fortress.guest().try_visit().is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_occupier_holds_it_for_its_life_and_waits_to_be_let_in() -> TestResult {
    let (fortress, journal) = (Fortress::new(), Journal::new());
    let trace = Trace(journal.clone(), "worker dropped");
    let running = Bare::run(fortress.guest().occupy(|| async { Ok(Idle(trace)) }));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fortress.guests(), 0);

    fortress.guard().unlock();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fortress.guests(), 1);
    check_alive(&running).await?;
    clean_kill(running).await?;

    assert_eq!(fortress.guests(), 0);
    assert_eq!(journal.lines(), ["worker dropped"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_occupier_is_asked_to_leave_by_a_lockdown_and_wants_to_come_again() -> TestResult {
    let (fortress, journal) = (open(), Journal::new());
    let trace = Trace(journal.clone(), "worker dropped");
    let mut running = Bare::run(fortress.guest().occupy(|| async { Ok(Idle(trace)) }));
    sleep(Duration::from_secs(1)).await;

    fortress.guard().lockdown().await?;

    assert_eq!(journal.lines(), ["worker dropped"]);
    assert!(matches!(running.ended().await?, Err(Exit::Bounce)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_stopped_or_dropped_half_way_leaves_nothing_in_it() -> TestResult {
    for is_killed in [false, true] {
        let (fortress, journal) = (open(), Journal::new());
        let trace = Trace(journal.clone(), "half a worker dropped");
        let running = Bare::run(fortress.guest().occupy(|| async move {
            let worker = Idle(trace);
            std::future::pending::<()>().await;
            Ok(worker)
        }));
        sleep(Duration::from_secs(1)).await;
        assert_eq!(fortress.guests(), 1);

        if is_killed {
            clean_kill(running).await?;
        } else {
            drop(running);
            sleep(Duration::from_secs(1)).await;
        }

        assert_eq!(journal.lines(), ["half a worker dropped"]);
        fortress.guard().lockdown().await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_occupier_whose_start_fails_or_panics_leaves() -> TestResult {
    let fortress = open();
    let failing = fortress.guest().occupy(|| async { Err::<Idle, _>("no disk".into()) });
    let falling = fortress
        .guest()
        .occupy(|| -> std::future::Ready<Result<Idle, Exit>> { panic!("no memory") });

    let failed = Bare::run(failing).ended().await?.unwrap_err();
    let fallen = Bare::run(falling).ended().await?.unwrap_err();

    assert_eq!(failed.to_string(), "no disk");
    assert_eq!(fallen.to_string(), "panicked: no memory");
    assert_eq!(fortress.guests(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_lingers_of_an_occupier_is_still_a_guest() -> TestResult {
    struct Lingering(mpsc::UnboundedSender<crankcase_engine::owner::Linger>, Arc<Journal>);
    impl Worker for Lingering {
        async fn run(self, stop: Stop) -> Outcome {
            self.0.send(stop.linger())?;
            stop.wait().await;
            self.1.note("stopped");
            Ok(())
        }
    }
    let (fortress, journal) = (open(), Arc::new(Journal::new()));
    let (sender, mut held) = mpsc::unbounded_channel();
    let worker = Lingering(sender, Arc::clone(&journal));
    let running = Bare::run(fortress.guest().occupy(|| async { Ok(worker) }));
    let linger = held.recv().await;

    clean_kill(running).await?;

    assert_eq!(journal.lines(), ["stopped"]);
    assert_eq!(fortress.guests(), 1);
    drop(linger);
    Ok(fortress.guard().lockdown().await?)
}
