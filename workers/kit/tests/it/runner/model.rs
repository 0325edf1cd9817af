//! What a runner is to do, said as plainly as it can be: no task, no lock, times in milliseconds.

use std::collections::{BTreeMap, VecDeque};

use crankcase_engine::WorkerState;
use crankcase_workers::Restart;

pub(super) const GRACE: u64 = 3_000;
pub(super) const BOUNCE_DELAY: u64 = 100;
pub(super) const INITIAL: u64 = 1_000;
pub(super) const MAX: u64 = 8_000;
pub(super) const RESET_AFTER: u64 = 10_000;
pub(super) const FAILURES: usize = 3;
pub(super) const WITHIN: u64 = 60_000;

/// What a worker does when it is started or told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    Prompt,
    /// It takes two seconds to stop.
    Slow,
    /// It goes on until it is dropped.
    Deaf,
    /// Something of it lingers for a second.
    Lingering,
    /// It ends with an error when it is told to stop.
    Sour,
    /// Its start fails.
    Stillborn,
}

/// How a worker ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Well,
    Failed,
    Panicked,
    Missing,
    Bounce,
    Uninstall,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Live { since: u64, ends: Option<u64> },
    Delayed { until: u64 },
    BackingOff { until: u64 },
    Spent,
}

#[derive(Debug)]
struct Stay {
    restart: Restart,
    manner: Manner,
    phase: Phase,
    is_doomed: bool,
    is_bounced: bool,
    generation: u32,
    failures: u32,
    recent: VecDeque<u64>,
    /// Calls that wait: for its turn, for a worker that is up, for the end of one, for its leaving.
    begun: Vec<usize>,
    up: Vec<usize>,
    bounced: Vec<usize>,
    left: Vec<usize>,
}

#[derive(Debug, Default)]
struct Slot {
    present: Option<Stay>,
    next: Option<Stay>,
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) now: u64,
    slots: BTreeMap<&'static str, Slot>,
    /// The answers that calls must have got, by their numbers.
    pub(super) answers: BTreeMap<usize, &'static str>,
    is_stopping: bool,
    /// When something happened last.
    last: Option<u64>,
}

/// What is seen of a name: state, generation, failures.
pub(super) type Seen = (WorkerState, u32, u32);

impl Model {
    /// Returns what is to be seen of all names that are there.
    pub(super) fn seen(&self) -> BTreeMap<String, Seen> {
        let present =
            self.slots.iter().filter_map(|(name, slot)| Some((name, slot.present.as_ref()?)));
        let seen = present.map(|(name, stay)| {
            let state = match stay.phase {
                Phase::Queued => WorkerState::Waiting,
                Phase::Live { ends: None, .. } => WorkerState::Running,
                Phase::Live { .. } => WorkerState::Stopping,
                Phase::Delayed { .. } => WorkerState::Delayed,
                Phase::BackingOff { .. } => WorkerState::BackingOff,
                Phase::Spent => WorkerState::Spent,
            };
            ((*name).to_owned(), (state, stay.generation, stay.failures))
        });
        seen.collect()
    }

    /// Returns whether the worker of a name can be told to end by itself.
    pub(super) fn can_end(&self, name: &str) -> bool {
        let present = self.slots.get(name).and_then(|slot| slot.present.as_ref());
        present.is_some_and(|stay| matches!(stay.phase, Phase::Live { ends: None, .. }))
    }

    /// Returns whether something happens so near to a time that the order could be taken either way.
    pub(super) fn is_near(&self, time: u64) -> bool {
        let due = self.next_event().map(|(due, _)| due);
        let is_near = |event: u64| event.abs_diff(time) <= 3;
        due.is_some_and(is_near) || self.last.is_some_and(is_near)
    }

    /// Lets everything happen that is due until a time.
    pub(super) fn advance(&mut self, to: u64) {
        while let Some((due, name)) = self.next_event().filter(|(due, _)| *due <= to) {
            self.now = due;
            self.last = Some(due);
            self.on_due(name);
        }
        self.now = to;
    }

    fn next_event(&self) -> Option<(u64, &'static str)> {
        let events = self.slots.iter().filter_map(|(name, slot)| {
            let due = match slot.present.as_ref()?.phase {
                Phase::Live { ends, .. } => ends?,
                Phase::Delayed { until } | Phase::BackingOff { until } => until,
                Phase::Queued | Phase::Spent => return None,
            };
            Some((due, *name))
        });
        events.min()
    }

    fn on_due(&mut self, name: &'static str) {
        let Some(stay) = self.stay(name) else { return };
        match stay.phase {
            Phase::Live { .. } => {
                let answer = match stay.manner {
                    Manner::Deaf => "dropped",
                    Manner::Sour => "failed",
                    _ => "well",
                };
                self.on_told_end(name, answer);
            }
            _ => self.launch(name),
        }
    }

    fn stay(&mut self, name: &str) -> Option<&mut Stay> {
        self.slots.get_mut(name)?.present.as_mut()
    }

    fn answer(&mut self, calls: Vec<usize>, answer: &'static str) {
        self.answers.extend(calls.into_iter().map(|call| (call, answer)));
    }

    fn launch(&mut self, name: &'static str) {
        let now = self.now;
        let Some(stay) = self.stay(name) else { return };
        stay.generation += 1;
        stay.is_bounced = false;
        if stay.manner == Manner::Stillborn {
            return self.on_own_end(name, Fate::Failed, false);
        }
        stay.phase = Phase::Live { since: now, ends: None };
        let up = std::mem::take(&mut stay.up);
        self.answer(up, "up");
    }

    /// A worker that was told to stop is gone.
    fn on_told_end(&mut self, name: &'static str, answer: &'static str) {
        let now = self.now;
        let Some(stay) = self.stay(name) else { return };
        if stay.is_doomed {
            return self.leave(name, answer);
        }
        stay.is_bounced = false;
        stay.phase = Phase::Delayed { until: now + BOUNCE_DELAY };
        let bounced = std::mem::take(&mut stay.bounced);
        self.answer(bounced, "ok");
    }

    /// A worker ends by itself.
    pub(super) fn on_own_end(&mut self, name: &'static str, fate: Fate, was_up: bool) {
        let now = self.now;
        let Some(stay) = self.stay(name) else { return };
        let answer = match fate {
            Fate::Well | Fate::Bounce | Fate::Uninstall => "well",
            Fate::Failed | Fate::Panicked | Fate::Missing => "failed",
        };
        match (stay.restart, fate) {
            (Restart::Temporary, _) | (_, Fate::Uninstall) | (Restart::Transient, Fate::Well) => {
                self.leave(name, answer);
            }
            (_, Fate::Bounce) => stay.phase = Phase::Delayed { until: now + BOUNCE_DELAY },
            _ => {
                if let Phase::Live { since, .. } = stay.phase
                    && was_up
                    && now - since >= RESET_AFTER
                {
                    stay.failures = 0;
                }
                stay.failures += 1;
                stay.recent.push_back(now);
                stay.recent.retain(|at| now - at < WITHIN);
                stay.phase = if stay.recent.len() > FAILURES {
                    Phase::Spent
                } else {
                    let wait = INITIAL << (stay.failures - 1).min(10);
                    Phase::BackingOff { until: now + wait.min(MAX) }
                };
            }
        }
    }

    fn leave(&mut self, name: &'static str, ending: &'static str) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let (left, next) = (slot.present.take(), slot.next.take());
        if let Some(left) = left {
            self.answer(left.left, ending);
            self.answer(left.up, "left");
            self.answer(left.bounced, "ok");
        }
        if let Some(mut next) = next {
            let begun = std::mem::take(&mut next.begun);
            self.answer(begun, "ok");
            if let Some(slot) = self.slots.get_mut(name) {
                slot.present = Some(next);
            }
            self.launch(name);
        }
    }

    /// Tells the present worker to stop, if there is one.
    fn tell(&mut self, name: &'static str) {
        let now = self.now;
        let Some(stay) = self.stay(name) else { return };
        if let Phase::Live { ends: ends @ None, .. } = &mut stay.phase {
            *ends = Some(match stay.manner {
                Manner::Slow => now + 2_000,
                Manner::Deaf => now + GRACE,
                Manner::Lingering => now + 1_000,
                Manner::Prompt | Manner::Sour | Manner::Stillborn => now,
            });
        }
    }

    fn doom(&mut self, name: &'static str) {
        let Some(stay) = self.stay(name) else { return };
        stay.is_doomed = true;
        match stay.phase {
            Phase::Live { .. } => self.tell(name),
            _ => self.leave(name, "well"),
        }
    }

    fn withdraw(&mut self, name: &'static str) {
        let next = self.slots.get_mut(name).and_then(|slot| slot.next.take());
        if let Some(next) = next {
            self.answer(next.begun, "withdrawn");
            self.answer(next.up, "left");
        }
    }

    pub(super) fn put(
        &mut self,
        call: usize,
        name: &'static str,
        (restart, manner): (Restart, Manner),
        is_replaced: bool,
    ) {
        if self.is_stopping {
            self.answers.insert(call, "stopping");
            return;
        }
        let stay = Stay {
            restart,
            manner,
            phase: Phase::Queued,
            is_doomed: false,
            is_bounced: false,
            generation: 0,
            failures: 0,
            recent: VecDeque::new(),
            begun: vec![call],
            up: Vec::new(),
            bounced: Vec::new(),
            left: Vec::new(),
        };
        let slot = self.slots.entry(name).or_default();
        match &slot.present {
            Some(present) if !is_replaced && (!present.is_doomed || slot.next.is_some()) => {
                self.answers.insert(call, "exists");
            }
            _ => {
                self.withdraw(name);
                if let Some(slot) = self.slots.get_mut(name) {
                    slot.next = Some(stay);
                    if slot.present.is_some() {
                        self.doom(name);
                    } else {
                        self.leave(name, "nothing was there");
                    }
                }
            }
        }
        // What stops at once is gone at once.
        self.advance(self.now);
    }

    pub(super) fn stop(&mut self, call: usize, name: &'static str) {
        self.wait(call, name);
        self.withdraw(name);
        self.doom(name);
        self.advance(self.now);
    }

    pub(super) fn wait(&mut self, call: usize, name: &'static str) {
        match self.stay(name) {
            Some(stay) => stay.left.push(call),
            None => drop(self.answers.insert(call, "unknown")),
        }
    }

    pub(super) fn running(&mut self, call: usize, name: &'static str) {
        let slot = self.slots.get_mut(name);
        let newest = slot.and_then(|slot| slot.next.as_mut().or(slot.present.as_mut()));
        let answer = match newest {
            None => "unknown",
            Some(Stay { phase: Phase::Live { ends: None, .. }, .. }) => "up",
            Some(stay) => return stay.up.push(call),
        };
        self.answers.insert(call, answer);
    }

    pub(super) fn bounce(&mut self, call: usize, name: &'static str) {
        let answer = match self.stay(name) {
            None => "unknown",
            Some(stay) if stay.is_doomed => "unknown",
            Some(stay) => match stay.phase {
                Phase::Live { .. } => {
                    stay.is_bounced = true;
                    stay.bounced.push(call);
                    self.tell(name);
                    return self.advance(self.now);
                }
                Phase::BackingOff { .. } | Phase::Spent => {
                    self.launch(name);
                    "ok"
                }
                Phase::Delayed { .. } | Phase::Queued => "ok",
            },
        };
        self.answers.insert(call, answer);
    }

    pub(super) fn stop_all(&mut self) {
        self.is_stopping = true;
        for name in self.slots.keys().copied().collect::<Vec<_>>() {
            self.withdraw(name);
            self.doom(name);
        }
        self.advance(self.now);
    }
}
