//! One pass over all resources of a site: what plan and apply do.
//!
//! The schedule decides which resource is visited when, and which visits act together. The pass
//! carries that out.
//!
//! The notifications of the schedule mean nothing in a pass. It begins with none, the pass drops
//! their records, and no visit reports that it has acted. A plan writes nothing. An apply keeps its
//! notifications itself: a visit finds in the results so far who has changed, and in the records
//! what an earlier run has left. Its `Promise` is on disk before it acts.
//!
//! Invariants:
//! 1. The results of everything before a resource are there when its visit begins.
//! 2. A visit that waits for an answer, or for another one that acts for it, has no slot. So more
//!    visits can wait than there are slots. A visit for which another one has acted asks for a
//!    slot, and goes on.
//! 3. Dropping the pass drops all visits. A visit whose pass was dropped acts no more.

use std::collections::HashMap;
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::asking::{Question, Questions, Scheduling, Turn};
use crate::declaration::Declaration;
use crate::kinds::Kinds;
use crate::order::Order;
use crate::schedule::{Answer, Command, Ending, Graph, GraphBuilder, Id, Machine, Policy, Ticket};
use crate::state::Position;

/// Returns the graph of declarations that are in an order. `id` returns the number of the resource
/// at a position.
pub(crate) fn graph(
    order: &Order,
    declarations: &[Declaration],
    kinds: &Kinds,
    id: impl Fn(usize) -> Id,
) -> Graph {
    let names = declarations.iter().map(|declaration| declaration.name.as_str());
    let positions: HashMap<&str, usize> = names.zip(0..).collect();
    let mut grouping: HashMap<&str, u32> = HashMap::new();
    let mut builder = GraphBuilder::default();
    for node in order.nodes().iter().copied() {
        let declaration = &declarations[node];
        let kind = kinds.get(&declaration.kind).ok().filter(|kind| kind.is_grouping());
        let next = u32::try_from(grouping.len()).expect("there are fewer kinds");
        let kind = kind.map(|kind| *grouping.entry(kind.name()).or_insert(next));
        builder.resource(id(node), kind);
        for used in declaration.needs().filter_map(|(name, _)| positions.get(name)) {
            builder.needs(id(node), id(*used));
        }
        for source in order.notifiers(node) {
            builder.notifies(id(*source), id(node));
        }
    }
    builder.build().expect("they are in an order")
}

/// Visits every resource once, each after all that come before it, at most so many at a time.
///
/// `visit` gets the position of a resource, the results so far, and a [`Turn`], and returns the
/// work. A resource that is skipped has no turn: its work finds in the results what holds the
/// resource back, and ends at once. `ending` returns what the schedule gets to know of a result.
/// Visits that could begin at the same moment begin in the graph's order.
pub(crate) async fn pass<T, F, Fut>(
    graph: Graph,
    parallel: NonZeroUsize,
    visit: F,
    ending: fn(&T) -> Ending,
) -> Vec<T>
where
    T: Send + 'static,
    F: Fn(usize, &[Option<T>], Option<Turn>) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
{
    let mut results: Vec<Option<T>> = graph.ids().iter().map(|_| None).collect();
    let machine = Machine::new(Policy::pass(parallel.get()), graph, []);
    let state = State { machine, questions: Questions::default() };
    let shared = Arc::new(Shared { state: state.into(), asked: Notify::new() });
    let mut running = JoinSet::new();
    loop {
        while let Some(command) = shared.next() {
            match command {
                Command::Visit { ticket, .. } => {
                    let turn = Turn::new(Arc::<Shared>::clone(&shared), ticket);
                    let work = visit(ticket.id.0, &results, Some(turn));
                    running.spawn(async move { (ticket, work.await) });
                }
                Command::Skip { id, .. } => {
                    // Boxed, as it is large and rare.
                    results[id.0] = Some(Box::pin(visit(id.0, &results, None)).await);
                }
                Command::Answer { tickets, answer } => {
                    let records = Position::default();
                    shared.state.lock().questions.answer(&tickets, answer, records);
                }
                Command::Write(_) => {}
            }
        }
        tokio::select! {
            biased;
            Some(ended) = running.join_next() => {
                // Panics of kinds are caught where kinds are called: this is a bug of the crate.
                let (ticket, result) = ended.unwrap_or_else(|err| resume_unwind(err.into_panic()));
                shared.state.lock().machine.report(ticket, ending(&result));
                results[ticket.id.0] = Some(result);
            }
            () = shared.asked.notified(), if !running.is_empty() => {}
            else => break,
        }
    }
    results
        .into_iter()
        .map(|result| result.expect("a pass is over when each resource had its turn"))
        .collect()
}

/// What all visits of a pass share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the pass when a visit has asked for an action.
    asked: Notify,
}

#[derive(Debug)]
struct State {
    machine: Machine,
    questions: Questions,
}

impl Shared {
    fn next(&self) -> Option<Command> {
        self.state.lock().machine.next()
    }
}

impl Scheduling for Shared {
    fn ask(&self, ticket: Ticket, key: Option<String>, question: Question) {
        let State { machine, questions } = &mut *self.state.lock();
        questions.ask(machine, (ticket, key), question);
    }

    fn take_commands(&self) {
        self.asked.notify_one();
    }

    fn allows(&self, ticket: Ticket) -> bool {
        self.state.lock().machine.judge(ticket) == Some(Answer::Act)
    }
}
