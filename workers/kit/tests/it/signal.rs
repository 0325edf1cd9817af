//! How signals to the process are counted.

use crankcase_workers::{Signal, SignalError, Signals};
use rustix::process::{Signal as Number, getpid, kill_process};

use crate::running::{Running, TestResult, guarded};

fn send(signal: Number) -> TestResult {
    Ok(kill_process(getpid(), signal)?)
}

#[tokio::test]
async fn a_first_and_a_second_interrupt_are_told_apart() -> TestResult {
    let signals = Signals::new()?;
    let handle = signals.handle();
    let worker = Running::start(signals);

    send(Number::INT)?;
    let first = guarded(handle.next(Signal::Interrupt, 0)).await?;
    send(Number::INT)?;
    let second = guarded(handle.next(Signal::Interrupt, first)).await?;

    assert!(second > first);
    Ok(worker.clean_kill().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn a_signal_between_new_and_run_is_counted() -> TestResult {
    let signals = Signals::new()?;
    let handle = signals.handle();
    send(Number::HUP)?;

    let worker = Running::start(signals);

    assert!(guarded(handle.next(Signal::Hangup, 0)).await? > 0);
    Ok(worker.clean_kill().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn a_terminate_asks_for_the_end_like_an_interrupt() -> TestResult {
    let signals = Signals::new()?;
    let handle = signals.handle();
    let worker = Running::start(signals);
    let before = handle.counts().ends();

    send(Number::TERM)?;

    guarded(handle.next_end(before)).await?;
    guarded(handle.next(Signal::Terminate, 0)).await?;
    Ok(worker.clean_kill().await.map_err(|exit| exit.to_string())?)
}

#[tokio::test]
async fn a_waiter_learns_that_the_worker_ended() -> TestResult {
    let signals = Signals::new()?;
    let handle = signals.handle();
    let worker = Running::start(signals);

    worker.clean_kill().await.map_err(|exit| exit.to_string())?;

    let never = guarded(handle.next(Signal::Interrupt, u64::MAX)).await;
    assert!(matches!(never, Err(SignalError::Ended)));
    Ok(())
}
