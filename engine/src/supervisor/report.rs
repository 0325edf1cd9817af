//! What reports and graphs say of each name.

use std::num::NonZeroU64;
use std::time::Duration;

use super::last_report::{LastWorker, Summary};
use super::registry::Registry;
use super::slot::{FirstStart, LastStart, Slot, Uptime, WorkerSlot};
use super::snapshot::{Asking, Snapshot};
use super::state::state_of;
use super::worker_summary::{RareSummary, WorkerSummary};
use crate::machine::{Cause, Edge, Need, NodeId, Phase, StopStage, View};
use crate::seen::event::Origin;
use crate::seen::graph::{Graph, GraphEdge, GraphNode};
use crate::seen::log::EventRef;
use crate::seen::report::{EngineState, ErrorReport, InputReport, Report, WaitedFor, WorkerState};
use crate::vocabulary::clock::{Stamp, Wall, stamp};
use crate::vocabulary::family::is_pattern;
use crate::vocabulary::name::Text;
use crate::vocabulary::value::Kind;

impl Registry {
    fn wall(&self, stamp: Stamp) -> Wall {
        self.environment.clock.wall.at(stamp)
    }

    pub(super) fn begin_report(&self, error: Option<String>, now: Stamp) -> Snapshot {
        let state =
            if self.machine.is_killed() { EngineState::Stopping } else { EngineState::Running };
        let report = Report {
            path: self.environment.own_path().to_owned(),
            state,
            is_healthy: error.is_none(),
            at: self.wall(now).into(),
            error,
            left_behind: Vec::new(),
            workers: std::collections::BTreeMap::new(),
        };
        Snapshot { report, asks: Vec::new() }
    }

    pub(super) fn add_to_report(&self, snapshot: &mut Snapshot, node: NodeId, now: Stamp) {
        let view = self.machine.view(node);
        let slot = &self.slots[node];
        if !view.is_installed && view.phase == Phase::Idle || self.is_hidden(node) {
            return;
        }
        let Snapshot { report, asks } = snapshot;
        let worker_summary = self.worker_summary(node, view, slot, now);
        let worker = worker_summary.into_report(self.path(node), self.environment.clock.wall);
        report.is_healthy &= worker.is_well() || !worker.is_essential;
        if view.stage == StopStage::Stuck {
            report.left_behind.push(worker.path.clone());
        }
        let name = slot.name().as_str().to_owned();
        if let Some(reporter) = slot.worker.as_ref().and_then(|worker| worker.reporter.clone()) {
            let settings = slot.manifold.as_ref().and_then(|m| m.settings.as_ref());
            let own = settings.and_then(|settings| settings.report_deadline);
            let deadline = own.unwrap_or(self.environment.policy.report_deadline);
            let runtime = self.environment.runtime_of(settings.map(|settings| &**settings)).clone();
            asks.push(Asking { name: name.clone(), reporter, deadline, runtime });
        }
        report.workers.insert(name, worker);
    }

    /// Returns a summary of an engine that has ended. Moves the names into it.
    pub(super) fn summary(&mut self, error: Option<String>, now: Stamp) -> Summary {
        let mut summaries = Vec::with_capacity(self.nodes().len());
        for index in 0..self.slots.len() {
            let node = NodeId::from_index(index);
            let view = self.machine.view(node);
            if (view.is_installed || view.phase != Phase::Idle) && !self.is_hidden(node) {
                let worker_summary = self.worker_summary(node, view, &self.slots[index], now);
                summaries.push((node, worker_summary));
            }
        }
        // A name that was forgotten leaves an empty slot.
        let workers = summaries.into_iter().filter_map(|(node, worker_summary)| {
            Some(LastWorker { name: self.slots[node].name.take()?, worker_summary })
        });
        let workers = workers.collect();
        Summary { at: self.wall(now).into(), error, workers }
    }

    fn worker_summary(&self, node: NodeId, view: View, slot: &Slot, now: Stamp) -> WorkerSummary {
        let state = self.state(node);
        let settings = slot.manifold.as_ref().and_then(|manifold| manifold.settings.as_ref());
        let error = slot.last_error().map(|error| ErrorReport {
            text: error.text.clone(),
            is_panic: error.is_panic,
            backtrace: error.backtrace.clone(),
            at: self.wall(error.at).into(),
        });
        let degraded = slot.degraded().map(str::to_owned);
        let waits_for = slot.waits_for().map(str::to_owned);
        let parked_by = slot.parked_by().map(|origin| Origin::clone(origin));
        let inputs = self.input_reports(node, slot);
        let blocks_for = slot.blocks_for();
        let attempts = slot.attempts();
        let first_start = slot.first_start.as_deref();
        let is_other = |first: &&FirstStart| {
            let is_first_up = first.up.is_some() || !slot.has_come_up;
            first.generation != slot.starts && is_first_up
        };
        let first_start = first_start.filter(is_other).cloned();
        let extras = RareSummary {
            blocks_for,
            degraded,
            waits_for,
            parked_by,
            inputs,
            error,
            attempts,
            first_start,
        };
        WorkerSummary {
            state,
            generation: slot.starts,
            starts: slot.starts - slot.extras().map_or(0, |extras| extras.refused),
            failures: self.failures_of(node, view, slot, now),
            is_essential: settings.is_some_and(|settings| settings.is_essential),
            was_aborted: slot.was_aborted(),
            installed: slot.installed,
            last_event: self.last_event(node, state).sequence(),
            last_start: (slot.last_start.begun > 0).then(|| self.last_start(node)),
            started: slot.started,
            stopped: slot.stopped,
            until: self.waits_until(slot, state),
            extras: (!extras.is_empty()).then(|| Box::new(extras)),
        }
    }

    /// Returns the last event that has changed what is said of a name in this state. What is said of an
    /// input that it waits for changes without an event of its own.
    fn last_event(&self, node: NodeId, state: WorkerState) -> EventRef {
        let own = self.slots[node].last_event_of_all().later(self.last_cause(node, state));
        if state != WorkerState::Waiting {
            return own;
        }
        let inputs = self.machine.inputs(node).map(|(edge, _)| edge.target);
        let last = |input: NodeId| {
            self.slots[input].last_event.later(self.last_cause(input, self.state(input)))
        };
        inputs.map(last).fold(own, EventRef::later)
    }

    /// Returns the event that has put a name into a state for which there is no event of its own.
    fn last_cause(&self, node: NodeId, state: WorkerState) -> EventRef {
        match (state, self.machine.cause(node).0) {
            (WorkerState::Waiting | WorkerState::Closing, Cause::Input(input)) => {
                self.slots[input].last_event
            }
            (WorkerState::Closing, Cause::Kill) => self.killed,
            _ => EventRef::default(),
        }
    }

    /// Returns the last start of a name's worker.
    fn last_start(&self, node: NodeId) -> FirstStart {
        let slot = &self.slots[node];
        let LastStart { cause, ready, begun, .. } = slot.last_start;
        // It has the name of the input, which may be forgotten since.
        let kept = slot.first_start.as_deref().filter(|first| first.generation == slot.starts);
        if let Some(kept) = kept {
            return FirstStart { up: slot.last_up(), ..kept.clone() };
        }
        let waited_for = match cause {
            Cause::Call | Cause::Kill => WaitedFor::Call,
            Cause::Input(input) => match &self.slots[input].name {
                Some(name) => WaitedFor::Input(name.as_str().to_owned()),
                None => WaitedFor::Call,
            },
            Cause::Delay => WaitedFor::Delay,
            Cause::Backoff => WaitedFor::Backoff,
            Cause::End => WaitedFor::End,
        };
        let (generation, up) = (slot.starts, slot.last_up());
        let failed_attempts = slot.failed_attempts();
        FirstStart { generation, waited_for, ready, begun, up, failed_attempts }
    }

    /// Keeps the first start of a name's worker before another start takes its place as the last one.
    pub(super) fn keep_first_start(&mut self, node: NodeId) {
        let slot = &self.slots[node];
        let is_first = slot.first_start.as_ref().is_none_or(|first| first.up.is_none());
        let was_up = slot.has_come_up;
        if slot.last_start.begun > 0 && is_first && (was_up || slot.first_start.is_none()) {
            let first = self.last_start(node);
            self.slots[node].first_start = Some(Box::new(first));
        }
    }

    /// Returns how long a worker was up before it was told to stop; zero if it was not up. A worker
    /// that was up long enough for its failures to be forgotten counts as up for exactly that long.
    pub(super) fn ran(&self, node: NodeId, worker: &WorkerSlot, now: Stamp) -> Duration {
        match (worker.uptime, self.slots[node].started) {
            (Uptime::Now, Some(started)) => Duration::from_nanos(now.saturating_sub(started.get())),
            (Uptime::Long, _) => self.machine.reset_after(node),
            _ => Duration::ZERO,
        }
    }

    /// Returns how many times in a row a worker has failed; 0 if it was up long enough for its
    /// failures to be forgotten.
    pub(super) fn failures_of(&self, node: NodeId, view: View, slot: &Slot, now: Stamp) -> u32 {
        let worker = slot.worker.as_ref();
        let ran = worker.map_or(Duration::ZERO, |worker| self.ran(node, worker, now));
        if view.failures > 0 && ran >= self.machine.reset_after(node) { 0 } else { view.failures }
    }

    /// Returns until when a worker in this state waits: before it is started, or, if it is
    /// degraded, before it tries again.
    pub(super) fn waits_until(&self, slot: &Slot, state: WorkerState) -> Option<NonZeroU64> {
        if matches!(state, WorkerState::Delayed | WorkerState::BackingOff) {
            return slot.until;
        }
        NonZeroU64::new(stamp(
            slot.next_try()?.saturating_duration_since(self.environment.clock.began),
        ))
    }

    fn input_reports(&self, node: NodeId, slot: &Slot) -> Vec<InputReport> {
        let inputs = self.shown_inputs(node).into_iter();
        let report = |input: ShownInput<'_>| InputReport {
            name: input.name.as_str().to_owned(),
            need: input.edge.need.as_str(),
            output: input.kind.name(),
            state: self.state_of_input(input.edge),
            was_present: slot.was_present(input.index),
        };
        inputs.map(report).collect()
    }

    /// Returns the state of an input. A set runs, so to speak, whatever its members do.
    fn state_of_input(&self, edge: Edge) -> WorkerState {
        let is_set = edge.need == Need::Set;
        if is_set { WorkerState::Running } else { state_of(&self.machine.view(edge.target)) }
    }

    /// Returns the inputs of a name. A hidden worker that takes a value out of this engine stands
    /// for its own input.
    fn shown_inputs(&self, node: NodeId) -> Vec<ShownInput<'_>> {
        let manifold = self.slots[node].manifold.iter();
        let declared = manifold.flat_map(|manifold| manifold.blueprint.inputs());
        let inputs = declared.zip(self.machine.inputs(node)).enumerate();
        let mut shown = Vec::new();
        for (index, (input, (edge, _))) in inputs {
            if self.is_source(edge.target) {
                let through = self.shown_inputs(edge.target).into_iter();
                shown.extend(through.map(|input| {
                    let edge = Edge { need: edge.need, ..input.edge };
                    ShownInput { index, edge, ..input }
                }));
            } else {
                shown.push(ShownInput { index, name: &input.name, kind: input.kind, edge });
            }
        }
        shown
    }

    /// Whether a hidden worker takes a value out of this engine. It offers nothing here.
    fn is_source(&self, node: NodeId) -> bool {
        self.is_hidden(node) && self.slots[node].is_source
    }

    pub(super) fn begin_graph(&self) -> Graph {
        Graph::new(self.environment.own_path().to_owned())
    }

    pub(super) fn add_to_graph(&self, graph: &mut Graph, node: NodeId) {
        let slot = &self.slots[node];
        // A name that was forgotten leaves an empty slot.
        let Some(name) = slot.name.as_ref().map(Text::as_str) else { return };
        // The name of an import or an export is shown as far as it is used.
        let sets = self.machine.sets(node).iter().copied();
        let mut users = sets.chain([node]).flat_map(|used| self.machine.users(used));
        let mut is_used = || users.any(|(user, _)| !self.is_hidden(user));
        if self.is_hidden(node) && (self.is_source(node) || !is_used()) {
            return;
        }
        let is_set = slot.name.as_ref().is_some_and(is_pattern);
        let state = if is_set { WorkerState::Running } else { self.state(node) };
        graph.nodes.push(GraphNode {
            name: name.to_owned(),
            path: self.path(node),
            state,
            is_degraded: slot.degraded().is_some(),
            waits_for: slot.waits_for().map(str::to_owned).into_iter().collect(),
            more_users: 0,
        });
        graph.edges.extend(self.shown_inputs(node).into_iter().map(|input| GraphEdge {
            user: name.to_owned(),
            input: input.name.as_str().to_owned(),
            need: input.edge.need.as_str(),
            output: input.kind.name(),
        }));
        let followed = self.machine.users(node).find_map(|(user, index)| {
            let manifold = self.slots[user].manifold.as_ref()?;
            Some(manifold.blueprint.inputs()[index].kind.name())
        });
        let members = self
            .machine
            .members(node)
            .filter(|member| self.machine.view(*member).is_installed && !self.is_source(*member));
        graph.edges.extend(members.map(|member| GraphEdge {
            user: name.to_owned(),
            input: self.name(member),
            need: "member",
            output: followed.unwrap_or_default(),
        }));
        graph.edges.extend(self.awaited_outputs(node).map(|(output, kind)| GraphEdge {
            user: name.to_owned(),
            input: self.name(output),
            need: "awaited",
            output: kind.name(),
        }));
    }
}

/// One input of a name, as it is shown.
struct ShownInput<'a> {
    /// The place among the inputs that the manifold of the name declares.
    index: usize,
    name: &'a Text,
    kind: &'static Kind,
    edge: Edge,
}
