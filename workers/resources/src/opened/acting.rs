//! Acting on a resource, alone or together with others.

use std::sync::Arc;

use crate::action::{Action, Unfinished};
use crate::caught::caught_async;
use crate::deadline::Deadline;
use crate::kind::GroupMember;
use crate::opened::{Acted, Opened};
use crate::together::{Follower, Place, Turn};

impl Opened {
    /// Gives the resource a place among those that are acted on together with it.
    pub(crate) fn join(&self, place: Option<Place>) {
        *self.place.lock() = place;
    }

    /// Has those that wait for the resource wait for it no more.
    pub(crate) fn leave(&self) {
        drop(self.place.lock().take());
    }

    /// Runs an action: together with those of others, if the resource has a place among some.
    pub(crate) async fn act(&self, action: &Action) -> Acted {
        let place = self.place.lock().take();
        let key = place.as_ref().and_then(|_| self.told(|unit, _| unit.group()).ok().flatten());
        let Some((place, key)) = place.zip(key) else { return self.act_alone(action).await };
        let call = self.untimed();
        let member = GroupMember::new(Arc::clone(&self.made.unit), action.clone(), call.clone());
        let ended = match place.gather(key, member.clone()).await {
            Turn::Lead(followers) if !followers.is_empty() => self.lead(member, followers).await,
            Turn::Lead(_) | Turn::Alone => return self.act_alone(action).await,
            Turn::Done => Ok(()),
            Turn::Interrupted => Err(Unfinished::Interrupted),
        };
        match ended {
            // One that is wrong does not fail the others.
            Err(Unfinished::Failed(err)) => {
                call.log(&format!("it is done alone, as together with others it failed: {err}"));
                let mut acted = self.act_alone(action).await;
                acted.log = [call.lines(), acted.log].concat();
                acted
            }
            ended => Acted { ended: Ok(ended), is_late: false, log: call.lines() },
        }
    }

    /// Acts for the resource and for others, and tells them how it has ended.
    async fn lead(&self, own: GroupMember, followers: Vec<Follower>) -> Result<(), Unfinished> {
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
            let turn = match &ended {
                Ok(()) => Turn::Done,
                Err(Unfinished::Interrupted) => Turn::Interrupted,
                Err(Unfinished::Failed(_)) => Turn::Alone,
            };
            // One that is gone needs to know nothing.
            drop(told.send(turn));
        }
        ended
    }

    async fn act_alone(&self, action: &Action) -> Acted {
        let deadline = Deadline::new(self.timeout(), self.made.context.stop());
        let call = self.made.context.of_call(&deadline);
        let (ended, is_late) = deadline.tell(caught_async(self.made.unit.act(action, &call))).await;
        Acted { ended, is_late, log: call.lines() }
    }
}
