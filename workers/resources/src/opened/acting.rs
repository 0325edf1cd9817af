//! Acting on a resource, alone or together with others.

use std::sync::Arc;

use crate::action::{Action, Unfinished};
use crate::caught::caught_async;
use crate::context::Context;
use crate::deadline::Deadline;
use crate::kind::GroupMember;
use crate::opened::{Acted, Opened};
use crate::pass::{Follower, Part, Turn};
use crate::text::chain;

impl Opened {
    /// Gives the resource the turn by which it asks the schedule before each action.
    pub(crate) fn join(&self, turn: Option<Turn>) {
        *self.turn.lock() = turn;
    }

    /// Has the resource be acted on alone.
    pub(crate) fn leave(&self) {
        self.turn.lock().iter_mut().for_each(Turn::leave);
    }

    /// Runs an action: together with those of others, if the resource is in a group. Returns none
    /// if the schedule, or `may_start` after the wait for others, keeps it from starting. An action
    /// that has failed together with others and may not start alone is interrupted.
    pub(crate) async fn act(
        &self,
        action: &Action,
        may_start: &(dyn Fn() -> bool + Sync),
    ) -> Option<Acted> {
        let turn = self.turn.lock().take();
        let action = match self.disguise.take(action) {
            Ok(action) => action,
            Err(error) => return Some(Acted::of(Err(Unfinished::Failed(error)), &self.untimed())),
        };
        let Some(mut turn) = turn else { return Some(self.act_alone(&action).await) };
        let key = || self.told(|unit, _| unit.group()).ok().flatten();
        let call = self.untimed();
        let member = GroupMember::new(Arc::clone(&self.made.unit), action.clone(), call.clone());
        let part = turn.ask(key, member.clone()).await;
        self.join(Some(turn));
        let why = match part? {
            Part::Lead(followers) if followers.is_empty() => None,
            Part::Lead(followers) => match self.lead(member, followers, may_start).await? {
                Err(Unfinished::Failed(err)) => Some(chain(&*err)),
                ended => return Some(Acted::of(ended, &call)),
            },
            Part::Done => return Some(Acted::of(Ok(()), &call)),
            Part::Interrupted => return Some(Acted::of(Err(Unfinished::Interrupted), &call)),
            Part::Alone(why) => Some(why),
            Part::Failed(why) => return Some(Acted::failed_together(&why, &call)),
        };
        if !may_start() {
            return why.map(|why| Acted::failed_together(&why, &call));
        }
        // One that is wrong does not fail the others.
        if let Some(why) = why {
            call.log(&format!("it is done alone, as together with others it failed: {why}"));
        }
        let acted = self.act_alone(&action).await;
        Some(Acted { log: [call.lines(), acted.log].concat(), ..acted })
    }

    /// Acts for the resource and for others, and tells them how it has ended.
    async fn lead(
        &self,
        own: GroupMember,
        followers: Vec<Follower>,
        may_start: &(dyn Fn() -> bool + Sync),
    ) -> Option<Result<(), Unfinished>> {
        // The channels of the others close with this: they do not begin either.
        if !may_start() {
            return None;
        }
        let deadline = Deadline::new(self.timeout(), self.made.context.stop());
        let (mut members, told): (Vec<_>, Vec<_>) =
            followers.into_iter().map(|follower| (follower.member, follower.told)).unzip();
        members.insert(0, own);
        for member in &mut members {
            member.context = member.context.within(&deadline);
        }
        let acting = caught_async(self.made.unit.act_together(&members));
        let ended = match deadline.tell(acting).await {
            (Ok(Err(Unfinished::Interrupted)), true) => Err("it took too long".into()),
            (Ok(ended), _) => ended,
            (Err(panicked), _) => Err(panicked.into()),
        };
        for told in told {
            let part = match &ended {
                Ok(()) => Part::Done,
                Err(Unfinished::Interrupted) => Part::Interrupted,
                Err(Unfinished::Failed(err)) => Part::Alone(chain(&**err)),
            };
            // A follower whose apply was dropped needs no answer.
            drop(told.send(part));
        }
        Some(ended)
    }

    async fn act_alone(&self, action: &Action) -> Acted {
        let deadline = Deadline::new(self.timeout(), self.made.context.stop());
        let call = self.made.context.of_call(&deadline);
        let (ended, is_late) = deadline.tell(caught_async(self.made.unit.act(action, &call))).await;
        Acted { ended, is_late, log: call.lines() }
    }
}

impl Acted {
    fn of(ended: Result<(), Unfinished>, call: &Context) -> Self {
        Self { ended: Ok(ended), is_late: false, log: call.lines() }
    }

    /// Returns how an action has ended that was begun together with others, and not done alone.
    fn failed_together(why: &str, call: &Context) -> Self {
        call.log(&format!("it is not done alone, although together with others it failed: {why}"));
        Self::of(Err(Unfinished::Interrupted), call)
    }
}
