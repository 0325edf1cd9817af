//! How visits ask the schedule before they act: under plan, apply and run alike.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::kind::contract::GroupMember;
use crate::schedule::{Answer, Machine, Ticket};
use crate::state::Position;

/// Why a visit acts for itself although another one was to act for it. Under run, each visit has a
/// stop of its own.
pub(crate) const INTERRUPTED: &str = "the visit that acted for it was told to stop";

/// A machine under its lock, with its driver.
pub(crate) trait Scheduling: fmt::Debug + Send + Sync {
    /// Asks for an action, perhaps together with others that have the key.
    fn ask(&self, ticket: Ticket, key: Option<String>, question: Question);

    /// Makes the driver take the commands that follow.
    fn take_commands(&self);

    /// Returns whether the visit may act now.
    fn allows(&self, ticket: Ticket) -> bool;
}

/// The visits that have asked, until they have their answers.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: HashMap<Ticket, Question>,
    /// The numbers of the keys of groups.
    keys: HashMap<String, u64>,
}

/// Gives a visit that waits for its answer its part in the action.
pub(crate) type Question = oneshot::Sender<Part>;

/// A visit for which another one acts, once the records that come first are on disk.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) member: GroupMember,
    /// The position up to which records have to be on disk before the action.
    pub(crate) records: Position,
    /// Tells the visit how the action has ended.
    pub(crate) told: Question,
}

/// The part of a visit in an action.
#[derive(Debug)]
pub(crate) enum Part {
    /// It acts for itself and for those followers that join, as soon as the records up to this
    /// position are on disk.
    Lead { followers: Vec<Question>, records: Position },
    /// Another visit acts for it if it joins.
    Join(oneshot::Sender<Follower>),
    /// It was acted for.
    Done,
    /// The visit that was to act for it has not begun to. It asks for itself.
    NotBegun,
    /// It acts for itself, as soon as the records up to this position are on disk: acting together
    /// has failed, for this reason.
    Alone { why: String, records: Position },
    /// Acting together has failed, for this reason, and it may not act for itself.
    Failed(String),
    /// Acting together was interrupted. Unless it is told to stop too, it acts for itself, as soon
    /// as the records up to this position are on disk.
    Interrupted { records: Position },
    /// It does not act.
    NotAllowed(Answer),
}

impl Questions {
    /// Puts a question to the machine. A visit that was given up is refused at once, because the
    /// machine has no answer for it.
    pub(crate) fn ask(
        &mut self,
        machine: &mut Machine,
        (ticket, key): (Ticket, Option<String>),
        question: Question,
    ) {
        if machine.judge(ticket).is_none() {
            drop(question.send(Part::NotAllowed(Answer::Halted)));
            return;
        }
        if self.open.is_empty() {
            // No group is open, so no key is in use.
            self.keys.clear();
        }
        let next = self.keys.len() as u64;
        let key = key.map(|key| *self.keys.entry(key).or_insert(next));
        self.open.insert(ticket, question);
        machine.ask(ticket, key);
    }

    /// Gives an answer to some visits. If they may act, the first of them acts for all, as soon as
    /// the records up to a position are on disk.
    pub(crate) fn answer(&mut self, tickets: &[Ticket], answer: Answer, records: Position) {
        let mut questions = tickets.iter().filter_map(|ticket| self.open.remove(ticket));
        // If a visit was dropped, it needs no answer. If it was to act, the channels of the others
        // close with its own, and they ask for themselves.
        if answer != Answer::Act {
            questions.for_each(|it| drop(it.send(Part::NotAllowed(answer))));
        } else if let Some(leader) = questions.next() {
            let followers = questions.collect();
            drop(leader.send(Part::Lead { followers, records }));
        }
    }

    /// Refuses the questions of visits that were given up.
    pub(crate) fn refuse_lost(&mut self, machine: &Machine) {
        let lost = self.open.extract_if(|ticket, _| machine.judge(*ticket).is_none());
        lost.for_each(|(_, it)| drop(it.send(Part::NotAllowed(Answer::Halted))));
    }
}

/// Lets visits join the one that acts for them. Leaves out visits that were dropped, or cannot
/// join.
pub(crate) async fn joined(questions: Vec<Question>) -> Vec<Follower> {
    let mut followers = Vec::with_capacity(questions.len());
    // They have no slots, so one after another works while the one with a slot waits.
    for question in questions {
        let (join, follower) = oneshot::channel();
        // If it was dropped, its end of the new channel was too.
        drop(question.send(Part::Join(join)));
        followers.extend(follower.await);
    }
    followers
}

/// The handle with which a visit asks the schedule.
#[derive(Debug)]
pub(crate) struct Turn {
    schedule: Arc<dyn Scheduling>,
    ticket: Ticket,
    /// Whether its next action may be done together with those of others.
    may_share: bool,
}

impl Turn {
    pub(crate) fn new(schedule: Arc<dyn Scheduling>, ticket: Ticket) -> Self {
        Self { schedule, ticket, may_share: true }
    }

    /// Makes the visit act alone from now on.
    pub(crate) fn leave(&mut self) {
        self.may_share = false;
    }

    /// Asks, if the visit may not act now. Returns the answer if it still may not: then the visit
    /// ends.
    pub(crate) async fn refusal(&self) -> Option<Answer> {
        if self.schedule.allows(self.ticket) {
            return None;
        }
        self.ask_alone().await.err()
    }

    /// Asks for an action that no other visit may do.
    pub(crate) async fn ask_alone(&self) -> Result<(), Answer> {
        match self.answer(None).await? {
            Part::Lead { .. } => Ok(()),
            _ => Err(Answer::Halted),
        }
    }

    /// Asks for an action, perhaps together with other visits of the same `key`. Makes the key only
    /// in that case. Returns the part of the visit. Later actions of the visit are its own.
    pub(crate) async fn ask(
        &mut self,
        key: impl FnOnce() -> Option<String>,
    ) -> Result<Part, Answer> {
        let key = std::mem::take(&mut self.may_share).then(key).flatten();
        match self.answer(key).await? {
            Part::NotBegun => self.answer(None).await,
            part => Ok(part),
        }
    }

    /// Joins the visit that acts for this one, as soon as the records up to a position are on disk.
    /// Returns the part of the visit after that.
    pub(crate) async fn follow(
        &self,
        leader: oneshot::Sender<Follower>,
        (member, records): (GroupMember, Position),
    ) -> Result<Part, Answer> {
        let (told, part) = oneshot::channel();
        let part = match leader.send(Follower { member, records, told }) {
            Ok(()) => part.await.unwrap_or_else(|_| {
                // Some of its work may still go on.
                Part::Failed("the visit that acted for it was dropped".to_owned())
            }),
            // It was dropped before it has begun.
            Err(_) => Part::NotBegun,
        };
        // A visit for which another one has acted has no slot.
        match (part, self.answer(None).await) {
            (Part::NotBegun, answer) => answer,
            // Another site may have come since they acted together, with others that it notifies.
            (Part::Alone { why, .. }, Ok(Part::Lead { records, .. })) => {
                Ok(Part::Alone { why, records })
            }
            (Part::Interrupted { .. }, Ok(Part::Lead { records, .. })) => {
                Ok(Part::Interrupted { records })
            }
            (Part::Alone { why, .. }, Err(_)) => Ok(Part::Failed(why)),
            (Part::Interrupted { .. }, Err(_)) => Ok(Part::Failed(INTERRUPTED.to_owned())),
            // What was done is done, also if the visit may not act any more.
            (part, _) => Ok(part),
        }
    }

    /// Asks, and waits for the answer.
    async fn answer(&self, key: Option<String>) -> Result<Part, Answer> {
        let (question, part) = oneshot::channel();
        let is_shared = key.is_some();
        self.schedule.ask(self.ticket, key, question);
        if is_shared {
            // Those that are about to ask are in the group.
            yield_now().await;
        }
        self.schedule.take_commands();
        match part.await {
            Ok(Part::NotAllowed(answer)) => Err(answer),
            Ok(part) => Ok(part),
            // The visit that was to act for it was dropped before it has begun.
            Err(_) => Ok(Part::NotBegun),
        }
    }
}
