//! Random calls and ends, checked against the model after each.
//!
//! `CRANKCASE_SEED` runs one schedule alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Backoff, Exit, Intensity, Outcome, Policy, Stop, Worker, WorkerState};
use crankcase_testing::{Bare, clean_kill};
use crankcase_workers::{
    ChildContext, ChildSpec, Ending, Restart, Runner, RunnerConfig, RunnerError, RunnerHandle,
};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::model::{
    BOUNCE_DELAY, FAILURES, Fate, GRACE, INITIAL, MAX, Manner, Model, RESET_AFTER, WITHIN,
};
use crate::running::TestResult;
use crate::schedules::every_schedule_passes;

const NAMES: [&str; 3] = ["a", "b", "c"];
const SCHEDULES: u64 = 300;
const STEPS: usize = 60;

/// What the workers of a schedule leave for the test to see.
#[derive(Default)]
struct Board {
    live: BTreeMap<String, usize>,
    controls: BTreeMap<String, oneshot::Sender<Fate>>,
    /// Two workers of one name at once.
    overlap: Option<String>,
}

/// Counts a worker as live, until all of it is gone.
struct Presence(Arc<Mutex<Board>>, String);

impl Presence {
    fn new(board: &Arc<Mutex<Board>>, name: &str) -> Self {
        let mut all = board.lock();
        let live = all.live.entry(name.to_owned()).or_default();
        *live += 1;
        if *live > 1 {
            all.overlap = Some(name.to_owned());
        }
        Self(Arc::clone(board), name.to_owned())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        *self.0.lock().live.entry(self.1.clone()).or_default() -= 1;
    }
}

struct Double {
    presence: Presence,
    manner: Manner,
    control: oneshot::Receiver<Fate>,
}

impl Worker for Double {
    async fn run(self, stop: Stop) -> Outcome {
        let Self { presence, manner, control } = self;
        tokio::select! {
            biased;
            () = stop.wait() => {}
            Ok(fate) = control => return match fate {
                Fate::Well => Ok(()),
                Fate::Failed => Err("it failed".into()),
                Fate::Panicked => panic!("it fell"),
                Fate::Missing => Err(Exit::missing("nothing")),
                Fate::Bounce => Err(Exit::Bounce),
                Fate::Uninstall => Err(Exit::Uninstall),
            },
        }
        match manner {
            Manner::Slow => sleep(Duration::from_secs(2)).await,
            Manner::Deaf => std::future::pending().await,
            Manner::Sour => return Err("it is sour".into()),
            Manner::Lingering => {
                let linger = stop.linger();
                let mut tasks = JoinSet::new();
                tasks.spawn(async move {
                    sleep(Duration::from_secs(1)).await;
                    drop(presence);
                    drop(linger);
                });
                tasks.detach_all();
            }
            Manner::Prompt | Manner::Stillborn => {}
        }
        Ok(())
    }
}

fn spec(board: &Arc<Mutex<Board>>, (restart, manner): (Restart, Manner)) -> ChildSpec {
    let board = Arc::clone(board);
    ChildSpec::new(restart, move |ctx: ChildContext| {
        let board = Arc::clone(&board);
        async move {
            let presence = Presence::new(&board, ctx.name());
            if manner == Manner::Stillborn {
                return Err("it is stillborn".into());
            }
            let (sender, control) = oneshot::channel();
            board.lock().controls.insert(ctx.name().to_owned(), sender);
            Ok(Double { presence, manner, control })
        }
    })
}

fn policy() -> Policy {
    let millis = Duration::from_millis;
    let backoff = Backoff::default().initial(millis(INITIAL)).max(millis(MAX)).jitter(0.0);
    Policy::default()
        .backoff(backoff.reset_after(millis(RESET_AFTER)))
        .bounce_delay(millis(BOUNCE_DELAY))
        .grace(millis(GRACE))
        .abort_grace(millis(2_000))
        .intensity(Intensity::new(FAILURES as u32, millis(WITHIN)))
}

fn of_ending(ending: Ending) -> &'static str {
    match ending {
        Ending::Well => "well",
        Ending::Failed(_) => "failed",
        Ending::Dropped => "dropped",
        _ => "withdrawn",
    }
}

fn of_error(error: &RunnerError) -> &'static str {
    match error {
        RunnerError::Exists { .. } => "exists",
        RunnerError::Unknown { .. } => "unknown",
        RunnerError::Withdrawn { .. } => "withdrawn",
        RunnerError::Left { .. } => "left",
        RunnerError::Stopping { .. } => "stopping",
        _ => "another error",
    }
}

/// One schedule: the runner, the model, and what was asked so far.
struct Schedule {
    random: StdRng,
    workers: RunnerHandle,
    board: Arc<Mutex<Board>>,
    model: Model,
    calls: JoinSet<()>,
    answers: Arc<Mutex<BTreeMap<usize, &'static str>>>,
    asked: usize,
    trace: String,
}

impl Schedule {
    fn new(seed: u64, workers: RunnerHandle) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            workers,
            board: Arc::default(),
            model: Model::default(),
            calls: JoinSet::new(),
            answers: Arc::default(),
            asked: 0,
            trace: String::new(),
        }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.random_range(0..from.len())]
    }

    fn any_spec(&mut self) -> (Restart, Manner) {
        let restart = self.pick(&[Restart::Permanent, Restart::Transient, Restart::Temporary]);
        let manner = self.pick(&[
            Manner::Prompt,
            Manner::Prompt,
            Manner::Slow,
            Manner::Deaf,
            Manner::Lingering,
            Manner::Sour,
            Manner::Stillborn,
        ]);
        (restart, manner)
    }

    /// Makes a call, which answers whenever it does.
    fn ask<F>(&mut self, call: impl FnOnce(RunnerHandle) -> F) -> usize
    where
        F: Future<Output = &'static str> + Send + 'static,
    {
        let (number, answers) = (self.asked, Arc::clone(&self.answers));
        self.asked += 1;
        let answer = call(self.workers.clone());
        self.calls.spawn(async move {
            let answer = answer.await;
            answers.lock().insert(number, answer);
        });
        number
    }

    fn step(&mut self) {
        let name = self.pick(&NAMES);
        let kind = self.random.random_range(0..12);
        let now = self.model.now;
        let said = match kind {
            0..=3 => self.put(name, kind == 3),
            4..=8 => self.call(name, kind),
            _ => self.end(name),
        };
        let _ = writeln!(self.trace, "{now:>7} {name}: {said}");
    }

    fn put(&mut self, name: &'static str, is_replaced: bool) -> String {
        let chosen = self.any_spec();
        let spec = spec(&self.board, chosen);
        let call = self.ask(|workers| async move {
            let put = if is_replaced {
                workers.replace(name, spec).await
            } else {
                workers.start(name, spec).await
            };
            put.map_or_else(|error| of_error(&error), |_| "ok")
        });
        self.model.put(call, name, chosen, is_replaced);
        format!("{} {chosen:?}, call {call}", if is_replaced { "replace" } else { "start" })
    }

    fn call(&mut self, name: &'static str, kind: u32) -> String {
        let error = |error: RunnerError| of_error(&error);
        let call = self.ask(|workers| async move {
            match kind {
                4 | 5 => workers.stop(name).await.map_or_else(error, of_ending),
                6 => workers.wait(name).await.map_or_else(error, of_ending),
                7 => workers.running(name).await.map_or_else(error, |()| "up"),
                _ => workers.bounce(name).await.map_or_else(error, |()| "ok"),
            }
        });
        let what = match kind {
            4 | 5 => {
                self.model.stop(call, name);
                "stop"
            }
            6 => {
                self.model.wait(call, name);
                "wait"
            }
            7 => {
                self.model.running(call, name);
                "running"
            }
            _ => {
                self.model.bounce(call, name);
                "bounce"
            }
        };
        format!("{what}, call {call}")
    }

    fn end(&mut self, name: &'static str) -> String {
        let fate = self.pick(&[
            Fate::Well,
            Fate::Failed,
            Fate::Panicked,
            Fate::Missing,
            Fate::Bounce,
            Fate::Uninstall,
        ]);
        if !self.model.can_end(name) {
            return "nobody to end".to_owned();
        }
        let control = self.board.lock().controls.remove(name);
        let is_told = control.is_some_and(|control| control.send(fate).is_ok());
        assert!(is_told, "a live worker does not listen");
        self.model.on_own_end(name, fate, true);
        format!("ends, {fate:?}")
    }

    /// Lets some time pass, to a moment at which nothing happens.
    async fn pass(&mut self) {
        let began = self.model.now;
        let gap = if self.random.random_bool(0.1) { 30_000 } else { 3_000 };
        let mut to = began + self.random.random_range(5..gap);
        self.model.advance(to);
        while self.model.is_near(to) {
            to += 7;
            self.model.advance(to);
        }
        sleep(Duration::from_millis(to - began)).await;
    }

    async fn check(&self) -> Result<(), String> {
        let report = self.workers.report().await;
        let seen: BTreeMap<_, _> = report
            .workers
            .into_iter()
            .map(|(name, worker)| (name, (worker.state, worker.generation, worker.failures)))
            .collect();
        let expected = self.model.seen();
        if seen != expected {
            return Err(format!("the workers are {seen:?}, and should be {expected:?}"));
        }
        let board = self.board.lock();
        if let Some(name) = &board.overlap {
            return Err(format!("there were two workers of {name:?} at once"));
        }
        for name in NAMES {
            let live = board.live.get(name).copied().unwrap_or_default();
            let is_live = expected
                .get(name)
                .is_some_and(|seen| matches!(seen.0, WorkerState::Running | WorkerState::Stopping));
            if live != usize::from(is_live) {
                return Err(format!("{live} workers of {name:?} live, and it is {is_live}"));
            }
        }
        let answers = self.answers.lock();
        if *answers != self.model.answers {
            return Err(format!(
                "the answers are {answers:?}, and should be {:?}",
                self.model.answers
            ));
        }
        Ok(())
    }
}

/// Runs a schedule; returns the answers that it gave.
async fn run(seed: u64) -> Result<BTreeSet<&'static str>, String> {
    let runner = Runner::new(RunnerConfig::default().policy(policy()).seed(seed));
    let runner = runner.map_err(|error| error.to_string())?;
    let mut schedule = Schedule::new(seed, runner.handle());
    let running = Bare::run(runner);
    let fail = |schedule: &Schedule, text: String| format!("{text}, after\n{}", schedule.trace);
    for _ in 0..STEPS {
        schedule.step();
        schedule.pass().await;
        schedule.check().await.map_err(|text| fail(&schedule, text))?;
    }
    if schedule.random.random_bool(0.5) {
        schedule.model.stop_all();
        let killed = tokio::join!(clean_kill(running), async {
            schedule.model.advance(schedule.model.now + 6_000);
            sleep(Duration::from_secs(6)).await;
            schedule.check().await
        });
        killed.0.map_err(|failure| fail(&schedule, failure.to_string()))?;
        killed.1.map_err(|text| fail(&schedule, text))?;
    } else {
        drop(running);
        sleep(Duration::from_secs(6)).await;
    }
    let (answered, asked) = (schedule.answers.lock().len(), schedule.asked);
    if answered != asked {
        return Err(fail(&schedule, format!("{answered} of {asked} calls were answered")));
    }
    if schedule.board.lock().live.values().any(|live| *live > 0) {
        return Err(fail(&schedule, "a worker outlived the runner".to_owned()));
    }
    let answers = schedule.answers.lock().values().copied().collect();
    Ok(answers)
}

#[tokio::test(start_paused = true)]
async fn it_does_what_the_model_does_under_random_schedules() -> TestResult {
    let all = ["dropped", "exists", "failed", "left", "ok", "unknown", "up", "well", "withdrawn"];
    every_schedule_passes(SCHEDULES, run, &all).await
}
