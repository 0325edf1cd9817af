//! Finds the chain from a worker to the root cause of why it does not run, within one engine.

use std::num::NonZeroU64;
use std::time::Duration;

use super::call::Chain;
use super::registry::Registry;
use super::slot::LastError;
use crate::machine::NodeId;
use crate::seen::event::Origin;
use crate::seen::report::WorkerState;
use crate::seen::why::WhyStep;
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::hash::Set;
use crate::vocabulary::settings::HandedBy;

impl Registry {
    pub(super) fn why(&self, name: &str, now: Stamp) -> Chain {
        let Some(mut node) = self.find(name) else { return self.why_unknown(name) };
        let (mut steps, mut seen) = (Vec::new(), Set::default());
        loop {
            steps.push(self.why_step(node, now));
            // Workers may wait for each other for a moment: until one of them is refused.
            let is_first = seen.insert(node);
            match self.next_cause(node).filter(|_| is_first) {
                Some(cause) => node = cause,
                None => return Chain { steps, handed_by: self.missed_from(node) },
            }
        }
    }

    /// Returns the chain of a name that no manifold, input or call has mentioned.
    fn why_unknown(&self, name: &str) -> Chain {
        let step = WhyStep {
            nearest: self.nearest(name),
            ..WhyStep::new(self.environment.path_of(name), WorkerState::Absent)
        };
        Chain { steps: vec![step], handed_by: None }
    }

    /// Returns the worker in another engine that would hand over what a worker at a border misses.
    fn missed_from(&self, node: NodeId) -> Option<HandedBy> {
        let is_missing = self.state(node) == WorkerState::Missing;
        let manifold = self.slots[node].manifold.as_ref().filter(|_| is_missing)?;
        manifold.settings.as_ref()?.handed_by.clone()
    }

    fn why_step(&self, node: NodeId, now: Stamp) -> WhyStep {
        let slot = &self.slots[node];
        let view = self.machine.view(node);
        let state = self.state(node);
        let left = |until: NonZeroU64| Duration::from_nanos(until.get().saturating_sub(now));
        let start_ends = slot.until.filter(|_| state == WorkerState::Starting);
        let start = start_ends.map(|end| {
            let timeout = self.machine.start_timeout(node);
            (timeout.saturating_sub(left(end)), timeout)
        });
        let degraded = slot.degraded().map(str::to_owned);
        let up = slot.started.map(NonZeroU64::get);
        let failures = self.failures_of(node, view, slot, now);
        let is_reason = |error: &&LastError| state.is_due_to_error(failures, error.at, up);
        let error = slot.last_error().filter(is_reason);
        // A name that had a worker before is not misspelled.
        let is_unknown = state == WorkerState::Absent && slot.starts == 0;
        WhyStep {
            failures,
            waits_for: slot.waits_for().map(str::to_owned).into_iter().collect(),
            error: degraded.or_else(|| error.map(|error| error.text.clone())),
            parked_by: slot.parked_by().map(|origin| Origin::clone(origin)),
            nearest: is_unknown.then(|| self.nearest(slot.name().as_str())).flatten(),
            awaits: self.awaits(node),
            starting_for: start.map(|(so_far, _)| so_far.as_secs_f64()),
            start_timeout: start.map(|(_, timeout)| timeout.as_secs_f64()),
            blocks_for: slot.blocks_for(),
            next_try_in: self.waits_until(slot, state).map(|until| left(until).as_secs_f64()),
            ..WhyStep::new(self.path(node), state)
        }
    }

    /// Returns the next worker on the way to the root cause. A worker waits for an input that is not
    /// up, for an output that it has asked for, for a user to stop, or for the worker that its health
    /// names.
    fn next_cause(&self, node: NodeId) -> Option<NodeId> {
        match self.state(node) {
            WorkerState::Waiting => self.awaited_by(node).into_iter().next(),
            WorkerState::Starting => {
                self.awaited_by(node).into_iter().next().or_else(|| self.waits_for(node))
            }
            WorkerState::Closing => {
                let mut users = self.machine.users(node);
                users
                    .find(|(user, input)| {
                        let used = self.machine.input(*user, *input);
                        used.is_some_and(|(edge, is_held)| is_held && edge.need.bounces())
                    })
                    .map(|(user, _)| user)
            }
            WorkerState::HeldBack | WorkerState::Running => self.waits_for(node),
            _ => None,
        }
    }

    /// Returns the other worker that one says it waits for.
    fn waits_for(&self, node: NodeId) -> Option<NodeId> {
        self.find(self.slots[node].waits_for()?)
    }
}
