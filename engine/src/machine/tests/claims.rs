//! Single rules, each shown by the smallest world in which it matters.

mod control;
mod ends;
mod growth;
mod inputs;
mod shutdown;
mod waves;

use std::time::Duration;

use super::world::{Arrow, Checked, Entry, Event, World, policy};
use crate::machine::{Command, EndKind, Need};

/// A worker told to stop does.
pub(super) fn stopped(place: usize) -> Event {
    Event::Ended(place, EndKind::Stopped, Duration::ZERO)
}

/// A worker ends by itself.
pub(super) fn ended(place: usize, kind: EndKind) -> Event {
    Event::Ended(place, kind, Duration::ZERO)
}

pub(super) fn failed(place: usize) -> Event {
    ended(place, EndKind::Failed)
}

pub(super) fn on(to: usize) -> Arrow {
    super::world::arrow(to, Need::Required)
}

pub(super) fn optionally_on(to: usize) -> Arrow {
    super::world::arrow(to, Need::Optional)
}

pub(super) fn live_on(to: usize) -> Arrow {
    super::world::arrow(to, Need::Live)
}

/// Returns a world with these manifolds installed, each with its inputs, and no more done.
pub(super) fn installed(inputs: &[&[Arrow]]) -> Result<World, String> {
    let mut world = World::new(inputs.len(), policy(), 0);
    let mut events = vec![Event::BeginGroup];
    let installs = inputs.iter().enumerate();
    events.extend(installs.map(|(place, arrows)| Event::Install(place, (*arrows).into())));
    events.push(Event::EndGroup);
    world.apply_all(&events)?;
    world.trace = Some(Vec::new());
    Ok(world)
}

/// Returns such a world once all of it runs.
pub(super) fn running(inputs: &[&[Arrow]]) -> Result<World, String> {
    let mut world = installed(inputs)?;
    world.rest()?;
    world.trace = Some(Vec::new());
    Ok(world)
}

impl World {
    /// Lets happen what follows by itself, until nothing does.
    pub(super) fn rest(&mut self) -> Checked {
        while let Some(event) = (0..self.seats.len()).find_map(|place| self.next_due(place)) {
            self.apply(&event)?;
        }
        Ok(())
    }

    pub(super) fn starts(&self, place: usize) -> u64 {
        self.seats[place].starts
    }

    pub(super) fn is_told(&self, place: usize) -> bool {
        self.worker(place).is_some_and(|worker| worker.is_told)
    }

    pub(super) fn is_live(&self, place: usize) -> bool {
        self.worker(place).is_some()
    }

    /// Returns which places the commands since the beginning were for, of those that are chosen.
    pub(super) fn traced(&self, choose: impl Fn(&Command) -> bool) -> Vec<Command> {
        let entries = self.trace.as_deref().unwrap_or_default();
        let command = |entry: &Entry| match entry {
            Entry::Command(command) if choose(command) => Some(*command),
            _ => None,
        };
        entries.iter().filter_map(command).collect()
    }

    /// Returns how long each timer was armed for.
    pub(super) fn waits(&self) -> Vec<Duration> {
        let arms = self.traced(|command| matches!(command, Command::Arm(..)));
        let wait = |command| match command {
            Command::Arm(_, _, after) => after,
            _ => unreachable!("only timers were chosen"),
        };
        arms.into_iter().map(wait).collect()
    }

    /// Returns the order in which workers were told to stop.
    pub(super) fn stops(&self) -> Vec<usize> {
        let stops = self.traced(|command| matches!(command, Command::Stop(..)));
        let place = |command| match command {
            Command::Stop(id, _) => self.places[id.index()],
            _ => unreachable!("only stops were chosen"),
        };
        stops.into_iter().map(place).collect()
    }
}
