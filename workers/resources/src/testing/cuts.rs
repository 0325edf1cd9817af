//! What a resource leaves if it is cut off.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crankcase_engine::Stopper;

use crate::context::Context;
use crate::found::Found;
use crate::kind::Unit;
use crate::testing::conformance::{Trial, run};
use crate::testing::runs::{Steps, apply_all};

/// How many awaits are tried.
const MOST: usize = 100;

/// How work is cut off.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// It is dropped.
    Drop,
    /// It is told to stop.
    Stop,
}

pub(super) fn check(trial: &mut Trial<'_>, steps: &Steps) -> io::Result<()> {
    for cut in [Cut::Drop, Cut::Stop] {
        for after in 1..MOST {
            if cut_off(trial, steps, (cut, after))? {
                break;
            }
        }
    }
    Ok(())
}

/// Cuts a resource off after it was polled this often; returns whether it was at its end before.
fn cut_off(trial: &mut Trial<'_>, steps: &Steps, (cut, after): (Cut, usize)) -> io::Result<bool> {
    let what = match cut {
        Cut::Drop => format!("dropped at await {after}"),
        Cut::Stop => format!("told to stop at await {after}"),
    };
    trial.begin()?;
    let ended = trial.unit().and_then(|(unit, context, stopper)| {
        run(poll(converge(&unit, &context), stopper, (cut, after)))
    });
    let Some(has_ended) = trial.take(&what, ended) else { return Ok(true) };
    let left = trial.world.look()?;
    trial.require(trial.sample.is_process || steps.contains(&left), || {
        let before = super::conformance::paths(&steps[0], &left);
        format!("{what}, it leaves neither what was nor what is to be: {before}")
    });
    let account = apply_all(trial.kinds, &[trial.declaration()]);
    if let Some(account) = trial.take(&what, account) {
        let is_good = account.failures() == 0 && account.halted() == 0;
        trial.require(is_good, || format!("{what}, it cannot be applied any more: {account}"));
        let mended = trial.world.look()?;
        trial.require(steps.last() == Some(&mended), || {
            format!("{what}, apply does not bring it to its end")
        });
    }
    Ok(has_ended)
}

/// Opens a resource, looks, does what is to be done, looks again, and closes it.
async fn converge(unit: &Arc<dyn Unit>, context: &Context) {
    if unit.open(context).await.is_ok()
        && let Ok(Found::Stale(amiss)) = unit.check(context).await
    {
        for action in amiss.shutdown.iter().chain(&amiss.actions) {
            if unit.act(action, context).await.is_err() {
                break;
            }
        }
        // What it finds is looked at by the apply that follows.
        drop(unit.check(context).await);
    }
    unit.close(context).await;
}

/// Polls work, cuts it off, and returns whether it was at its end before.
async fn poll(
    work: impl Future<Output = ()>,
    stopper: Stopper,
    (cut, after): (Cut, usize),
) -> bool {
    let mut work = pin!(work);
    let mut left = after;
    poll_fn(|context| {
        if work.as_mut().poll(context).is_ready() {
            return Poll::Ready(left > 0);
        }
        left = left.saturating_sub(1);
        match cut {
            Cut::Drop if left == 0 => Poll::Ready(false),
            Cut::Stop if left == 0 => {
                stopper.stop();
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    })
    .await
}
