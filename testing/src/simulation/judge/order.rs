//! The order of workers: one worker of a path at a time, inputs before users, users stopped first
//! (P1, P2, P3, P6, P7).

use crankcase_engine::EndKind;

use super::next::{Next, Rest};
use super::seat::{Hold, Need, Phase, Up};
use super::{Judge, Judged, ensure};

/// The message of tokio's panic where a runtime has no driver of real input and output.
const NO_IO: &str = "A Tokio 1.x context was found, but IO is disabled";

impl Judge {
    pub(super) fn starting(&mut self, index: usize, generation: u32) -> Judged {
        self.judge_start(index)?;
        let is_killed = self.is_killed(index);
        let seat = &mut self.seats[index];
        let path = &seat.path;
        ensure!(
            seat.phase == Phase::Idle,
            "P1: {path} is started, generation {generation}, while generation {} has not ended",
            seat.generation
        );
        ensure!(
            !seat.lingers && !seat.is_stuck,
            "P1: {path} is started, generation {generation}, while generation {} is not gone",
            seat.generation
        );
        ensure!(
            generation > seat.counted,
            "P1: {path} has generation {generation} after {}",
            seat.counted
        );
        ensure!(!seat.is_parked, "P7: {path} is started though it is parked");
        ensure!(seat.is_installed, "P7: {path} is started though it is not installed");
        ensure!(!is_killed, "P6: {path} is started after its engine was killed");
        (seat.phase, seat.generation, seat.began) = (Phase::Starting, generation, self.count);
        seat.counted = generation;
        (seat.is_told, seat.is_aborted, seat.is_stuck) = (false, false, false);
        seat.lingered = None;
        self.begin_life(index);
        Ok(())
    }

    pub(super) fn started(&mut self, index: usize, generation: u32) -> Judged {
        let seat = &mut self.seats[index];
        let is_its = seat.phase == Phase::Starting && seat.generation == generation;
        ensure!(is_its, "P1: {} is up unasked, generation {generation}", seat.path);
        seat.phase = Phase::Running;
        seat.starts += 1;
        let (since, came) = (self.count, self.at);
        let went = seat.is_told.then_some(came);
        let up = Up { generation, since, came, until: None, went, was_told: false };
        seat.ups = [Some(up), seat.ups[0]];
        self.come(index);
        Ok(())
    }

    pub(super) fn stopping(&mut self, index: usize) -> Judged {
        self.owed.retain(|(user, _)| *user != index);
        self.judge_cause(index)?;
        let now = (self.count, self.at);
        let seat = &mut self.seats[index];
        seat.is_told = true;
        seat.down(now, true);
        let seat = &self.seats[index];
        // A wave that reached the worker before the kill stops it like any wave.
        let is_swept = self.is_killed_at_rest && !seat.is_marked() && !seat.is_vague;
        for user in seat.users.iter().map(|user| &self.seats[*user]) {
            ensure!(
                !user.is_live() || !user.holds(index, seat.generation),
                "P3: {} is told to stop while {}, generation {}, uses it",
                seat.path,
                user.path,
                user.generation
            );
            let is_followed = is_swept && user.follows.contains(&index);
            ensure!(
                !user.is_live() || !is_followed,
                "P6: {} is told to stop at a kill while {} follows it",
                seat.path,
                user.path
            );
        }
        Ok(())
    }

    /// Judges the end of a worker, and enters it.
    pub(super) fn ends(&mut self, index: usize, end: EndKind, error: Option<&str>) -> Judged {
        let path = &self.seats[index].path;
        ensure!(
            error.is_none_or(|error| !error.contains(NO_IO)),
            "{path} asks tokio for real input and output, of which a simulation has none: \
             put a stub in its place"
        );
        self.ended(index, end);
        Ok(())
    }

    /// Enters that something is left of a worker that has ended. When that is gone too, the path
    /// waits for the rest of its wait.
    pub(super) fn lingers(&mut self, index: usize) {
        let at = self.at;
        let seat = &mut self.seats[index];
        if let Next::Backoff(failures) = seat.next {
            seat.has_failed_untold(failures);
        }
        seat.lingered = Some(at);
        (seat.lingers, seat.rest, seat.next) = (true, Rest::Unknown, Next::Whatever);
    }

    fn ended(&mut self, index: usize, end: EndKind) {
        self.owed.retain(|(user, _)| *user != index);
        let seat = &self.seats[index];
        let is_loss = seat.phase == Phase::Running && !seat.is_told && !seat.is_aborted;
        let generation = seat.generation;
        if is_loss {
            let seats = &self.seats;
            let holds = |user: &usize| {
                let user = &seats[*user];
                let is_free = user.is_live() && !user.is_told && !user.is_aborted;
                is_free && user.holds(index, generation)
            };
            let users = seats[index].users.iter().copied().filter(holds);
            self.owed.extend(users.map(|user| (user, index)));
        }
        self.rest_after(index, end);
        if self.seats[index].next != Next::Whatever {
            self.due.push(index);
        }
        let now = (self.count, self.at);
        let seat = &mut self.seats[index];
        seat.down(now, false);
        (seat.phase, seat.end) = (Phase::Idle, Some(end));
        seat.was_done |= end == EndKind::Done;
        (seat.is_told, seat.is_aborted, seat.is_stuck) = (false, false, false);
        seat.holds.clear();
        seat.lacks.clear();
        seat.follows.clear();
        self.note_idle(index);
        if matches!(end, EndKind::Fatal | EndKind::Dropped) {
            self.places.kill(self.seats[index].engine);
        }
    }

    pub(super) fn finished(&mut self, engine: &str) -> Judged {
        // A stuck engine leaves its own workers behind as well.
        let stuck: Vec<_> = self.seats.iter().filter(|seat| seat.is_stuck).collect();
        let stuck: Vec<_> = stuck.iter().map(|seat| format!("{}/", seat.path)).collect();
        for seat in &mut self.seats {
            if seat.path.strip_prefix(engine).is_some_and(|rest| rest.starts_with('/')) {
                let is_left = stuck.iter().any(|stuck| seat.path.starts_with(stuck));
                let is_over = seat.phase == Phase::Idle || seat.is_stuck || is_left;
                ensure!(is_over, "P6: {engine}/ has finished before {} has ended", seat.path);
                seat.is_installed = false;
                seat.phase = Phase::Idle;
                seat.next = Next::Whatever;
            }
        }
        // The next engine with this path is a new one.
        let engine = self.places.engine(engine);
        self.places.finish(engine);
        Ok(())
    }

    /// Judges whether the workers that the engine has left behind were stuck.
    pub(in crate::simulation) fn left_behind(&self, workers: &[String]) -> Judged {
        let is_stuck = |path: &String| self.seat(path).is_some_and(|seat| seat.is_stuck);
        match workers.iter().find(|path| !is_stuck(path)) {
            None => Ok(()),
            Some(path) => Err(format!("P6: {path} is left behind, but was never stuck")),
        }
    }

    /// Judges whether each user whose input has ended by itself was told at once.
    pub(in crate::simulation) fn judge_owed(&self) -> Judged {
        match self.owed.first() {
            None => Ok(()),
            Some((user, input)) => Err(format!(
                "P3: {} has ended by itself, and {} was not told at once",
                self.seats[*input].path, self.seats[*user].path
            )),
        }
    }

    /// Enters that the start of a path's worker is about to be called, after the events that have
    /// led to it.
    pub(in crate::simulation) fn begun<'a>(
        &mut self,
        index: usize,
        generation: u32,
        inputs: impl Iterator<Item = (&'a str, Need)>,
    ) -> Judged {
        let mut declared = std::mem::take(&mut self.declared);
        declared.clear();
        for (nth, (name, need)) in inputs.enumerate() {
            declared.push((self.input_of(index, nth, name), need));
        }
        let judged = self.begun_with(index, generation, &declared);
        self.declared = declared;
        judged
    }

    /// Returns an input of a path, and notes that the path uses it from now on.
    fn input_of(&mut self, index: usize, nth: usize, name: &str) -> usize {
        // Most often it is the input that the last worker had.
        if let Some((input, _)) = self.seats[index].declared_at(nth)
            && self.seats[input].is_called(name)
        {
            return input;
        }
        let input = self.index_in(self.seats[index].engine, name);
        let users = &mut self.seats[input].users;
        if !users.contains(&index) {
            users.push(index);
        }
        input
    }

    fn begun_with(&mut self, index: usize, generation: u32, declared: &[(usize, Need)]) -> Judged {
        let seat = &mut self.seats[index];
        if seat.generation != generation || seat.phase == Phase::Idle {
            return Ok(());
        }
        let began = seat.began;
        seat.holds.clear();
        seat.lacks.clear();
        seat.follows.clear();
        for &(input, need) in declared {
            let up = self.seats[input].up_at(began);
            let is_needed = need.gates || (need.bounces && need.is_present);
            ensure!(
                up.is_some() || !is_needed,
                "P2: {}, generation {generation}, is started while its input {} is not up",
                self.seats[index].path,
                self.seats[input].path
            );
            ensure!(
                !need.bounces || !need.is_present || up.is_none_or(|up| !up.was_told),
                "P3: {} is told to stop while {}, generation {generation}, uses it",
                self.seats[input].path,
                self.seats[index].path
            );
            let seat = &mut self.seats[index];
            if !need.bounces {
                seat.follows.push(input);
            } else if !need.is_present {
                seat.lacks.push(input);
            } else if let Some(Up { generation, .. }) = up {
                seat.holds.push(Hold::of(input, generation, need));
            }
        }
        self.learn(index, declared);
        self.blur_by_inputs(index);
        Ok(())
    }
}
