//! The reach of a change: a cause strikes a worker, and a wave goes on from it to all its users
//! (P4, S3 to S5, S8).

use std::collections::BTreeSet;

use super::bounced::Bounced;
use super::next::{Next, Rest};
use super::seat::{Hold, Need, Phase};
use super::{Judge, Judged, ensure};

impl Judge {
    /// Enters that a cause of its own strikes a live worker.
    pub(super) fn strike(&mut self, index: usize) {
        let at = self.at;
        let seat = &mut self.seats[index];
        if seat.phase == Phase::Idle {
            return;
        }
        let showed_up = seat.shows_up();
        seat.struck.get_or_insert(at);
        if showed_up {
            self.close(index);
        }
    }

    /// Enters that a wave that began elsewhere reaches a live worker.
    fn reach(&mut self, index: usize) {
        let at = self.at;
        let seat = &mut self.seats[index];
        if !seat.is_live() || seat.is_marked() {
            return;
        }
        let showed_up = seat.shows_up();
        (seat.reached, seat.spread) = (Some(at), Some(at));
        if showed_up {
            self.close(index);
        }
    }

    /// Enters that a worker that is up is about to stop, once no live worker uses it.
    fn close(&mut self, index: usize) {
        let seat = &self.seats[index];
        let is_user = |user: &usize| {
            let user = &self.seats[*user];
            user.is_live() && user.holds(index, seat.generation)
        };
        let users: Vec<_> = seat.users.iter().copied().filter(is_user).collect();
        if !users.is_empty() {
            self.closing.push((index, users));
        }
        self.leave(index);
    }

    /// Enters that a path is not up any more, or is about to stop.
    pub(super) fn leave(&mut self, index: usize) {
        let seat = &self.seats[index];
        let generation = seat.generation;
        if seat.came() == Some(self.at) {
            self.flap(index);
        }
        for nth in 0..self.seats[index].users.len() {
            let user = self.seats[index].users[nth];
            let seat = &self.seats[user];
            if seat.phase != Phase::Idle && seat.holds(index, generation) {
                self.reach(user);
            } else if seat.is_bounced_by(index) {
                self.soften(user);
            }
        }
    }

    /// Enters that a worker is up.
    pub(super) fn come(&mut self, index: usize) {
        if std::mem::take(&mut self.seats[index].is_outdated) {
            self.strike(index);
        }
        let seat = &self.seats[index];
        if !seat.shows_up() {
            if seat.spread == Some(self.at) {
                self.flap(index);
            }
            return;
        }
        // It may be about to stop, and then it does not show its users that it is up.
        if seat.is_vague {
            return self.flap(index);
        }
        let at = self.at;
        for nth in 0..seat.users.len() {
            let user = self.seats[index].users[nth];
            let seat = &mut self.seats[user];
            if seat.phase == Phase::Idle && seat.is_bounced_by(index) {
                self.soften(user);
            } else if seat.lacks.contains(&index) && !seat.is_marked() {
                seat.spread = Some(at);
                self.strike(user);
            }
        }
    }

    /// Enters that a path comes and goes at one moment. The engine may learn of both at once, and
    /// in that case has never shown the users that the path is up.
    fn flap(&mut self, index: usize) {
        for nth in 0..self.seats[index].users.len() {
            let user = self.seats[index].users[nth];
            let seat = &mut self.seats[user];
            if seat.phase == Phase::Idle && seat.is_bounced_by(index) {
                seat.rest = Rest::Unknown;
            } else if seat.lacks.contains(&index) {
                self.blur(user);
            }
        }
    }

    /// Marks a user as vague if a worker that it uses is: it may be marked to stop, too.
    pub(super) fn blur_by_inputs(&mut self, index: usize) {
        let is_vague = |hold: &Hold| self.seats[hold.input].is_vague;
        if self.seats[index].holds.iter().any(is_vague) {
            self.blur(index);
        }
    }

    /// Notes that a worker, and each of its users, may be marked to stop or not.
    fn blur(&mut self, index: usize) {
        let (mut stack, mut seen) = (vec![index], BTreeSet::new());
        while let Some(index) = stack.pop() {
            if !seen.insert(index) {
                continue;
            }
            let seat = &mut self.seats[index];
            seat.is_vague = true;
            let generation = seat.generation;
            for nth in 0..seat.users.len() {
                let user = self.seats[index].users[nth];
                let seat = &mut self.seats[user];
                if seat.phase == Phase::Idle && seat.is_bounced_by(index) {
                    seat.rest = Rest::Unknown;
                } else if seat.holds(index, generation) {
                    stack.push(user);
                }
            }
        }
    }

    /// Enters that a worker has published a new value.
    pub(super) fn changed(&mut self, index: usize, output: &'static str) {
        let count = self.count;
        let seat = &mut self.seats[index];
        seat.changes.retain(|(changed, _)| *changed != output);
        seat.changes.push((output, count));
        let generation = seat.generation;
        for nth in 0..seat.users.len() {
            let user = self.seats[index].users[nth];
            let seat = &mut self.seats[user];
            let is_held = |hold: &&Hold| {
                hold.input == index && hold.generation == generation && hold.output == output
            };
            let is_selected = seat.holds.iter().find(is_held).map(|hold| hold.is_selected);
            match (seat.phase, is_selected) {
                (Phase::Idle, _) => self.may_soften(user, index, output),
                (_, None) => {}
                (_, Some(true)) => self.blur(user),
                (Phase::Starting, _) => seat.is_outdated = true,
                (Phase::Running, _) => self.strike(user),
            }
        }
    }

    /// Enters that an input of an idle user has a new value. This ends the user's rest, unless the
    /// part that it uses is the same.
    fn may_soften(&mut self, user: usize, input: usize, output: &str) {
        let seat = &mut self.seats[user];
        match seat.is_changed_by(input, output) {
            None => {}
            Some(Need { is_selected: true, .. }) if seat.rest.is_soft() => {
                seat.rest = Rest::Unknown;
            }
            Some(_) => self.soften(user),
        }
    }

    /// Enters that a bounce was asked for.
    pub(super) fn asked(&mut self, index: usize) {
        self.strike(index);
        self.soften(index);
    }

    /// Enters that a manifold was installed, replaced or taken out.
    pub(super) fn rewired(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        seat.declared = None;
        seat.forget_failures();
        if seat.phase == Phase::Idle {
            (seat.rest, seat.next) = (Rest::Ready, Next::Whatever);
        } else {
            seat.is_obsolete = true;
            self.strike(index);
        }
    }

    /// Enters that a worker is going to start, with everything that is up now.
    pub(super) fn begin_life(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        (seat.struck, seat.reached, seat.spread) = (None, None, None);
        (seat.is_outdated, seat.is_obsolete) = (false, false);
        (seat.rest, seat.next) = (Rest::Ready, Next::Whatever);
        seat.holds.clear();
        seat.lacks.clear();
        seat.follows.clear();
        seat.is_vague = seat.declared.is_none();
        let mut nth = 0;
        while let Some((input, need)) = self.seats[index].declared_at(nth) {
            nth += 1;
            if !need.bounces {
                continue;
            }
            let (is_up, generation) = (self.seats[input].shows_up(), self.seats[input].generation);
            let seat = &mut self.seats[index];
            if is_up {
                seat.holds.push(Hold::of(input, generation, need));
            } else {
                seat.lacks.push(input);
            }
        }
        self.blur_by_inputs(index);
    }

    /// Enters the inputs that a worker's manifold declares, and everything that has happened to the
    /// worker since it was started.
    pub(super) fn learn(&mut self, index: usize, declared: &[(usize, Need)]) {
        let seat = &mut self.seats[index];
        if !seat.is_obsolete {
            let known = seat.declared.get_or_insert_default();
            known.clear();
            known.extend_from_slice(declared);
        }
        if !std::mem::take(&mut seat.is_vague) {
            return;
        }
        let began = seat.began;
        for Hold { input, generation, output, is_selected } in seat.holds.clone() {
            let input = &self.seats[input];
            let has_changed = |(changed, at): &(&str, u64)| *changed == output && *at > began;
            let is_outdated = input.changes.iter().any(has_changed);
            if input.generation != generation || !input.shows_up() {
                self.reach(index);
            } else if is_outdated && is_selected {
                self.blur(index);
            } else if is_outdated {
                self.seats[index].is_outdated = true;
            }
        }
        let lacks = self.seats[index].lacks.clone();
        if lacks.iter().any(|input| self.seats[*input].shows_up()) {
            self.seats[index].spread = Some(self.at);
            self.strike(index);
        }
    }

    /// Judges whether there is a cause for a worker to stop.
    pub(super) fn judge_cause(&self, index: usize) -> Judged {
        let seat = &self.seats[index];
        if seat.is_marked() || seat.is_vague || self.is_killed(index) {
            return Ok(());
        }
        ensure!(
            !seat.is_outdated,
            "S8: {}, generation {}, is told to stop in its start for a new value; it is to finish \
             first",
            seat.path,
            seat.generation
        );
        Err(format!(
            "P4: {}, generation {}, is told to stop, and nothing has reached it",
            seat.path, seat.generation
        ))
    }

    /// Returns the workers that would stop with a worker, itself included; `None` if too little is
    /// known.
    pub(in crate::simulation) fn bounced_with(&self, path: &str) -> Option<Bounced> {
        let mut certain = BTreeSet::new();
        let mut roused = Vec::new();
        let mut stack = vec![self.places.find(path)?];
        while let Some(index) = stack.pop() {
            if !certain.insert(index) {
                continue;
            }
            let seat = &self.seats[index];
            for user in &seat.users {
                let user_seat = &self.seats[*user];
                if user_seat.is_live() && user_seat.is_vague {
                    return None;
                }
                let is_its = user_seat.is_live() && !user_seat.is_obsolete;
                if is_its && user_seat.holds(index, seat.generation) {
                    stack.push(*user);
                } else if user_seat.may_be_roused() && user_seat.is_bounced_by(index) {
                    roused.push(*user);
                }
            }
        }
        let possible = self.bounced_by_roused(roused).into_iter().chain(certain.iter().copied());
        let path_of = |index: usize| self.seats[index].path.to_string();
        Some(Bounced {
            possible: possible.map(path_of).collect(),
            certain: certain.into_iter().map(path_of).collect(),
        })
    }

    /// Returns the workers that may stop when these idle workers are tried again: those that live
    /// without them, and the users of those.
    fn bounced_by_roused(&self, mut roused: Vec<usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        while let Some(index) = roused.pop() {
            if found.insert(index) {
                let users = self.seats[index].users.iter().copied();
                roused.extend(users.filter(|user| {
                    let user = &self.seats[*user];
                    user.is_installed && user.is_bounced_by(index)
                }));
            }
        }
        found.retain(|index| self.seats[*index].is_live());
        found
    }

    /// Returns the inputs of a path, as far as they are known.
    pub(in crate::simulation) fn inputs_of(&self, path: &str) -> Vec<String> {
        let declared = self.seat(path).and_then(|seat| seat.declared.as_deref());
        let declared = declared.unwrap_or_default().iter();
        declared.map(|(input, _)| self.seats[*input].path.to_string()).collect()
    }

    /// Returns the users of a path, and their users, as far as they are known.
    pub(in crate::simulation) fn users_of(&self, path: &str) -> Vec<String> {
        let mut stack: Vec<_> = self.places.find(path).into_iter().collect();
        let mut found = BTreeSet::new();
        while let Some(index) = stack.pop() {
            for user in &self.seats[index].users {
                let seat = &self.seats[*user];
                let is_it = |(input, _): &(usize, Need)| *input == index;
                let uses = seat.declared.as_ref().is_some_and(|all| all.iter().any(is_it));
                if seat.is_installed && uses && found.insert(seat.path.to_string()) {
                    stack.push(*user);
                }
            }
        }
        found.into_iter().collect()
    }
}
