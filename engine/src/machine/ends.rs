//! What happens when a worker ends or a timer fires.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::node::{Age, Cause, Generation, Node, NodeId, Phase, Rest, StopStage, Token, User};
use super::{Command, EndKind, Machine};
use crate::vocabulary::backoff::Backoff;

/// The end of one generation's worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) kind: EndKind,
    /// How long it was up before it was told to stop or ended. Zero if it was never up.
    pub(crate) ran: Duration,
    /// When it ended, since the engine began.
    pub(crate) at: Duration,
    pub(crate) left: Left,
}

/// What is left of a worker that has ended, such as blocking work or workers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: the worker is gone.
    Nothing,
    /// Something, until the driver calls [`Machine::gone`]. It has this grace from now on. With
    /// `None` it has the policy's grace: from the request to stop, or from now if there was none.
    Something { grace: Option<Duration> },
}

impl Machine {
    /// Handles the end of a worker, in whatever phase it was.
    ///
    /// At once, decides what follows, and tells the users of the loss if the worker was not told to
    /// stop. The inputs are released and the successor starts when the worker is gone.
    pub(crate) fn ended(&mut self, id: NodeId, generation: Generation, end: End) {
        let node = &self.graph[id];
        if node.generation != generation || !node.is_active() {
            return;
        }
        if node.stage == StopStage::Free {
            self.tell_users_of_loss(id, generation);
        }
        let node = &mut self.graph[id];
        node.is_swept = false;
        node.phase = Phase::Lingering;
        node.holders = 0;
        node.rest = Rest::Ready;
        if end.ran >= self.reset_after(id) {
            let node = &mut self.graph[id];
            node.failures = 0;
            node.extras.iter_mut().for_each(|extras| extras.bounces = 0);
        }
        let delay = self.rest_after(id, end);
        self.graph[id].is_outdated = false;
        match end.left {
            Left::Nothing => self.make_idle(id, delay),
            Left::Something { grace } => {
                self.linger(id, grace);
                if let Some(delay) = delay {
                    self.graph[id].extras_mut().rests_until = Some(end.at.saturating_add(delay));
                }
            }
        }
    }

    /// Handles that nothing is left of a worker that has ended.
    pub(crate) fn gone(&mut self, id: NodeId, generation: Generation, at: Duration) {
        let node = &mut self.graph[id];
        if node.generation != generation || node.phase != Phase::Lingering {
            return;
        }
        let until = node.extras.as_mut().and_then(|extras| extras.rests_until.take());
        node.trim();
        let mut delay = None;
        if matches!(node.rest, Rest::Delay | Rest::Backoff) {
            delay = until.map(|until| until.saturating_sub(at)).filter(|left| !left.is_zero());
            if delay.is_none() {
                node.rest = Rest::Ready;
            }
        }
        self.make_idle(id, delay);
    }

    /// Starts the grace of what is left of a worker, unless one runs already. A `grace` that is
    /// given also replaces the grace after a request to stop.
    fn linger(&mut self, id: NodeId, grace: Option<Duration>) {
        let stage = self.graph[id].stage;
        if stage == StopStage::Free || (stage == StopStage::Told && grace.is_some()) {
            self.graph[id].stage = StopStage::Told;
            let grace = grace.unwrap_or(self.live_policy_of(id).grace);
            self.arm(id, grace);
        }
        self.touch(id);
        self.act_on(id);
    }

    /// Makes a node idle when its worker is gone.
    fn make_idle(&mut self, id: NodeId, delay: Option<Duration>) {
        if self.graph[id].stage < StopStage::Stuck {
            self.release(id);
            self.live -= 1;
        }
        self.disarm(id);
        let node = &mut self.graph[id];
        node.inputs.iter_mut().for_each(|link| link.held = 0);
        node.phase = Phase::Idle;
        node.cause = (Cause::End, self.moment);
        node.stage = StopStage::Free;
        node.is_urgent = false;
        if std::mem::take(&mut node.is_obsolete) {
            if let Some(extras) = &mut node.extras {
                extras.old_policy = None;
                node.trim();
            }
            if !node.is_installed {
                self.commands.push_back(Command::Removed(id));
            }
        }
        if let Some(delay) = delay {
            if self.is_killed {
                // Nothing starts after a kill, so nothing waits.
                self.graph[id].rest = Rest::Ready;
            } else {
                self.arm(id, delay);
            }
        }
        self.touch(id);
        self.act_on(id);
    }

    /// Decides what follows a worker's end, by rule S10 in its order (`docs/proof.md`). Returns how
    /// long the node rests, if it rests for a time.
    fn rest_after(&mut self, id: NodeId, end: End) -> Option<Duration> {
        let node = &mut self.graph[id];
        let was_marked = std::mem::take(&mut node.is_marked);
        let was_overdue = std::mem::take(&mut node.is_overdue);
        let is_root = std::mem::take(&mut node.is_root);
        let is_parked = node.is_parked;
        let (is_obsolete, is_installed) = (node.is_obsolete, node.is_installed);
        // A dependent waits only if the policy asks for it.
        let grows = was_marked && self.policy_of(id).max_bounce_delay.is_some();
        let is_bounced = (is_root || grows) && !is_parked;
        match end.kind {
            EndKind::Fatal | EndKind::Dropped => self.kill(),
            // The successor starts, if there is one.
            _ if is_obsolete => {
                let is_bounced = is_installed && is_bounced;
                return is_bounced.then(|| self.rest_after_bounce(id)).flatten();
            }
            EndKind::Uninstall => self.uninstall(id),
            // A kill marks every worker, but its sweep may not have reached this one.
            _ if was_marked || self.is_killed => {
                return is_bounced.then(|| self.rest_after_bounce(id)).flatten();
            }
            EndKind::Failed => return self.rest_after_failure(id, end.at),
            _ if was_overdue => return self.rest_after_failure(id, end.at),
            EndKind::Done => {
                self.graph[id].failures = 0;
                self.rest_unless_outdated(id, Rest::Done);
            }
            EndKind::Missing => {
                self.rest_unless_outdated(id, Rest::Missing);
            }
            // Only a worker that was told to stop ends as `Stopped`. If another one does, it is
            // started again.
            EndKind::Bounce | EndKind::Stopped => return self.rest_after_bounce(id),
        }
        None
    }

    fn rest_after_bounce(&mut self, id: NodeId) -> Option<Duration> {
        let policy = self.graph[id].policy().unwrap_or(&self.policy);
        let draw = || self.random.random_range(-1.0..=1.0);
        let delay = match policy.max_bounce_delay {
            None => policy.backoff.spread(policy.bounce_delay, draw),
            Some(max) => {
                let initial = policy.bounce_delay;
                let growing = Backoff { initial, max, ..policy.backoff.clone() };
                let bounces = &mut self.graph[id].extras_mut().bounces;
                *bounces = bounces.saturating_add(1);
                growing.delay(*bounces, draw)
            }
        };
        self.rest_for(id, Rest::Delay, delay)
    }

    fn rest_after_failure(&mut self, id: NodeId, at: Duration) -> Option<Duration> {
        let policy = Arc::clone(self.graph[id].policy().unwrap_or(&self.policy));
        let node = &mut self.graph[id];
        node.failures = node.failures.saturating_add(1);
        let is_spent = policy.intensity.is_some_and(|intensity| {
            let limit = usize::try_from(intensity.failures).unwrap_or(usize::MAX);
            count_recent(node, at, intensity.within, limit) > limit
        });
        if is_spent {
            self.rest_unless_outdated(id, Rest::Spent);
            return None;
        }
        let draw = || self.random.random_range(-1.0..=1.0);
        let delay = policy.backoff.delay(self.graph[id].failures, draw);
        self.rest_for(id, Rest::Backoff, delay)
    }

    /// Rests a node for the delay and returns the delay. Returns `None` if the node does not rest.
    fn rest_for(&mut self, id: NodeId, rest: Rest, delay: Duration) -> Option<Duration> {
        (!delay.is_zero() && self.rest_unless_outdated(id, rest)).then_some(delay)
    }

    /// Rests a node and returns whether it rests. Skips a soft rest if an input changed while the
    /// worker was starting: the end of such a worker does not count.
    fn rest_unless_outdated(&mut self, id: NodeId, rest: Rest) -> bool {
        let node = &mut self.graph[id];
        let is_over = node.is_outdated && rest.is_soft();
        if !is_over {
            node.rest = rest;
        }
        !is_over
    }

    /// Tells the workers that were started with this generation's output that it has ended by
    /// itself. The spread that follows marks them and all their dependents.
    fn tell_users_of_loss(&mut self, id: NodeId, generation: Generation) {
        if self.graph[id].phase != Phase::Running {
            return;
        }
        let users = |age| {
            let graph = &self.graph;
            let holds = move |user: &&User| {
                let link = graph[user.node].inputs(age)[user.input as usize];
                link.edge.need.bounces()
                    && link.held == generation
                    && graph[user.node].is_active()
                    && graph[user.node].stage < StopStage::Stuck
            };
            graph[id].users(age).iter().filter(holds).map(|user| user.node)
        };
        let lost: Vec<_> = users(Age::Current).chain(users(Age::Old)).collect();
        for user in lost {
            self.blame(user, Cause::Input(id));
            self.commands.push_back(Command::Lose(user, self.graph[user].generation));
        }
    }

    /// Handles a timer that has fired.
    pub(crate) fn fired(&mut self, id: NodeId, token: Token) {
        if !self.is_armed(id, token) {
            return;
        }
        self.disarm(id);
        let node = &mut self.graph[id];
        let generation = node.generation;
        if node.phase == Phase::Idle {
            let is_delay = std::mem::take(&mut node.rest) == Rest::Delay;
            self.blame(id, if is_delay { Cause::Delay } else { Cause::Backoff });
            self.touch(id);
            return;
        }
        match node.stage {
            StopStage::Free => node.is_overdue = true,
            StopStage::Told => {}
            StopStage::Aborted | StopStage::Stuck => return self.give_up(id),
        }
        node.stage = StopStage::Aborted;
        // A worker that has ended has no future to drop.
        if node.is_active() {
            self.commands.push_back(Command::Abort(id, generation));
        }
        let grace = self.live_policy_of(id).abort_grace;
        self.arm(id, grace);
        self.touch(id);
    }

    /// Gives up on a worker that is still there after both graces: it no longer counts as live or
    /// as a user. Its links keep `held`, so that a changed input still makes a start with older
    /// values outdated.
    fn give_up(&mut self, id: NodeId) {
        self.release(id);
        let node = &mut self.graph[id];
        node.stage = StopStage::Stuck;
        self.live -= 1;
        self.commands.push_back(Command::Stuck(id, node.generation));
        self.touch(id);
    }
}

/// Counts the failures of the last period, including this one. Keeps at most `limit + 1` of them.
fn count_recent(node: &mut Node, now: Duration, within: Duration, limit: usize) -> usize {
    let recent = &mut node.extras_mut().recent;
    while recent.front().is_some_and(|first| now.saturating_sub(*first) >= within) {
        recent.pop_front();
    }
    if recent.len() > limit {
        recent.pop_front();
    }
    recent.push_back(now);
    recent.len()
}
