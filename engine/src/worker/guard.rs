//! The guard of a worker's task or thread, which sends the worker's end exactly once.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;

use super::context::Context;
use super::finish::{Finish, TaskEnd};
use super::host::Identity;
use super::launch::{Blueprint, Checks, FEW, InputValue, Launch};
use super::message::Message;
use super::observe::Observed;
use super::stop::Stop;
use super::wrap::{Wrapped, WrappedInput, wrap_of};
use crate::vocabulary::exit::{Exit, Panicked};
use crate::vocabulary::settings::Settings;

/// Sends a worker's end to the engine, even if the task is dropped.
pub(super) struct Guard {
    pub(super) stop: Stop,
    pub(super) settings: Option<Arc<Settings>>,
    pub(super) observed: Option<Arc<Observed>>,
    entry: Option<Box<Checks>>,
    /// Keeps this nested engine from counting as gone in its outer engine.
    linger: Option<Box<dyn Send>>,
    /// How the worker has ended if the guard is dropped now. `None` once the end was sent.
    pub(super) if_dropped: Option<TaskEnd>,
}

impl Guard {
    pub(super) fn new(launch: &mut Launch) -> Self {
        let is_carrier = launch.settings.as_ref().is_some_and(|settings| settings.is_carrier);
        let is_hidden = is_carrier && !launch.ctx.identity().environment().shows_carriers;
        let observed = if is_hidden { None } else { launch.ctx.observe() };
        Self {
            stop: launch.ctx.stop().clone(),
            settings: launch.settings.take(),
            observed,
            entry: launch.entry.take(),
            linger: launch.ctx.identity().host.linger_outside(),
            if_dropped: Some(TaskEnd::Dropped),
        }
    }

    pub(super) fn identity(&self) -> &Identity {
        self.stop.identity()
    }

    /// Asks the checks that the worker must pass before its start.
    pub(super) fn enter(&mut self, ctx: &Context) -> Result<(), Exit> {
        self.entry.as_mut().map_or(Ok(()), |entry| entry.enter(ctx))
    }

    /// Returns the wrapper of the worker, if the engine has one.
    pub(super) fn wrap(
        &self,
        ctx: &Context,
        input_values: &[InputValue],
        manifold: &dyn Blueprint,
    ) -> Option<Box<dyn Wrapped>> {
        let wrap = wrap_of(ctx.identity().environment())?;
        let given: SmallVec<[bool; FEW]> =
            input_values.iter().map(InputValue::is_present).collect();
        let admitted = self.entry.as_ref().and_then(|entry| entry.inputs());
        let (inputs, present) = admitted.unwrap_or((manifold.inputs(), &given));
        let inputs = inputs.iter().zip(present).map(|(input, is_present)| WrappedInput {
            name: input.name.as_str(),
            need: input.need.as_str(),
            output: input.kind.name(),
            is_present: *is_present,
            is_selected: input.selection.is_some(),
        });
        let inputs = inputs.collect::<SmallVec<[_; FEW]>>();
        let is_carrier = self.settings.as_ref().is_some_and(|settings| settings.is_carrier);
        Some(match is_carrier {
            true => wrap.wrap_carrier(ctx, &inputs),
            false => wrap.wrap(ctx, &inputs),
        })
    }

    /// Judges how the worker has ended, and returns the message of its end, which must be sent.
    pub(super) fn finish(&mut self, last: TaskEnd) -> Message {
        self.if_dropped = None;
        let (stop, settings) = (&self.stop, self.settings.as_deref());
        let environment = self.identity().environment();
        let judge = AssertUnwindSafe(|| Finish::judge(last, stop, settings, environment));
        let finish = catch_unwind(judge)
            .unwrap_or_else(|payload| Finish::of_panic(&Panicked::from_payload(payload)));
        if let Some(observed) = &self.observed {
            observed.ended(finish.kind);
        }
        let (entry, linger) = (self.entry.take(), self.linger.take());
        let is_refused = entry.as_ref().is_some_and(|entry| entry.has_refused);
        let mut dropping = None;
        if entry.is_some() || linger.is_some() {
            dropping =
                self.stop.has_drops().then(|| Box::new(self.stop.dropping()) as Box<dyn Send>);
            self.stop.once_gone(move || {
                if let Some(entry) = entry {
                    entry.leave();
                }
                drop(linger);
            });
        }
        self.stop.set_ended();
        let Identity { node, generation, .. } = *self.identity();
        Message::Ended { node, generation, finish, is_refused, dropping }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(last) = self.if_dropped.take() {
            let message = self.finish(last);
            self.identity().host.send(message);
        }
    }
}

pub(super) fn panicked(payload: Box<dyn Any + Send>) -> Exit {
    Exit::failed(Panicked::from_payload(payload))
}
