//! One pass over all resources of a site: what plan and apply do.
//!
//! The schedule decides which resource is visited when, and which visits act together. The pass
//! carries that out.
//!
//! The notifications of the schedule mean nothing in a pass. It begins with none, the pass drops
//! their records, and no visit reports that it has acted. A plan writes nothing. An apply keeps its
//! notifications itself: a visit finds in the results so far who has changed, and in the `Notices`
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
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::declaration::Declaration;
use crate::kind::GroupMember;
use crate::kinds::Kinds;
use crate::order::Order;
use crate::schedule::{Answer, Command, Ending, Graph, GraphBuilder, Id, Machine, Policy, Ticket};

/// Returns the graph of declarations that are in an order. Their positions are their numbers.
pub(crate) fn graph(order: &Order, declarations: &[Declaration], kinds: &Kinds) -> Graph {
    let names = declarations.iter().map(|declaration| declaration.name.as_str());
    let positions: HashMap<&str, usize> = names.zip(0..).collect();
    let mut grouping: HashMap<&str, u32> = HashMap::new();
    let mut builder = GraphBuilder::default();
    for node in order.nodes().iter().copied() {
        let declaration = &declarations[node];
        let kind = kinds.get(&declaration.kind).ok().filter(|kind| kind.is_grouping());
        let next = u32::try_from(grouping.len()).expect("there are fewer kinds");
        let kind = kind.map(|kind| *grouping.entry(kind.name()).or_insert(next));
        builder.resource(Id(node), kind);
        for used in declaration.needs().filter_map(|(name, _)| positions.get(name)) {
            builder.needs(Id(node), Id(*used));
        }
        for source in order.notifiers(node) {
            builder.notifies(Id(*source), Id(node));
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
    let state = State { machine, waiting: HashMap::new(), keys: HashMap::new() };
    let shared = Arc::new(Shared { state: state.into(), asked: Notify::new() });
    let mut running = JoinSet::new();
    loop {
        while let Some(command) = shared.next() {
            match command {
                Command::Visit { ticket, .. } => {
                    let turn = Turn { shared: Arc::clone(&shared), ticket, may_share: true };
                    let work = visit(ticket.id.0, &results, Some(turn));
                    running.spawn(async move { (ticket, work.await) });
                }
                Command::Skip { id, .. } => {
                    // Boxed, as it is large and rare.
                    results[id.0] = Some(Box::pin(visit(id.0, &results, None)).await);
                }
                Command::Answer { tickets, answer } => shared.answer(&tickets, answer),
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

/// What a visit has to ask the schedule with.
#[derive(Debug)]
pub(crate) struct Turn {
    shared: Arc<Shared>,
    ticket: Ticket,
    /// Whether its next action may be done together with those of others.
    may_share: bool,
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
    /// The visits that have asked, until they have their answers.
    waiting: HashMap<Ticket, Follower>,
    /// The numbers of the keys of groups.
    keys: HashMap<String, u64>,
}

/// A visit that waits for its answer, and how it is told what to do.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) member: GroupMember,
    pub(crate) told: oneshot::Sender<Part>,
}

/// The part of a visit in an action.
#[derive(Debug)]
pub(crate) enum Part {
    /// It acts for itself and for these.
    Lead(Vec<Follower>),
    /// It was acted for.
    Done,
    /// It acts for itself: acting together has failed, for this reason.
    Alone(String),
    /// Acting together has failed, for this reason, and it may not act for itself.
    Failed(String),
    /// Acting together was interrupted.
    Interrupted,
}

impl Turn {
    /// Has the visit act alone from now on.
    pub(crate) fn leave(&mut self) {
        self.may_share = false;
    }

    /// Asks for an action, perhaps together with others of the same `key`, which is asked for only
    /// then. Returns what the visit has to do; none if nothing may begin any more. Later actions of
    /// the visit are its own.
    pub(crate) async fn ask(
        &mut self,
        key: impl FnOnce() -> Option<String>,
        member: GroupMember,
    ) -> Option<Part> {
        let key = std::mem::take(&mut self.may_share).then(key).flatten();
        let part = self.answer(key, member.clone()).await?;
        // One that was acted for has no slot.
        let may_act = matches!(part, Part::Lead(_)) || self.answer(None, member).await.is_some();
        Some(match part {
            Part::Alone(why) if !may_act => Part::Failed(why),
            // What was done is done, also if the visit may not act any more.
            part => part,
        })
    }

    /// Asks, and waits for the answer. Returns none if the visit or its leader may not act: the
    /// channel is closed then.
    async fn answer(&self, key: Option<String>, member: GroupMember) -> Option<Part> {
        let (told, part) = oneshot::channel();
        {
            let State { machine, waiting, keys } = &mut *self.shared.state.lock();
            let next = keys.len() as u64;
            let key = key.map(|key| *keys.entry(key).or_insert(next));
            waiting.insert(self.ticket, Follower { member, told });
            machine.ask(self.ticket, key);
        }
        self.shared.asked.notify_one();
        part.await.ok()
    }
}

impl Shared {
    fn next(&self) -> Option<Command> {
        self.state.lock().machine.next()
    }

    /// Has the first of some visits act for all, if they may. Otherwise closes the channels of all.
    fn answer(&self, tickets: &[Ticket], answer: Answer) {
        let waiting = &mut self.state.lock().waiting;
        let followers = tickets.iter().filter_map(|ticket| waiting.remove(ticket));
        let mut followers = followers.collect::<Vec<_>>().into_iter();
        if answer == Answer::Act
            && let Some(leader) = followers.next()
        {
            // If its visit was dropped, this closes the channels of the others.
            drop(leader.told.send(Part::Lead(followers.collect())));
        }
    }
}
