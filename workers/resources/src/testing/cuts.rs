//! What a resource leaves if it is cut off.

use std::future::{Future, poll_fn};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crankcase_engine::Stopper;

use crate::kind::context::Context;
use crate::kind::contract::Unit;
use crate::report::found::Found;
use crate::testing::conformance::{Trial, listed, paths, run};
use crate::testing::runs::{Steps, apply_all};
use crate::testing::world::Snapshot;

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
    let longest = steps.iter().map(Snapshot::longest).max().unwrap_or_default();
    let mut limits = vec![0, 1, longest / 2, longest.saturating_sub(1)];
    limits.sort_unstable();
    limits.dedup();
    for limit in limits.into_iter().filter(|limit| *limit < longest) {
        for at in 0..steps.len() - 1 {
            cut_writes(trial, steps, (at, limit))?;
        }
    }
    Ok(())
}

/// Does the actions up to one of them. That action is killed when it has written `limit` bytes to a
/// file.
fn cut_writes(trial: &mut Trial<'_>, steps: &Steps, (at, limit): (usize, usize)) -> io::Result<()> {
    let Some(set) = &trial.sample.write_limit else { return Ok(()) };
    let what = format!("killed in action {} when it has written {limit} bytes", at + 1);
    trial.begin()?;
    let ended = trial.unit().and_then(|(unit, context, _stopper)| {
        run(async {
            let Ok(Found::Stale(amiss)) = unit.check(&context).await else { return };
            for (number, action) in amiss.shutdown.iter().chain(&amiss.actions).enumerate() {
                set((number == at).then_some(limit as u64));
                let acted = unit.act(action, &context).await;
                set(None);
                if acted.is_err() || number == at {
                    break;
                }
            }
        })
    });
    if trial.take(&what, ended).is_none() {
        return Ok(());
    }
    let left = trial.world.look()?;
    let strange = listed(left.strange(steps).into_iter().map(Path::display));
    trial.require(strange.is_empty(), || {
        format!("{what}, it leaves files that are neither old nor new: {strange}")
    });
    is_brought_to_its_end(trial, steps, &what)
}

/// Checks that the next apply finishes what a cut has left.
fn is_brought_to_its_end(trial: &mut Trial<'_>, steps: &Steps, what: &str) -> io::Result<()> {
    let account = apply_all(trial.kinds, &[trial.declaration()]);
    let Some(account) = trial.take(what, account) else { return Ok(()) };
    let is_good = account.failures() == 0 && account.halted() == 0;
    trial.require(is_good, || format!("{what}, it cannot be applied any more: {account}"));
    let mended = trial.world.look()?;
    let other = steps.last().map(|last| paths(last, &mended)).unwrap_or_default();
    trial.require(other.is_empty(), || {
        format!("{what}, the next apply does not finish it: {other}")
    });
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
        let before = paths(&steps[0], &left);
        format!("{what}, it leaves neither what was nor what is to be: {before}")
    });
    is_brought_to_its_end(trial, steps, &what)?;
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
