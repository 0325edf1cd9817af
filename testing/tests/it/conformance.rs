//! The conformance suite: workers that are right pass, and each kind of wrong one is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crankcase_engine::manifold::Up;
use crankcase_engine::owner::Linger;
use crankcase_engine::{Exit, Manifold, Outcome, Stop, Worker};
use crankcase_testing::{Conformance, Failure, Stubs};
use tokio::task::yield_now;

use crate::{A, TestResult};

/// A worker that does as its function says.
struct Does<F>(F);

impl<F, R> Worker for Does<F>
where
    F: FnOnce(Stop) -> R + Send + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    async fn run(self, stop: Stop) -> Outcome {
        (self.0)(stop).await
    }
}

async fn idle(stop: Stop) -> Outcome {
    stop.wait().await;
    Ok(())
}

fn expect(checked: Result<(), Failure>, text: &str) -> TestResult {
    assert_eq!(checked.err().ok_or("it passed")?.to_string(), text);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_waits_for_its_stop_passes() -> TestResult {
    Ok(Conformance::new(|_| async { Ok(Does(idle)) }).check().await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_with_awaits_passes() -> TestResult {
    let start = |_| async {
        yield_now().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(Does(idle))
    };
    Ok(Conformance::new(start).check().await?)
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_by_itself_is_told() -> TestResult {
    let checks = Conformance::new(|_| async { Ok(Does(|_| async { Ok(()) })) });

    expect(
        checks.check().await,
        "expected: it starts and runs until it is told to stop\nhappened: it ended by itself: done",
    )?;
    Ok(checks.ends_by_itself().check().await?)
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_or_hangs_is_told() -> TestResult {
    let start = |_| async { if true { Err(Exit::from("no")) } else { Ok(Does(idle)) } };
    let fails = Conformance::new(start);
    let claim = "expected: it starts and runs until it is told to stop\nhappened: ";
    expect(fails.check().await, &format!("{claim}its start ended: no"))?;

    let hangs = Conformance::new(|_| async {
        std::future::pending::<()>().await;
        Ok(Does(idle))
    });
    expect(hangs.check().await, &format!("{claim}its start took longer than 10s"))
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ignores_its_stop_is_told() -> TestResult {
    let deaf = Conformance::new(|_| async { Ok(Does(|_| std::future::pending())) });

    expect(
        deaf.grace(Duration::from_secs(3)).check().await,
        "expected: it starts and runs until it is told to stop\n\
         happened: it has not ended within 3s",
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_fails_when_it_is_told_to_stop_is_told() -> TestResult {
    let fails = |stop: Stop| async move {
        stop.wait().await;
        Err("it cannot write".into())
    };

    expect(
        Conformance::new(|_| async { Ok(Does(fails)) }).check().await,
        "expected: it starts and runs until it is told to stop\n\
         happened: told to stop, it ended: it cannot write",
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_needs_to_run_before_its_stop_is_told() -> TestResult {
    let misses = |stop: Stop| async move {
        if stop.is_stopped() {
            return Err("it had no chance".into());
        }
        idle(stop).await
    };

    expect(
        Conformance::new(|_| async { Ok(Does(misses)) }).check().await,
        "expected: told before it is run, it ends\nhappened: told to stop, it ended: it had no chance",
    )
}

/// Counts those of a thing that are there.
#[derive(Clone, Default)]
struct Things(Arc<AtomicUsize>);

/// One thing, which is there until it is dropped.
struct Thing(Arc<AtomicUsize>);

impl Things {
    fn take(&self) -> Result<Thing, Exit> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(Thing(Arc::clone(&self.0))),
            _ => Err("it is taken".into()),
        }
    }

    fn left(&self) -> Result<(), String> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            left => Err(format!("{left} were left")),
        }
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_gives_back_what_it_took_passes() -> TestResult {
    let things = Things::default();
    let start = |_| async {
        let thing = things.take()?;
        yield_now().await;
        Ok(Does(|stop: Stop| async move {
            let _thing = thing;
            idle(stop).await
        }))
    };
    let left = things.clone();
    let checks = Conformance::new(start).released(move || std::future::ready(left.left()));
    Ok(checks.check().await?)
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_dropped_worker_is_told() -> TestResult {
    let things = Things::default();
    // It gives back what it took only when it comes to its end.
    let start = |_| async {
        let things = things.clone();
        Ok(Does(|stop: Stop| async move {
            let thing = things.take()?;
            std::mem::forget(thing);
            stop.wait().await;
            things.0.store(0, Ordering::Relaxed);
            Ok(())
        }))
    };
    let left = things.clone();
    let checks = Conformance::new(start).released(move || std::future::ready(left.left()));

    expect(
        checks.check().await,
        "expected: it can be dropped while it runs\nhappened: afterwards 1 were left",
    )
}

#[tokio::test(start_paused = true)]
async fn a_start_that_leaves_something_when_it_is_dropped_is_told() -> TestResult {
    let things = Things::default();
    let start = |_| async {
        let thing = things.take()?;
        std::mem::forget(thing);
        yield_now().await;
        things.0.store(0, Ordering::Relaxed);
        Ok(Does(idle))
    };

    expect(
        Conformance::new(start).check().await,
        "expected: its start can be dropped at every await\n\
         happened: after 1 were dropped: it is taken",
    )
}

#[tokio::test(start_paused = true)]
async fn a_report_that_never_comes_is_told() -> TestResult {
    let silent = Conformance::new(|_| async { Ok(Does(idle)) });
    let silent = silent.report(|_| || std::future::pending::<()>());

    expect(
        silent.check().await,
        "expected: it reports while it runs\nhappened: it did not report within 1s",
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_bear_the_loss_of_an_input_is_told() -> TestResult {
    let sulks = |stop: Stop| async move {
        stop.input_lost().await;
        if stop.is_input_lost() {
            std::future::pending::<()>().await;
        }
        Ok(())
    };

    expect(
        Conformance::new(|_| async { Ok(Does(sulks)) }).check().await,
        "expected: it ends when it has lost an input and is told to stop\n\
         happened: it has not ended within 10s",
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_bear_the_loss_of_an_input_while_it_stops_is_told() -> TestResult {
    let sulks = |stop: Stop| async move {
        stop.wait().await;
        let was_lost = stop.is_input_lost();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if stop.is_input_lost() && !was_lost {
            std::future::pending::<()>().await;
        }
        Ok(())
    };

    expect(
        Conformance::new(|_| async { Ok(Does(sulks)) }).check().await,
        "expected: it ends when it loses an input while it stops\n\
         happened: it has not ended within 10s",
    )
}

#[tokio::test(start_paused = true)]
async fn a_panic_at_the_loss_of_an_input_is_told() -> TestResult {
    let panics = |stop: Stop| async move {
        stop.input_lost().await;
        assert!(!stop.is_input_lost(), "it is closed");
        Ok(())
    };

    expect(
        Conformance::new(|_| async { Ok(Does(panics)) }).check().await,
        "expected: it ends when it has lost an input and is told to stop\n\
         happened: without an input, it panicked: it is closed",
    )
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_leaves_that_is_dropped_while_it_stops_is_told() -> TestResult {
    let left = Arc::new(AtomicUsize::new(0));
    let start = |_| {
        let left = Arc::clone(&left);
        async move {
            Ok(Does(|stop: Stop| async move {
                idle(stop).await?;
                // What a guard would take care of, if it was not taken out for the sake of its end.
                left.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                left.fetch_sub(1, Ordering::Relaxed);
                Ok(())
            }))
        }
    };
    let remains = Arc::clone(&left);
    let released = move || match remains.swap(0, Ordering::Relaxed) {
        0 => std::future::ready(Ok(())),
        left => std::future::ready(Err(format!("{left} were left"))),
    };

    expect(
        Conformance::new(start).released(released).check().await,
        "expected: it can be dropped while it stops\nhappened: afterwards 1 were left",
    )
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_by_itself_after_a_while_is_told() -> TestResult {
    let done = Conformance::new(|_| async {
        Ok(Does(|_| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(())
        }))
    });
    let silent = Conformance::new(|_| async {
        Ok(Does(|_| async {
            tokio::time::sleep(Duration::from_secs(59)).await;
            Err("no beat".into())
        }))
    });

    let claim = "expected: it starts and runs until it is told to stop\nhappened: ";
    expect(done.check().await, &format!("{claim}it ended by itself: done"))?;
    expect(silent.check().await, &format!("{claim}it ended by itself: no beat"))?;
    Ok(done.runs_for(Duration::ZERO).ends_by_itself().check().await?)
}

#[tokio::test]
async fn what_lingers_of_a_worker_is_waited_for() -> TestResult {
    let things = Things::default();
    // Its thing is given back by work that outlives it for a while, as an engine bears.
    let start = |stop: Stop| {
        let taken = things.take();
        async move {
            let (thing, linger) = (taken?, stop.linger());
            yield_now().await;
            Ok(Does(|stop: Stop| async move {
                let _later = Later(Some((thing, linger)));
                idle(stop).await
            }))
        }
    };
    let left = things.clone();
    let checks = Conformance::new(start).runs_for(Duration::ZERO);
    Ok(checks.released(move || std::future::ready(left.left())).check().await?)
}

/// Gives back what it holds a while after it was dropped.
struct Later(Option<(Thing, Linger)>);

impl Drop for Later {
    fn drop(&mut self) {
        let held = self.0.take();
        std::thread::spawn(move || drop(held));
    }
}

#[tokio::test(start_paused = true)]
async fn panics_are_told_with_what_was_claimed() -> TestResult {
    let falls = Conformance::new(|_| async {
        let fall = true;
        assert!(!fall, "no memory");
        Ok(Does(idle))
    });
    let silent = Conformance::new(|_| async { Ok(Does(idle)) });
    let silent = silent.report(|_| || async { panic!("no words") });
    let early = |stop: Stop| async move {
        assert!(!stop.is_stopped(), "too early");
        idle(stop).await
    };
    let early = Conformance::new(|_| async { Ok(Does(early)) });

    let text = "expected: it starts and runs until it is told to stop\nhappened: its start ended: \
                panicked: no memory";
    expect(falls.check().await, text)?;
    let text = "expected: it reports while it runs\nhappened: its reporter panicked: no words";
    expect(silent.check().await, text)?;
    let text = "expected: told before it is run, it ends\nhappened: told to stop, it ended: \
                panicked: too early";
    expect(early.check().await, text)
}

#[tokio::test(start_paused = true)]
async fn what_is_left_after_one_of_several_drops_is_told() -> TestResult {
    let (drops, left) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Only the second one that is dropped amid its run leaves something, which the next takes away.
    let start = |_| {
        let (drops, left) = (Arc::clone(&drops), Arc::clone(&left));
        left.store(0, Ordering::Relaxed);
        async move {
            Ok(Does(|stop: Stop| async move {
                let leaves = Leaves(drops, left);
                idle(stop).await?;
                std::mem::forget(leaves);
                Ok(())
            }))
        }
    };
    let remains = Arc::clone(&left);
    let released = move || match remains.load(Ordering::Relaxed) {
        0 => std::future::ready(Ok(())),
        left => std::future::ready(Err(format!("{left} were left"))),
    };

    expect(
        Conformance::new(start).released(released).check().await,
        "expected: it can be dropped while it runs\nhappened: afterwards 1 were left",
    )
}

/// Leaves something at its second drop.
struct Leaves(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Drop for Leaves {
    fn drop(&mut self) {
        if self.0.fetch_add(1, Ordering::Relaxed) == 1 {
            self.1.store(1, Ordering::Relaxed);
        }
    }
}

/// Returns the checks of a closure that does as the function says, once it has its input.
fn closure<F, R>(does: F) -> impl Future<Output = Result<(), Failure>>
where
    F: Fn(Up<(u32,)>, u32) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    let builder = Manifold::builder().inputs(A).offers::<(u32,)>();
    let manifold = builder.run(move |a, up| does(up, a));
    async move { Conformance::of(manifold, || Stubs::new().value(A, 7)).check().await }
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_waits_for_its_stop_passes() -> TestResult {
    let checked = closure(|up, a| async move {
        yield_now().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        up.ready((a,)).wait().await;
        Ok(())
    });
    Ok(checked.await?)
}

#[tokio::test(start_paused = true)]
async fn closures_that_are_wrong_are_told() -> TestResult {
    let claim = "expected: it starts and runs until it is told to stop\nhappened: ";
    let brief = closure(|up, a| async move {
        let _stop = up.ready((a,));
        tokio::time::sleep(Duration::from_secs(59)).await;
        Err("no beat".into())
    });
    expect(brief.await, &format!("{claim}it ended by itself: no beat"))?;
    let deaf = closure(|up, a| async move {
        let _stop = up.ready((a,));
        std::future::pending().await
    });
    let late = "it has not ended within 10s";
    expect(deaf.await, &format!("{claim}{late}"))?;
    let broken = closure(|up, a| async move {
        up.ready((a,)).wait().await;
        Err("it cannot write".into())
    });
    expect(broken.await, &format!("{claim}told to stop, it ended: it cannot write"))
}

#[tokio::test(start_paused = true)]
async fn what_a_dropped_closure_leaves_is_told() -> TestResult {
    let things = Things::default();
    let taken = things.clone();
    // It gives back what it took only when it comes to its end.
    let manifold = Manifold::builder().run(move |(), up| {
        let things = taken.clone();
        async move {
            let thing = things.take()?;
            std::mem::forget(thing);
            up.ready(()).wait().await;
            things.0.store(0, Ordering::Relaxed);
            Ok(())
        }
    });
    let released = move || std::future::ready(things.left());

    expect(
        Conformance::of(manifold, Stubs::new).released(released).check().await,
        "expected: it can be dropped before it is run\nhappened: afterwards 1 were left",
    )
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_gives_back_what_it_took_passes() -> TestResult {
    let things = Things::default();
    let taken = things.clone();
    let manifold = Manifold::builder().run(move |(), up| {
        let thing = taken.take();
        async move {
            let _thing = thing?;
            yield_now().await;
            up.ready(()).wait().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(())
        }
    });
    let released = move || std::future::ready(things.left());

    Ok(Conformance::of(manifold, Stubs::new).released(released).check().await?)
}
