//! Acting on a resource, alone or together with others.

use std::sync::Arc;

use crate::base::caught::caught_async;
use crate::base::deadline::Deadline;
use crate::base::text::chain;
use crate::declare::action::{Action, Unfinished};
use crate::kind::context::Context;
use crate::kind::contract::GroupMember;
use crate::schedule::Answer;
use crate::schedule::asking::{Follower, INTERRUPTED, Part, Question, Turn, joined};
use crate::state::Position;
use crate::visit::announcement::Announcement;
use crate::visit::opened::{Acted, NotBegun, Opened};

impl Opened {
    /// Gives the resource the turn by which it asks the schedule before each action.
    pub(crate) fn join(&self, turn: Option<Turn>) {
        *self.turn.lock() = turn;
    }

    /// Has the resource be acted on alone.
    pub(crate) fn leave(&self) {
        self.turn.lock().iter_mut().for_each(Turn::leave);
    }

    /// Returns the answer of the schedule if the resource may not act now: then its visit ends.
    pub(crate) async fn refusal(&self) -> Option<Answer> {
        let turn = self.turn.lock().take()?;
        let refusal = turn.refusal().await;
        self.join(Some(turn));
        refusal
    }

    /// Asks the schedule for something that is done to this resource alone.
    pub(crate) async fn ask(&self) -> Result<(), Answer> {
        let Some(turn) = self.turn.lock().take() else { return Ok(()) };
        let answer = turn.ask_alone().await;
        self.join(Some(turn));
        answer
    }

    /// Runs an action: together with those of others, if the resource is in a group. It is not
    /// begun if the schedule, or `may_start` after the wait for others, keeps it from starting. The
    /// announcement is made between the permission and the action. An action that has failed together
    /// with others and may not start alone is interrupted.
    pub(crate) async fn act(
        &self,
        action: &Action,
        announcement: &Announcement,
        may_start: &(dyn Fn() -> bool + Sync),
    ) -> Result<Acted, NotBegun> {
        let action = match self.disguise.take(action) {
            Ok(action) => action,
            Err(error) => return Ok(Acted::of(Err(Unfinished::Failed(error)), &self.untimed())),
        };
        let turn = self.turn.lock().take();
        let Some(mut turn) = turn else {
            let records = self.record(announcement).await?;
            self.flush_promise(announcement, records).await?;
            return Ok(self.act_alone(&action).await);
        };
        let call = self.untimed();
        let member =
            GroupMember::new(Arc::clone(&self.prepared.unit), action.clone(), call.clone());
        let part = self.take_part(&mut turn, (member.clone(), announcement), may_start).await;
        self.join(Some(turn));
        let nothing = Position::default();
        let (why, records) = match part? {
            Part::Lead { followers, records } => {
                match self.lead((member, announcement), (followers, records), may_start).await? {
                    None => (None, nothing),
                    Some(Err(Unfinished::Failed(err))) => (Some(chain(&*err)), nothing),
                    Some(ended) => return Ok(Acted::of(ended, &call)),
                }
            }
            Part::Done => return Ok(Acted::of(Ok(()), &call)),
            // Under run it has a stop of its own.
            Part::Interrupted { records } if may_start() => (Some(INTERRUPTED.to_owned()), records),
            Part::Interrupted { .. } => {
                return Ok(Acted::of(Err(Unfinished::Interrupted), &call));
            }
            // Something else has come before it, so the schedule does not let it act alone now.
            Part::Failed(why) if may_start() => {
                return Ok(Acted::of(Err(Unfinished::Failed(why.into())), &call));
            }
            Part::Alone { why, records } => (Some(why), records),
            Part::Failed(why) => (Some(why), nothing),
            Part::NotAllowed(answer) => return Err(NotBegun::NotAllowed(answer)),
            // It has asked for itself already, and got no answer.
            Part::NotBegun | Part::Join(_) => return Err(NotBegun::NotAllowed(Answer::Halted)),
        };
        if !may_start() {
            let failed = why.map(|why| Acted::failed_together(&why, &call));
            return failed.ok_or(NotBegun::NotAllowed(Answer::Halted));
        }
        // One that is wrong does not fail the others.
        if let Some(why) = why {
            call.log(&format!("it is done alone, as together with others it failed: {why}"));
            // It was begun together with others, so it is not left undone any more.
            if let Err(error) = self.flush(records).await {
                return Ok(Acted::of(Err(Unfinished::Failed(error.into())), &call));
            }
        }
        let acted = self.act_alone(&action).await;
        Ok(Acted { log: [call.lines(), acted.log].concat(), ..acted })
    }

    /// Asks for an action. If another visit may act for this one, joins it when the announcement is
    /// made, and waits until the other one has acted.
    async fn take_part(
        &self,
        turn: &mut Turn,
        (member, announcement): (GroupMember, &Announcement),
        may_start: &(dyn Fn() -> bool + Sync),
    ) -> Result<Part, NotBegun> {
        let key = || self.told(|unit, _| unit.group()).ok().flatten();
        let part = turn.ask(key).await.map_err(NotBegun::NotAllowed)?;
        let Part::Join(leader) = part else { return Ok(part) };
        allowed(may_start)?;
        let records = self.record(announcement).await?;
        turn.follow(leader, (member, records)).await.map_err(NotBegun::NotAllowed)
    }

    /// Makes the announcement, acts for the resource and for the others that join, and tells them
    /// how that has ended. Does not act if there are no others.
    async fn lead(
        &self,
        (own, announcement): (GroupMember, &Announcement),
        (questions, records): (Vec<Question>, Position),
        may_start: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Result<(), Unfinished>>, NotBegun> {
        // If it goes no further, the others are dropped from the group, and ask for themselves.
        allowed(may_start)?;
        let own_records = self.record(announcement).await?;
        let followers = joined(questions).await;
        let positions = followers.iter().map(|follower| follower.records);
        let records = positions.fold(records.max(own_records), Ord::max);
        let flushed = self.flush_promise(announcement, records).await;
        if let Err(refused) = flushed.and_then(|()| allowed(may_start)) {
            for Follower { told, .. } in followers {
                drop(told.send(Part::NotBegun));
            }
            return Err(refused);
        }
        if followers.is_empty() {
            return Ok(None);
        }
        let deadline = Deadline::new(self.timeout(), self.prepared.context.stop());
        let (mut members, told): (Vec<_>, Vec<_>) =
            followers.into_iter().map(|follower| (follower.member, follower.told)).unzip();
        members.insert(0, own);
        for member in &mut members {
            member.context = member.context.within(&deadline);
        }
        let acting = caught_async(self.prepared.unit.act_together(&members));
        let ended = match deadline.tell(acting).await {
            (Ok(Err(Unfinished::Interrupted)), true) => Err("it took too long".into()),
            (Ok(ended), _) => ended,
            (Err(panicked), _) => Err(panicked.into()),
        };
        for told in told {
            let part = match &ended {
                Ok(()) => Part::Done,
                Err(Unfinished::Interrupted) => Part::Interrupted { records },
                Err(Unfinished::Failed(err)) => Part::Alone { why: chain(&**err), records },
            };
            // A follower whose visit was dropped needs no answer.
            drop(told.send(part));
        }
        Ok(Some(ended))
    }

    async fn act_alone(&self, action: &Action) -> Acted {
        let deadline = Deadline::new(self.timeout(), self.prepared.context.stop());
        let call = self.prepared.context.of_call(&deadline);
        let (ended, is_late) =
            deadline.tell(caught_async(self.prepared.unit.act(action, &call))).await;
        Acted { ended, is_late, log: call.lines() }
    }
}

/// Returns that an action may not start, if it may not.
fn allowed(may_start: &(dyn Fn() -> bool + Sync)) -> Result<(), NotBegun> {
    if may_start() { Ok(()) } else { Err(NotBegun::NotAllowed(Answer::Halted)) }
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
