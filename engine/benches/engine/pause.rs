//! For how long the engine's loop is held by its longest work.
//!
//! The loop runs on a thread of its own, the workers on another; a third asks it small questions
//! one after another, and the slowest answer is the longest pause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crankcase_engine::{Change, Engine, Manifold, Outcome, Stop, Worker};
use tokio::runtime::{Handle, Runtime};
use tokio::time::Instant;

use crate::bounce::layered;
use crate::nested::nested;
use crate::rounds::median;
use crate::runtime::in_task;
use crate::table::Table;
use crate::worker::{Count, idle, names};

const LONGEST: Duration = Duration::from_millis(5);

pub(crate) fn measure(table: &Table) {
    let name = "longest pause while a group of 100000 is installed and started";
    if table.wants(name) {
        show(table, name, || with_engine(|engine| group(engine, 100_000)));
    }
    let name = "longest pause while a linked group of 50000 is installed and started";
    if table.wants(name) {
        show(table, name, || with_engine(linked));
    }
    let name = "longest pause while 500 nested engines of 20 start";
    if table.wants(name) {
        show(table, name, || with_engine(tenants));
    }
    let name = "longest pause while 100000 are stopped";
    if table.wants(name) {
        show(table, name, || with_engine(stop_all));
    }
    let name = "longest pause while 10000 report, 1 in 100 never";
    if table.wants(name) {
        let mut took = Duration::ZERO;
        show(table, name, || with_engine(|engine| report(engine, &mut took)));
        let figure = format!("{took:.0?}");
        let holds = took < Duration::from_millis(1_100);
        table.figure(
            "report of 10000, 1 in 100 never answers",
            &figure,
            "its deadline, 1 s",
            holds,
        );
    }
}

fn show(table: &Table, name: &str, mut measure: impl FnMut() -> Duration) {
    let pause = median((0..5).map(|_| measure().as_secs_f64()));
    let figure = crate::rounds::time(pause);
    table.figure(name, &figure, "5 ms", pause <= LONGEST.as_secs_f64());
}

/// Runs with an engine whose loop has a thread of its own.
fn with_engine<T>(run: impl FnOnce(&Engine) -> T) -> T {
    let workers: Runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let handle: Handle = workers.handle().clone();
    let driver = std::thread::spawn(move || {
        in_task(async move {
            let engine = Engine::builder().workers_on(handle).build().unwrap();
            sender.send(engine.clone()).unwrap();
            engine.wait().await.unwrap();
        });
    });
    let engine = receiver.recv().unwrap();
    let result = run(&engine);
    engine.kill();
    driver.join().unwrap();
    result
}

/// Asks small questions while something runs, and returns the slowest answer.
fn probe(engine: &Engine, run: impl Future<Output = ()> + Send + 'static) -> Duration {
    let (engine, is_over) = (engine.clone(), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&is_over);
    let asking = std::thread::spawn(move || {
        in_task(async move {
            let mut slowest = Duration::ZERO;
            while !over.load(Ordering::Acquire) {
                let began = Instant::now();
                // Whatever the answer, it was given.
                drop(engine.ping().await);
                slowest = slowest.max(began.elapsed());
                // Leave the processor to the others, most of the time.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            slowest
        })
    });
    in_task(run);
    is_over.store(true, Ordering::Release);
    asking.join().unwrap()
}

fn group(engine: &Engine, count: usize) -> Duration {
    let started = Count::new(count);
    let change =
        names(count).into_iter().fold(Change::new(), |all, name| all.install(name, idle(&started)));
    applied(engine, change, started)
}

/// Layers of a hundred workers, each with three inputs from the layer before.
fn linked(engine: &Engine) -> Duration {
    let started = Count::new(50_000);
    applied(engine, layered(&names(50_000), 100, &started), started)
}

fn tenants(engine: &Engine) -> Duration {
    let started = Count::new(500 * 20);
    applied(engine, nested(&names(500), &names(20), &started), started)
}

/// Returns the longest pause until a change stands and as many workers as counted run.
fn applied(engine: &Engine, change: Change, started: Count) -> Duration {
    let probed = engine.clone();
    probe(engine, async move {
        probed.apply(change).await.unwrap();
        started.reached().await;
    })
}

fn stop_all(engine: &Engine) -> Duration {
    group(engine, 100_000);
    let probed = engine.clone();
    probe(engine, async move { probed.stop().await.unwrap() })
}

struct Reporting {
    answers: bool,
    started: Count,
}

impl Worker for Reporting {
    async fn run(self, stop: Stop) -> Outcome {
        self.started.add();
        stop.wait().await;
        Ok(())
    }
}

fn reporting(answers: bool, started: &Count) -> Manifold {
    Manifold::builder()
        .start_with(started.clone(), move |started, (), _ctx| async move {
            Ok(Reporting { answers, started })
        })
        .output(|worker| worker.started.get())
        .report(|worker| {
            let answers = worker.answers;
            move || async move {
                if !answers {
                    std::future::pending::<()>().await;
                }
                serde_json::json!({ "answers": answers })
            }
        })
        .build()
}

fn report(engine: &Engine, took: &mut Duration) -> Duration {
    let started = Count::new(10_000);
    let change = names(10_000).into_iter().enumerate().fold(Change::new(), |all, (index, name)| {
        all.install(name, reporting(index % 100 != 0, &started))
    });
    let filled = engine.clone();
    in_task(async move {
        filled.apply(change).await.unwrap();
        started.reached().await;
        filled.settled().await.unwrap();
    });
    let (probed, (sender, receiver)) = (engine.clone(), mpsc::channel());
    let pause = probe(engine, async move {
        let began = Instant::now();
        let report = probed.report().await;
        sender.send(began.elapsed()).unwrap();
        let silent = report.workers.values().filter(|worker| worker.reporter.is_some()).count();
        assert_eq!(silent, 100, "each silent reporter is named");
    });
    *took = receiver.recv().unwrap();
    pause
}
