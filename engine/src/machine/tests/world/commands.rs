//! Judges each command, and carries it out in the record.

use super::{Checked, Held, Worker, World, ensure};
use crate::machine::{Command, Generation, Need, NodeId, Rest, Status, Token};

impl World {
    pub(super) fn obey(&mut self, command: Command) -> Checked {
        match command {
            Command::Start(id, generation) => self.start(self.place(id)?, generation),
            Command::Stop(id, generation) => self.stop(self.place(id)?, generation),
            Command::Lose(id, generation) => self.lose(self.place(id)?, generation),
            Command::Abort(id, generation) => self.abort(self.place(id)?, generation),
            Command::Stuck(id, generation) => self.stuck(self.place(id)?, generation),
            Command::Arm(id, token, after) => {
                let place = self.place(id)?;
                let due = self.due(place);
                let rule = match self.seats[place].rest {
                    _ if self.worker(place).is_some_and(|worker| worker.has_ended) => "S12",
                    // It is taken for one that has ended.
                    _ if self.seats[place].worker.is_some() => "P1",
                    _ if after == self.policy.bounce_delay => "P4",
                    Rest::Backoff => "S9",
                    _ => "S10",
                };
                ensure!(due == Some(after), "{rule}: {place} waits {after:?}, not {due:?}");
                self.wave.delays += u32::from(after == self.policy.bounce_delay);
                self.arm(place, token)
            }
            Command::Removed(id) => {
                let place = self.place(id)?;
                ensure!(self.seats[place].removals > 0, "P7: {place} removed unasked");
                self.seats[place].removals -= 1;
                Ok(())
            }
            Command::Freed(id) => self.freed(self.place(id)?),
            Command::Finished => self.finished(),
        }
    }

    fn place(&self, id: NodeId) -> Result<usize, String> {
        let place = self.places.get(id.index()).copied().unwrap_or(usize::MAX);
        ensure!(place != usize::MAX, "P10: a command for {id:?}, which was forgotten");
        Ok(place)
    }

    fn start(&mut self, place: usize, generation: Generation) -> Checked {
        let seat = &self.seats[place];
        if let Some(worker) = &seat.worker {
            let what = if worker.is_stuck { "a stuck one" } else { "one" };
            return Err(format!("P1: {place} started while {what} of its workers lives"));
        }
        ensure!(generation > seat.generation, "P1: {place} counts its workers anew");
        ensure!(!self.is_killed, "P6: {place} started after the kill");
        ensure!(self.groups == 0, "P7: {place} started while a group is open");
        let Some(arrows) = seat.arrows.clone() else {
            return Err(format!("P5: {place} started, and is not installed"));
        };
        ensure!(!seat.is_parked, "P5: {place} started, and is parked");
        ensure!(seat.rest == Rest::Ready, "S9: {place} started while it rests: {:?}", seat.rest);
        let mut inputs = Vec::with_capacity(arrows.len());
        for arrow in arrows.iter() {
            let current = self.worker(arrow.to);
            let current = current.filter(|input| input.is_running && !input.is_marked);
            ensure!(
                current.is_some() || !arrow.need.gates(),
                "P2: {place} started without its input {}",
                arrow.to
            );
            let is_coming = self.statuses[arrow.to] == Status::Coming;
            ensure!(
                !is_coming || arrow.need != Need::Optional,
                "S6: {place} started while its optional input {} is coming",
                arrow.to
            );
            let version = self.seats[arrow.to].versions[arrow.port as usize];
            let value = current.map(|input| (input.generation, version));
            inputs.push(Held { arrow: *arrow, value });
        }
        self.seats[place].start(generation, inputs);
        let (starts, causes) = (self.seats[place].starts, self.seats[place].causes);
        ensure!(starts <= causes, "P4: {place} started {starts} times for {causes} causes");
        self.wave.started(place)
    }

    fn stop(&mut self, place: usize, generation: Generation) -> Checked {
        ensure!(self.groups == 0 || self.is_killed, "P7: {place} stopped while a group is open");
        let worker = self.living(place, generation)?;
        ensure!(!worker.has_ended, "S12: {place} stopped after its end");
        ensure!(worker.is_marked, "P4: {place} stopped without a reason");
        ensure!(!worker.is_told, "P4: {place} stopped twice");
        let rule = if worker.is_swept { "P6" } else { "P3" };
        if let Some(user) = self.user_in_the_way(place) {
            return Err(format!("{rule}: {place} stopped before {user}, which uses it"));
        }
        self.drop_timer(place);
        let worker = self.seats[place].worker.as_mut().expect("it lives");
        worker.is_told = true;
        self.wave.stopped(place);
        Ok(())
    }

    fn lose(&mut self, place: usize, generation: Generation) -> Checked {
        let worker = self.living(place, generation)?;
        ensure!(!worker.has_ended, "S12: {place} told of a loss after its end");
        let is_due = self.losses.remove(&(place, generation));
        // A worker that takes two outputs of one input may be told twice.
        let uses_twice = self.worker(place).is_some_and(Worker::uses_one_twice);
        ensure!(is_due || uses_twice, "P3: {place} told of a loss that it has not had");
        Ok(())
    }

    fn abort(&mut self, place: usize, generation: Generation) -> Checked {
        self.living(place, generation)?;
        let worker = self.seats[place].worker.as_mut().expect("it lives");
        ensure!(!worker.has_ended, "S12: {place} aborted after its end");
        ensure!(worker.must_abort, "P6: {place} aborted before its grace is over");
        worker.must_abort = false;
        worker.is_aborted = true;
        Ok(())
    }

    fn stuck(&mut self, place: usize, generation: Generation) -> Checked {
        self.living(place, generation)?;
        let worker = self.seats[place].worker.as_mut().expect("it lives");
        ensure!(worker.must_stick, "P6: {place} given up before its second grace is over");
        worker.must_stick = false;
        Ok(())
    }

    fn living(&self, place: usize, generation: Generation) -> Result<&Worker, String> {
        let worker = self.worker(place).filter(|worker| worker.generation == generation);
        worker.ok_or_else(|| format!("P1: a command for {place}'s worker {generation}: not there"))
    }

    fn arm(&mut self, place: usize, token: Token) -> Checked {
        let seat = &mut self.seats[place];
        let is_fresh = seat.token != Some(token) && seat.old_token != Some(token);
        ensure!(is_fresh, "P10: {place} armed twice with one token");
        seat.old_token = seat.token.or(seat.old_token);
        seat.token = Some(token);
        Ok(())
    }

    fn freed(&mut self, place: usize) -> Checked {
        ensure!(self.is_forgettable(place), "P7: {place} forgotten while it is in use");
        let id = self.seats[place].id.take().expect("its id was in the command");
        self.places[id.index()] = usize::MAX;
        self.seats[place] = super::Seat::default();
        Ok(())
    }

    fn finished(&mut self) -> Checked {
        ensure!(self.is_killed, "P6: finished, and not killed");
        ensure!(!self.is_finished, "P6: finished twice");
        let living = (0..self.seats.len()).find(|place| {
            self.worker(*place).is_some_and(|worker| !worker.is_stuck || worker.must_stick)
        });
        ensure!(living.is_none(), "P6: finished while {living:?} lives");
        self.is_finished = true;
        Ok(())
    }
}
