//! From the engine's own types to those of the wire.

use crankcase_engine as engine;

use serde_json::{Map, Value};

use super::{
    AttemptsReport, Detail, EngineReport, EngineState, Event, EventLine, Graph, GraphEdge,
    GraphNode, InputReport, Origin, Preview, StartReport, WaitedFor, Why, WhyStep, WorkerError,
    WorkerReport, WorkerState,
};

impl From<engine::Report> for EngineReport {
    fn from(report: engine::Report) -> Self {
        let workers = report.workers.into_iter().map(|(name, worker)| (name, worker.into()));
        Self {
            path: report.path,
            state: report.state.into(),
            is_healthy: report.is_healthy,
            at: report.at.to_string(),
            error: report.error,
            left_behind: report.left_behind,
            workers: workers.collect(),
            omitted: 0,
        }
    }
}

impl From<engine::WorkerReport> for WorkerReport {
    fn from(worker: engine::WorkerReport) -> Self {
        let written = |at: Option<engine::Timestamp>| at.map(|at| at.to_string());
        Self {
            path: worker.path,
            state: worker.state.into(),
            generation: worker.generation,
            starts: worker.starts,
            failures: worker.failures,
            is_essential: worker.is_essential,
            was_aborted: worker.was_aborted,
            blocks_for: worker.blocks_for,
            degraded: worker.degraded,
            waits_for: worker.waits_for,
            parked_by: worker.parked_by.map(Into::into),
            inputs: worker.inputs.into_iter().map(Into::into).collect(),
            installed: worker.installed.map(|at| at.micros().to_string()),
            first_start: worker.first_start.map(Into::into),
            last_start: worker.last_start.map(Into::into),
            attempts: worker.attempts.map(Into::into),
            last_event: worker.last_event,
            started: written(worker.started),
            stopped: written(worker.stopped),
            until: written(worker.until),
            error: worker.error.map(Into::into),
            report: worker.report.map(Into::into),
            reporter: worker.reporter,
        }
    }
}

impl From<engine::Preview> for Preview {
    fn from(preview: engine::Preview) -> Self {
        Self { bounced: preview.bounced, stopped: preview.stopped, inside: 0 }
    }
}

impl From<engine::StartReport> for StartReport {
    fn from(start: engine::StartReport) -> Self {
        let waited_for = match start.waited_for {
            engine::WaitedFor::Input(name) => WaitedFor::Input(name),
            engine::WaitedFor::Delay => WaitedFor::Delay,
            engine::WaitedFor::Backoff => WaitedFor::Backoff,
            engine::WaitedFor::End => WaitedFor::End,
            engine::WaitedFor::Call => WaitedFor::Call,
            _ => WaitedFor::Other,
        };
        Self {
            generation: start.generation,
            ready: start.ready.micros().to_string(),
            waited_for,
            begun: start.begun.micros().to_string(),
            up: start.up.map(|at| at.micros().to_string()),
            failed_attempts: start.failed_attempts,
        }
    }
}

impl From<engine::AttemptsReport> for AttemptsReport {
    fn from(attempts: engine::AttemptsReport) -> Self {
        let engine::AttemptsReport { count, first, last, .. } = attempts;
        Self { count, first: first.to_string(), last: last.to_string() }
    }
}

impl From<engine::InputReport> for InputReport {
    fn from(input: engine::InputReport) -> Self {
        Self {
            output: input.output_name(),
            name: input.name,
            need: input.need.to_owned(),
            state: input.state.into(),
            was_present: input.was_present,
        }
    }
}

impl From<engine::ErrorReport> for WorkerError {
    fn from(error: engine::ErrorReport) -> Self {
        let engine::ErrorReport { text, is_panic, backtrace, at, .. } = error;
        Self { text, is_panic, backtrace, at: at.to_string() }
    }
}

impl From<engine::Detail> for Detail {
    fn from(detail: engine::Detail) -> Self {
        match detail {
            engine::Detail::Engine(report) => Self::Engine(Box::new((*report).into())),
            engine::Detail::Value(value) => Self::Value(value),
            _ => Self::Value(Value::Null),
        }
    }
}

impl From<engine::EngineState> for EngineState {
    fn from(state: engine::EngineState) -> Self {
        match state {
            engine::EngineState::Running => Self::Running,
            engine::EngineState::Stopping => Self::Stopping,
            engine::EngineState::Stopped => Self::Stopped,
            other => Self::Other(format!("{other:?}").to_lowercase()),
        }
    }
}

impl From<engine::WorkerState> for WorkerState {
    fn from(state: engine::WorkerState) -> Self {
        match state {
            engine::WorkerState::Running => Self::Running,
            engine::WorkerState::Starting => Self::Starting,
            engine::WorkerState::HeldBack => Self::HeldBack,
            engine::WorkerState::Paused => Self::Paused,
            engine::WorkerState::Closing => Self::Closing,
            engine::WorkerState::Stopping => Self::Stopping,
            engine::WorkerState::Aborting => Self::Aborting,
            engine::WorkerState::Stuck => Self::Stuck,
            engine::WorkerState::Lingering => Self::Lingering,
            engine::WorkerState::Waiting => Self::Waiting,
            engine::WorkerState::Delayed => Self::Delayed,
            engine::WorkerState::BackingOff => Self::BackingOff,
            engine::WorkerState::Missing => Self::Missing,
            engine::WorkerState::Done => Self::Done,
            engine::WorkerState::Spent => Self::Spent,
            engine::WorkerState::Parked => Self::Parked,
            engine::WorkerState::Absent => Self::Absent,
            other => Self::Other(other.as_str().replace(' ', "_")),
        }
    }
}

impl From<engine::Why> for Why {
    fn from(why: engine::Why) -> Self {
        Self { steps: why.steps.into_iter().map(Into::into).collect() }
    }
}

impl From<engine::WhyStep> for WhyStep {
    fn from(step: engine::WhyStep) -> Self {
        Self {
            path: step.path,
            state: step.state.into(),
            failures: step.failures,
            error: step.error,
            waits_for: step.waits_for,
            parked_by: step.parked_by.map(Into::into),
            awaits: step.awaits,
            starting_for: step.starting_for,
            start_timeout: step.start_timeout,
            nearest: step.nearest,
            blocks_for: step.blocks_for,
            next_try_in: step.next_try_in,
        }
    }
}

impl From<engine::Graph> for Graph {
    fn from(graph: engine::Graph) -> Self {
        Self {
            path: graph.path,
            nodes: graph.nodes.into_iter().map(Into::into).collect(),
            edges: graph.edges.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<engine::GraphNode> for GraphNode {
    fn from(node: engine::GraphNode) -> Self {
        let engine::GraphNode { name, path, state, is_degraded, waits_for, more_users, .. } = node;
        Self { name, path, state: state.into(), is_degraded, waits_for, more_users }
    }
}

impl From<engine::GraphEdge> for GraphEdge {
    fn from(edge: engine::GraphEdge) -> Self {
        Self {
            output: edge.output_name(),
            user: edge.user,
            input: edge.input,
            need: edge.need.to_owned(),
        }
    }
}

impl From<engine::Origin> for Origin {
    fn from(origin: engine::Origin) -> Self {
        Self { who: origin.who, why: origin.why }
    }
}

impl From<&engine::Notice> for EventLine {
    fn from(notice: &engine::Notice) -> Self {
        match notice {
            engine::Notice::Event(event) => Self::Event(event.into()),
            engine::Notice::Missed(missed) => Self::Missed { missed: *missed },
        }
    }
}

impl From<&engine::Event> for Event {
    fn from(event: &engine::Event) -> Self {
        let kind = match serde_json::to_value(&event.kind) {
            Ok(Value::Object(kind)) => kind,
            // No kind is written as anything else.
            _ => Map::new(),
        };
        Self {
            sequence: event.sequence,
            at: event.at.to_string(),
            path: event.path(),
            event: kind,
            origin: event.origin.as_deref().cloned().map(Into::into),
            cause: event.cause,
            text: event.kind.to_string(),
        }
    }
}
