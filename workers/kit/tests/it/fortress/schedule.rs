//! Random visits and lockdowns, checked against a plain model after each.
//!
//! `CRANKCASE_SEED` runs one schedule alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crankcase_testing::Bare;
use crankcase_workers::{Fortress, FortressError, Visit};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use crate::running::TestResult;
use crate::schedules::every_schedule_passes;

const SCHEDULES: u64 = 500;
const STEPS: u64 = 60;

/// What a fortress is to do.
#[derive(Debug, Default)]
struct Model {
    is_open: bool,
    has_ended: bool,
    guests: BTreeSet<u64>,
    visiting: BTreeSet<u64>,
    locking: BTreeSet<u64>,
    answers: BTreeMap<u64, &'static str>,
}

impl Model {
    fn visit(&mut self, call: u64) {
        if self.has_ended {
            self.answers.insert(call, "ended");
        } else if self.is_open {
            self.enter(call);
        } else {
            self.visiting.insert(call);
        }
    }

    fn enter(&mut self, call: u64) {
        self.guests.insert(call);
        self.answers.insert(call, "in");
    }

    fn leave(&mut self, call: u64) {
        self.guests.remove(&call);
        if self.guests.is_empty() {
            self.answer_locking("alone");
        }
    }

    fn lockdown(&mut self, call: u64) {
        self.is_open = false;
        self.locking.insert(call);
        if self.has_ended {
            self.answer_locking("ended");
        } else if self.guests.is_empty() {
            self.answer_locking("alone");
        }
    }

    fn unlock(&mut self) {
        if self.has_ended {
            return;
        }
        self.is_open = true;
        self.answer_locking("unlocked");
        std::mem::take(&mut self.visiting).into_iter().for_each(|call| self.enter(call));
    }

    fn end(&mut self) {
        self.has_ended = true;
        self.is_open = false;
        self.answer_locking("ended");
        let visiting = std::mem::take(&mut self.visiting);
        self.answers.extend(visiting.into_iter().map(|call| (call, "ended")));
    }

    fn answer_locking(&mut self, answer: &'static str) {
        let locking = std::mem::take(&mut self.locking);
        self.answers.extend(locking.into_iter().map(|call| (call, answer)));
    }
}

/// What the calls of a schedule leave for the test to see.
#[derive(Default)]
struct Board {
    visits: BTreeMap<u64, Visit>,
    answers: BTreeMap<u64, &'static str>,
}

fn of_error(error: FortressError) -> &'static str {
    match error {
        FortressError::Ended => "ended",
        FortressError::Unlocked => "unlocked",
        _ => "another error",
    }
}

struct Schedule {
    random: StdRng,
    fortress: Fortress,
    running: Option<Bare>,
    model: Model,
    board: Arc<Mutex<Board>>,
    calls: JoinSet<()>,
    tasks: BTreeMap<u64, AbortHandle>,
    trace: Vec<String>,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let fortress = Fortress::new();
        Self {
            random: StdRng::seed_from_u64(seed),
            running: Some(Bare::run(fortress.clone())),
            fortress,
            model: Model::default(),
            board: Arc::default(),
            calls: JoinSet::new(),
            tasks: BTreeMap::new(),
            trace: Vec::new(),
        }
    }

    fn pick(&mut self, from: &BTreeSet<u64>) -> Option<u64> {
        let index = self.random.random_range(0..from.len().max(1));
        from.iter().nth(index).copied()
    }

    fn step(&mut self, call: u64) {
        let said = match self.random.random_range(0..100) {
            0..35 => self.visit(call),
            35..55 => {
                let guests = self.model.guests.clone();
                let Some(guest) = self.pick(&guests) else { return };
                self.model.leave(guest);
                // Not under the board's lock: leaving wakes others.
                let visit = self.board.lock().visits.remove(&guest);
                drop(visit);
                format!("{guest} leaves")
            }
            55..70 => self.lockdown(call),
            70..85 => {
                self.fortress.guard().unlock();
                self.model.unlock();
                "unlock".to_owned()
            }
            85..98 => {
                let waiting = self.model.visiting.union(&self.model.locking).copied().collect();
                let Some(waiting) = self.pick(&waiting) else { return };
                self.model.visiting.remove(&waiting);
                self.model.locking.remove(&waiting);
                self.tasks.get(&waiting).into_iter().for_each(AbortHandle::abort);
                format!("{waiting} gives up")
            }
            _ => {
                self.running = None;
                self.model.end();
                "end".to_owned()
            }
        };
        self.trace.push(said);
    }

    fn visit(&mut self, call: u64) -> String {
        let (guest, board) = (self.fortress.guest(), Arc::clone(&self.board));
        let task = self.calls.spawn(async move {
            let visit = guest.visit().await;
            let mut board = board.lock();
            match visit {
                Ok(visit) => {
                    board.visits.insert(call, visit);
                    board.answers.insert(call, "in");
                }
                Err(error) => {
                    board.answers.insert(call, of_error(error));
                }
            }
        });
        self.tasks.insert(call, task);
        self.model.visit(call);
        format!("{call} visits")
    }

    fn lockdown(&mut self, call: u64) -> String {
        let (guard, board) = (self.fortress.guard(), Arc::clone(&self.board));
        let task = self.calls.spawn(async move {
            let answer = guard.lockdown().await.map_or_else(of_error, |()| "alone");
            board.lock().answers.insert(call, answer);
        });
        self.tasks.insert(call, task);
        self.model.lockdown(call);
        format!("{call} locks down")
    }

    fn check(&self) -> Result<(), String> {
        let board = self.board.lock();
        let (guests, shown) = (self.fortress.guests(), self.fortress.state().borrow().is_open);
        let inside: BTreeSet<_> = board.visits.keys().copied().collect();
        let is_right = inside == self.model.guests
            && guests == inside.len()
            && shown == self.model.is_open
            && board.answers == self.model.answers;
        if is_right {
            return Ok(());
        }
        Err(format!(
            "{guests} guests {inside:?}, open {shown}, answers {:?}; expected {:?}; after\n{}",
            board.answers,
            self.model,
            self.trace.join("\n"),
        ))
    }
}

async fn run(seed: u64) -> Result<BTreeSet<&'static str>, String> {
    let mut schedule = Schedule::new(seed);
    // The worker begins first.
    sleep(Duration::from_millis(1)).await;
    for call in 0..STEPS {
        schedule.step(call);
        // The clock goes on when nothing else can.
        sleep(Duration::from_millis(1)).await;
        schedule.check()?;
    }
    Ok(schedule.board.lock().answers.values().copied().collect())
}

#[tokio::test(start_paused = true)]
async fn it_does_what_the_model_does_under_random_schedules() -> TestResult {
    let all = ["alone", "ended", "in", "unlocked"];
    every_schedule_passes(SCHEDULES, run, &all).await
}
