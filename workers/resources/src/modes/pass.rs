//! One pass over all resources of a site: what plan and apply do.
//!
//! The schedule decides which resource is visited when, and which visits act together. The pass
//! carries that out.
//!
//! The notifications of the schedule mean nothing in a pass. It begins with none, the pass drops
//! their records, and no visit reports that it has acted. A plan writes nothing. An apply keeps its
//! notifications itself: a visit finds in the visits so far who has changed, and in the records
//! what an earlier run has left. Its `Announcement` is on disk before it acts.
//!
//! Invariants:
//! 1. The visits of everything before a resource are there when its own begins.
//! 2. A visit that waits for an answer, or for another one that acts for it, has no slot. So more
//!    visits can wait than there are slots. A visit for which another one has acted asks for a
//!    slot, and goes on.
//! 3. Dropping the pass drops all visits. A visit whose pass was dropped acts no more.

use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::declare::declaration::Declaration;
use crate::declare::order::Order;
use crate::kind::foresight::Foresight;
use crate::modes::pass::visit::PassVisit;
use crate::schedule::asking::{Question, Questions, Scheduling, Turn};
use crate::schedule::declared::graph;
use crate::schedule::{Answer, Command, Ending, Id, Machine, Policy, Ticket};
use crate::state::Position;
use crate::visit::Visit;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::inputs::Inputs;
use crate::visit::prepared::Setting;

pub(crate) mod visit;

/// A pass over the resources of a site.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) order: &'a Arc<Order>,
    pub(crate) declarations: &'a [Declaration],
    pub(crate) setting: Setting,
    pub(crate) gatekeeper: Arc<Gatekeeper>,
    /// What a plan knows of things that are not there yet. Without it the visits act.
    pub(crate) foresight: Option<Foresight>,
    /// How many resources are visited at a time.
    pub(crate) parallel: NonZeroUsize,
}

impl Pass<'_> {
    /// Visits every resource once, each after all that come before it.
    ///
    /// `visit` gets each visit that is to begin, and returns its work. A resource that is skipped
    /// has no turn: its visit finds in the inputs what holds the resource back, and ends at once.
    /// Visits that could begin at the same moment begin in the graph's order.
    pub(crate) async fn run<F, Fut>(&self, visit: F) -> Vec<Visit>
    where
        F: Fn(PassVisit) -> Fut,
        Fut: Future<Output = Visit> + Send + 'static,
    {
        let graph = graph(self.order, self.declarations, &self.setting.kinds, Id);
        let mut visits: Vec<Option<Visit>> = graph.ids().iter().map(|_| None).collect();
        let machine = Machine::new(Policy::pass(self.parallel.get()), graph, []);
        let state = State { machine, questions: Questions::default() };
        let shared = Arc::new(Shared { state: state.into(), asked: Notify::new() });
        let mut running = JoinSet::new();
        loop {
            while let Some(command) = shared.next() {
                match command {
                    Command::Visit { ticket, .. } => {
                        let turn = Turn::new(Arc::<Shared>::clone(&shared), ticket);
                        let work = visit(self.pass_visit(ticket.id.0, &visits, Some(turn)));
                        running.spawn(async move { (ticket, work.await) });
                    }
                    Command::Skip { id, .. } => {
                        // Boxed, as it is large and rare.
                        let work = Box::pin(visit(self.pass_visit(id.0, &visits, None)));
                        visits[id.0] = Some(work.await);
                    }
                    Command::Answer { tickets, answer } => {
                        let records = Position::default();
                        shared.state.lock().questions.answer(&tickets, answer, records);
                    }
                    // Nothing is sent to a resource that is visited.
                    Command::Write(_) | Command::Wake { .. } => {}
                }
            }
            tokio::select! {
                biased;
                Some(ended) = running.join_next() => {
                    // Panics of kinds are caught where kinds are called: this is a bug of the
                    // crate.
                    let (ticket, visit) =
                        ended.unwrap_or_else(|err| resume_unwind(err.into_panic()));
                    shared.state.lock().machine.report(ticket, Ending::new(visit.outcome()));
                    visits[ticket.id.0] = Some(visit);
                }
                () = shared.asked.notified(), if !running.is_empty() => {}
                else => break,
            }
        }
        let visits = visits.into_iter();
        visits.map(|visit| visit.expect("a pass is over when each resource had its turn")).collect()
    }

    /// Returns the visit of a resource after all that come before it.
    fn pass_visit(&self, node: usize, visits: &[Option<Visit>], turn: Option<Turn>) -> PassVisit {
        let Self { order, declarations, setting, gatekeeper, foresight, .. } = self;
        let at = (node, setting.facilities.records());
        PassVisit {
            node,
            declaration: declarations[node].clone(),
            inputs: Inputs::gather(order, declarations, at, visits, foresight.as_ref()),
            targets: self.targets(node),
            setting: setting.clone(),
            gatekeeper: Arc::clone(gatekeeper),
            prior: None,
            turn: turn.filter(|_| foresight.is_none()),
            left_open: None,
        }
    }

    /// Returns the names of those that a resource notifies, in this run or in a later one.
    pub(crate) fn targets(&self, node: usize) -> Vec<Arc<str>> {
        let now = self.order.notified(node).iter().map(|target| &self.declarations[*target].name);
        let later = &self.declarations[node].notify_later;
        now.chain(later).map(|name| name.as_str().into()).collect()
    }
}

/// The schedule of a pass, which its visits ask.
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
