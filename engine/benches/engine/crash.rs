//! A worker that fails for ever.

use std::sync::Arc;

use crankcase_engine::{Backoff, Engine, Manifold, Name, Policy};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::resident::resident;
use crate::rounds::time;
use crate::runtime::in_task;
use crate::table::Table;

const RESTARTS: usize = 1_000_000;

/// When the loop was at each tenth, and the memory then.
type Marks = Arc<Mutex<Vec<(Instant, f64)>>>;

pub(crate) fn measure(table: &Table) {
    let name = "crash loop of 1000000";
    if !table.wants(name) {
        return;
    }
    let marks: Marks = Arc::default();
    in_task(crash(Arc::clone(&marks)));
    let marks = marks.lock();
    let tenth = |at: usize| (marks[at + 1].0 - marks[at].0).as_secs_f64();
    let (first, last) = (tenth(0), tenth(9));
    let each = time((marks[10].0 - marks[0].0).as_secs_f64() / RESTARTS as f64);
    let figure = format!("{each} each, last tenth {:.2} of the first", last / first);
    table.figure(name, &figure, "1.1", last / first <= 1.1);
    let growth = (marks[10].1 - marks[1].1) / 1024.0;
    let figure = format!("{growth:.0} KiB over the last nine tenths");
    table.figure("memory of the crash loop of 1000000", &figure, "flat", growth < 512.0);
}

async fn crash(marks: Marks) {
    let done = Arc::new(Notify::new());
    let engine =
        Engine::builder().policy(Policy::default().backoff(Backoff::none())).build().unwrap();
    let _events = engine.events();
    engine.install(Name::<()>::new("crash"), crashing(&marks, &done)).await.unwrap();
    done.notified().await;
    engine.stop().await.unwrap();
}

fn crashing(marks: &Marks, done: &Arc<Notify>) -> Manifold {
    let config = (Arc::clone(marks), Arc::clone(done), Arc::new(Mutex::new(0_usize)));
    Manifold::builder().run_with(config, |(marks, done, count), (), up| async move {
        let stop = up.ready(());
        let now = {
            let mut count = count.lock();
            *count += 1;
            *count - 1
        };
        if now.is_multiple_of(RESTARTS / 10) {
            marks.lock().push((Instant::now(), resident()));
        }
        if now == RESTARTS {
            done.notify_one();
            stop.wait().await;
            return Ok(());
        }
        Err("it crashes".into())
    })
}
