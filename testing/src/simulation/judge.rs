//! Judges what the engines do by their promises, from their events alone: a naive record that knows
//! nothing of how an engine works.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{
    EndKind, Event, EventKind, Report, WorkerReport, WorkerState, WrappedInput,
};

/// What went against a promise; it begins with the promise's number.
pub(super) type Judged = Result<(), String>;

macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

/// How a worker depends on an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Need {
    gates: bool,
    bounces: bool,
    is_present: bool,
    output: &'static str,
}

impl Need {
    pub(super) fn of(input: &WrappedInput<'_>) -> Self {
        Self {
            gates: matches!(input.need, "required" | "live required"),
            bounces: matches!(input.need, "required" | "optional"),
            is_present: input.is_present,
            output: input.output,
        }
    }
}

/// What was seen in the workers' tasks.
pub(super) enum Seen {
    /// A worker's start is about to be called.
    Begun { path: Arc<str>, generation: u32, inputs: Vec<(String, Need)> },
    /// It is while another worker of the same path lives.
    Twice { path: Arc<str>, other: u32, generation: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    Starting,
    Running,
}

/// A time for which a worker was up, by the numbers of events.
#[derive(Debug, Clone, Copy)]
struct Up {
    generation: u32,
    since: u64,
    /// When it was told to stop, or has ended.
    until: Option<u64>,
    was_told: bool,
}

/// An output that a live worker was started with.
#[derive(Debug, Clone, Copy)]
struct Hold {
    input: usize,
    generation: u32,
    output: &'static str,
}

/// What is known of one path.
#[derive(Debug, Default)]
pub(super) struct Seat {
    pub(super) path: String,
    engine: String,
    is_installed: bool,
    is_parked: bool,
    pub(super) phase: Phase,
    pub(super) generation: u32,
    began: u64,
    pub(super) is_told: bool,
    is_aborted: bool,
    is_stuck: bool,
    pub(super) starts: u64,
    /// How its last worker ended.
    pub(super) end: Option<EndKind>,
    /// The last two times for which it was up.
    ups: [Option<Up>; 2],
    /// When each output last changed.
    changes: Vec<(&'static str, u64)>,
    holds: Vec<Hold>,
    /// The inputs that its live worker follows.
    follows: Vec<usize>,
    users: Vec<usize>,
}

impl Seat {
    fn is_live(&self) -> bool {
        self.phase != Phase::Idle && !self.is_stuck
    }

    pub(super) fn is_up(&self) -> bool {
        self.phase == Phase::Running && !self.is_told
    }

    pub(super) fn is_installed(&self) -> bool {
        self.is_installed
    }

    pub(super) fn is_parked(&self) -> bool {
        self.is_parked
    }

    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Idle && self.end == Some(EndKind::Done)
    }

    fn down(&mut self, at: u64, was_told: bool) {
        if let Some(up) = &mut self.ups[0]
            && up.until.is_none()
        {
            (up.until, up.was_told) = (Some(at), was_told);
        }
    }

    /// Returns the time for which it was up at a moment.
    fn up_at(&self, at: u64) -> Option<Up> {
        let covers = |up: &Up| up.since < at && up.until.is_none_or(|until| until > at);
        self.ups.into_iter().flatten().find(covers)
    }
}

#[derive(Default)]
pub(super) struct Judge {
    pub(super) seats: Vec<Seat>,
    index: HashMap<String, usize, foldhash::fast::FixedState>,
    killed: BTreeMap<String, bool>,
    /// The outermost engine was at rest when it was killed.
    pub(super) is_killed_at_rest: bool,
    /// Users whose input has ended by itself, and who must be told at once: user and input.
    owed: Vec<(usize, usize)>,
    /// How many events there were.
    pub(super) count: u64,
    at: Duration,
}

impl Judge {
    /// Returns what is known of a path.
    pub(super) fn seat(&self, path: &str) -> Option<&Seat> {
        self.index.get(path).map(|index| &self.seats[*index])
    }

    fn index_of(&mut self, path: &str) -> usize {
        if let Some(index) = self.index.get(path) {
            return *index;
        }
        let index = self.seats.len();
        let engine = path.rsplit_once('/').map_or("", |(engine, _)| engine);
        let seat = Seat { path: path.to_owned(), engine: engine.to_owned(), ..Seat::default() };
        self.seats.push(seat);
        self.index.insert(path.to_owned(), index);
        index
    }

    /// Enters an event and judges it.
    pub(super) fn event(&mut self, at: Duration, event: &Event, path: &str) -> Judged {
        if at > self.at {
            self.at = at;
            self.judge_owed()?;
        }
        self.count += 1;
        match event.kind {
            EventKind::Killed => {
                self.killed.insert(path.trim_end_matches('/').to_owned(), true);
                return Ok(());
            }
            EventKind::Finished => return self.finished(path.trim_end_matches('/')),
            _ => {}
        }
        let index = self.index_of(path);
        self.worker_event(index, &event.kind)
    }

    fn worker_event(&mut self, index: usize, kind: &EventKind) -> Judged {
        let count = self.count;
        let seat = &mut self.seats[index];
        match kind {
            EventKind::Installed => {
                seat.is_installed = true;
                seat.is_parked = false;
                // An engine that is nested anew begins to count anew.
                if seat.phase == Phase::Idle {
                    seat.generation = 0;
                }
            }
            EventKind::Uninstalled => (seat.is_installed, seat.is_parked) = (false, false),
            EventKind::Parked => seat.is_parked = true,
            EventKind::Unparked => seat.is_parked = false,
            EventKind::Starting { generation } => return self.starting(index, *generation),
            EventKind::Started { generation } => {
                let is_its = seat.phase == Phase::Starting && seat.generation == *generation;
                ensure!(is_its, "P1: {} is up unasked, generation {generation}", seat.path);
                seat.phase = Phase::Running;
                seat.starts += 1;
                let up = Up { generation: *generation, since: count, until: None, was_told: false };
                seat.ups = [Some(up), seat.ups[0]];
            }
            EventKind::Changed { output } => {
                seat.changes.retain(|(changed, _)| changed != output);
                seat.changes.push((output, count));
            }
            EventKind::InputLost => self.owed.retain(|(user, _)| *user != index),
            EventKind::Stopping => return self.stopping(index),
            EventKind::Aborted => {
                seat.is_aborted = true;
                seat.down(count, true);
                self.owed.retain(|(user, _)| *user != index);
            }
            EventKind::Stuck => seat.is_stuck = true,
            EventKind::Ended { end, .. } => self.ended(index, *end),
            _ => {}
        }
        Ok(())
    }

    fn starting(&mut self, index: usize, generation: u32) -> Judged {
        let count = self.count;
        let seat = &mut self.seats[index];
        let path = &seat.path;
        ensure!(
            seat.phase == Phase::Idle,
            "P1: {path} is started, generation {generation}, while generation {} has not ended",
            seat.generation
        );
        ensure!(
            generation > seat.generation,
            "P1: {path} has generation {generation} after {}",
            seat.generation
        );
        ensure!(!seat.is_parked, "P7: {path} is started though it is parked");
        ensure!(seat.is_installed, "P7: {path} is started though it is not installed");
        let is_killed = self.killed.get(&seat.engine).is_some_and(|killed| *killed);
        ensure!(!is_killed, "P6: {path} is started after its engine was killed");
        (seat.phase, seat.generation, seat.began) = (Phase::Starting, generation, count);
        (seat.is_told, seat.is_aborted, seat.is_stuck) = (false, false, false);
        seat.holds.clear();
        seat.follows.clear();
        Ok(())
    }

    fn stopping(&mut self, index: usize) -> Judged {
        self.owed.retain(|(user, _)| *user != index);
        let count = self.count;
        let seat = &mut self.seats[index];
        seat.is_told = true;
        seat.down(count, true);
        let seat = &self.seats[index];
        for user in seat.users.iter().map(|user| &self.seats[*user]) {
            let holds = |hold: &Hold| hold.input == index && hold.generation == seat.generation;
            ensure!(
                !user.is_live() || !user.holds.iter().any(holds),
                "P3: {} is told to stop while {}, generation {}, uses it",
                seat.path,
                user.path,
                user.generation
            );
            let is_followed = self.is_killed_at_rest && user.follows.contains(&index);
            ensure!(
                !user.is_live() || !is_followed,
                "P6: {} is told to stop at a kill while {} follows it",
                seat.path,
                user.path
            );
        }
        Ok(())
    }

    fn ended(&mut self, index: usize, end: EndKind) {
        self.owed.retain(|(user, _)| *user != index);
        let count = self.count;
        let seat = &mut self.seats[index];
        let is_loss = seat.phase == Phase::Running && !seat.is_told && !seat.is_aborted;
        let generation = seat.generation;
        seat.down(count, false);
        (seat.phase, seat.end) = (Phase::Idle, Some(end));
        (seat.is_told, seat.is_aborted, seat.is_stuck) = (false, false, false);
        seat.holds.clear();
        seat.follows.clear();
        if matches!(end, EndKind::Fatal | EndKind::Dropped) {
            self.killed.insert(seat.engine.clone(), true);
        }
        if is_loss {
            let seats = &self.seats;
            let holds = |user: &usize| {
                let user = &seats[*user];
                let is_free = user.is_live() && !user.is_told && !user.is_aborted;
                let is_held = |hold: &Hold| hold.input == index && hold.generation == generation;
                is_free && user.holds.iter().any(is_held)
            };
            let users = seats[index].users.iter().copied().filter(holds);
            self.owed.extend(users.map(|user| (user, index)));
        }
    }

    fn finished(&mut self, engine: &str) -> Judged {
        // What a stuck engine still has is left behind with it.
        let stuck: Vec<_> = self.seats.iter().filter(|seat| seat.is_stuck).collect();
        let stuck: Vec<_> = stuck.iter().map(|seat| format!("{}/", seat.path)).collect();
        for seat in &mut self.seats {
            if seat.path.strip_prefix(engine).is_some_and(|rest| rest.starts_with('/')) {
                let is_left = stuck.iter().any(|stuck| seat.path.starts_with(stuck));
                let is_over = seat.phase == Phase::Idle || seat.is_stuck || is_left;
                ensure!(is_over, "P6: {engine}/ has finished before {} has ended", seat.path);
                seat.is_installed = false;
                seat.phase = Phase::Idle;
            }
        }
        // The next engine with this path is another one.
        self.killed.remove(engine);
        Ok(())
    }

    /// Judges whether everybody whose input has ended by itself was told so at once.
    pub(super) fn judge_owed(&self) -> Judged {
        match self.owed.first() {
            None => Ok(()),
            Some((user, input)) => Err(format!(
                "P3: {} has ended by itself, and {} was not told at once",
                self.seats[*input].path, self.seats[*user].path
            )),
        }
    }

    /// Enters what was seen in a worker's task, after the events that led to it.
    pub(super) fn seen(&mut self, seen: Seen) -> Judged {
        match seen {
            Seen::Twice { path, other, generation } => Err(format!(
                "P1: {path} has two workers at once: generation {generation} begins while \
                 generation {other} lives"
            )),
            Seen::Begun { path, generation, inputs } => self.begun(&path, generation, inputs),
        }
    }

    fn begun(&mut self, path: &str, generation: u32, inputs: Vec<(String, Need)>) -> Judged {
        let index = self.index_of(path);
        let (began, is_live) = {
            let seat = &self.seats[index];
            (seat.began, seat.generation == generation && seat.phase != Phase::Idle)
        };
        for (name, need) in inputs {
            let engine = &self.seats[index].engine;
            let input = self.index_of(&format!("{engine}/{name}"));
            if !self.seats[input].users.contains(&index) {
                self.seats[input].users.push(index);
            }
            let up = self.seats[input].up_at(began);
            let is_needed = need.gates || (need.bounces && need.is_present);
            ensure!(
                up.is_some() || !is_needed || !is_live,
                "P2: {path}, generation {generation}, is started while its input {name} is not up"
            );
            if !need.bounces && is_live {
                self.seats[index].follows.push(input);
            }
            let is_held = need.bounces && need.is_present && is_live;
            let Some(up) = up.filter(|_| is_held) else { continue };
            let was_told = up.was_told;
            ensure!(
                !was_told,
                "P3: {} is told to stop while {path}, generation {generation}, uses it",
                self.seats[input].path
            );
            let hold = Hold { input, generation: up.generation, output: need.output };
            self.seats[index].holds.push(hold);
        }
        Ok(())
    }

    /// Compares a report with what is known. At rest it also judges whether that is as it should be.
    pub(super) fn report(&self, report: &Report, is_at_rest: bool) -> Judged {
        let prefix = report.path.trim_end_matches('/');
        for (name, worker) in &report.workers {
            let Some(seat) = self.seat(&format!("{prefix}/{name}")) else { continue };
            self.agrees(seat, worker)?;
            if is_at_rest {
                self.is_right(seat, worker, report)?;
            }
        }
        Ok(())
    }

    fn agrees(&self, seat: &Seat, worker: &WorkerReport) -> Judged {
        let is_so = match worker.state {
            WorkerState::Running | WorkerState::Closing => seat.is_up(),
            WorkerState::Starting => seat.phase == Phase::Starting && !seat.is_told,
            WorkerState::Stopping => seat.is_told,
            WorkerState::Aborting => seat.is_aborted,
            WorkerState::Stuck => seat.is_stuck,
            _ => seat.phase == Phase::Idle,
        };
        ensure!(
            is_so && (seat.phase == Phase::Idle || worker.generation == seat.generation),
            "P9: the report says that {}, generation {}, is {}, but it is {:?}, generation {}",
            seat.path,
            worker.generation,
            worker.state,
            seat.phase,
            seat.generation
        );
        Ok(())
    }

    fn is_right(&self, seat: &Seat, worker: &WorkerReport, report: &Report) -> Judged {
        let path = &seat.path;
        let gates = |need: &str| matches!(need, "required" | "live required");
        let missing = worker
            .inputs
            .iter()
            .find(|input| input.need == "required" && input.state != WorkerState::Running);
        match worker.state {
            WorkerState::Running => {
                if let Some(input) = missing {
                    let (name, state) = (&input.name, input.state);
                    return Err(format!("P5: {path} runs though its input {name} is {state}"));
                }
                self.holds_are_current(seat)
            }
            WorkerState::Waiting => {
                let waits = |input: &crankcase_engine::InputReport| {
                    gates(input.need) && input.state != WorkerState::Running
                };
                let reason = worker.inputs.iter().any(waits);
                ensure!(reason, "P5: {path} waits at rest though all its inputs are there");
                Ok(())
            }
            WorkerState::Starting | WorkerState::Stopping | WorkerState::Closing => {
                // A start that has not finished is not at rest; who closes waits for one that is
                // stuck, or the engine has not settled.
                let is_busy = report
                    .workers
                    .values()
                    .any(|other| matches!(other.state, WorkerState::Starting | WorkerState::Stuck));
                ensure!(is_busy, "P5: {path} is {} though the engine has settled", worker.state);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// At rest nobody uses what is not there any more.
    fn holds_are_current(&self, seat: &Seat) -> Judged {
        for hold in &seat.holds {
            let input = &self.seats[hold.input];
            ensure!(
                input.is_up() && input.generation == hold.generation,
                "P5: {} runs with generation {} of {}, which is not there any more",
                seat.path,
                hold.generation,
                input.path
            );
            let changed = input.changes.iter().find(|(output, _)| *output == hold.output);
            ensure!(
                changed.is_none_or(|(_, at)| *at < seat.began),
                "P5: {} runs with a value of {} that has changed since",
                seat.path,
                input.path
            );
        }
        Ok(())
    }
}
