//! The engine's integration tests: behaviour through the public API.

mod admission;
mod blocking;
mod border_ends;
mod border_values;
mod borders;
mod calls;
mod carriers;
mod changes;
mod compile;
mod convergence;
mod costs;
mod course;
mod delays;
mod drops;
mod ends;
mod errors;
mod events;
mod examples;
mod flaws;
mod graphs;
mod health;
mod inputs;
mod intensity;
mod lingering;
mod live_sets;
mod log;
mod nested;
mod outputs;
mod outside;
mod panics;
mod polls;
mod previews;
mod publishing;
mod refusals;
mod reporter_callers;
mod reporters;
mod reports;
mod runtimes;
mod seeds;
mod seeing;
mod selections;
mod slices;
mod starts;
mod stops;
mod texts;
mod threads;
mod timeouts;
mod tree;
mod trees;
mod turns;
mod waits;
mod watchdog;
mod why;
mod wrapping;

use std::time::Duration;

use crankcase_engine::{Engine, Manifold, Name, Outcome, Policy, Stop, Worker, WorkerState};
use crankcase_testing::test_policy;
use tracing::{Metadata, Subscriber, span};

type TestResult = Result<(), Box<dyn std::error::Error>>;

const A: Name<u32> = Name::new("a");
const B: Name<u32> = Name::new("b");
const C: Name<u32> = Name::new("c");

/// A worker that does nothing until it is told to stop.
struct Idle;

impl Worker for Idle {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}

/// A step in the life of a worker's span.
#[derive(PartialEq)]
enum SpanStep {
    Made,
    Entered,
    LetGo,
}

/// Calls a function with each step of a span.
struct Spans<F>(F);

impl<F: Fn(SpanStep) + Send + Sync + 'static> Subscriber for Spans<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        (self.0)(SpanStep::Made);
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {
        (self.0)(SpanStep::Entered);
    }

    fn exit(&self, _: &span::Id) {}

    fn try_close(&self, _: span::Id) -> bool {
        (self.0)(SpanStep::LetGo);
        false
    }
}

/// Stops an engine whose workers do not all end well when they are told to stop; none is left behind
/// all the same.
async fn stop_all(engine: &Engine) -> TestResult {
    Ok(engine.stop().await?)
}

/// Returns the policy of a test's engine with another grace.
fn with_grace(grace: Duration) -> Policy {
    test_policy().grace(grace)
}

/// Returns the policy of a test's engine with another bounce delay.
fn with_bounce_delay(bounce_delay: Duration) -> Policy {
    test_policy().bounce_delay(bounce_delay)
}

/// Returns what a worker is doing now.
async fn state(engine: &Engine, name: &str) -> WorkerState {
    let graph = engine.graph().await;
    let node = graph.and_then(|graph| graph.nodes.into_iter().find(|node| node.name == name));
    node.map_or(WorkerState::Absent, |node| node.state)
}

/// Returns a manifold that adds one to its input.
fn add_one(input: Name<u32>) -> Manifold {
    Manifold::builder().inputs(input).offers::<(u32,)>().run(|value, up| async move {
        up.ready((value + 1,)).wait().await;
        Ok(())
    })
}
