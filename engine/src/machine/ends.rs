//! What the end of a worker, and of a wait, leads to.

use std::sync::Arc;
use std::time::Duration;

use super::node::{Age, Generation, Node, NodeId, Phase, Rest, StopStage, Token, User};
use super::{Command, EndKind, Machine};

/// The end of one generation's worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) kind: EndKind,
    /// How long it was up before it was told to stop, or ended; zero if it never was.
    pub(crate) ran: Duration,
    /// When it ended, since the engine began.
    pub(crate) at: Duration,
    pub(crate) left: Left,
}

/// What is left of a worker that has ended, such as blocking work or workers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing: it is gone.
    Nothing,
    /// Something, until the driver says that it is gone. It has this grace from now on, or the
    /// usual one from when it was told to stop.
    Something { grace: Option<Duration> },
}

impl Machine {
    /// A worker has ended, in whatever phase.
    ///
    /// Its users are told of the loss, and what follows is decided, at once. Its inputs are let go
    /// and its successor starts when it is gone.
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
            self.graph[id].failures = 0;
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

    /// Nothing is left any more of a worker that has ended.
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

    /// Gives what is left of a worker its graces, if it has none yet.
    fn linger(&mut self, id: NodeId, grace: Option<Duration>) {
        let stage = self.graph[id].stage;
        if stage == StopStage::Free || (stage == StopStage::Told && grace.is_some()) {
            self.graph[id].stage = StopStage::Told;
            let grace = grace.unwrap_or(self.policy_of(id).grace);
            self.arm(id, grace);
        }
        self.touch(id);
        self.act_on(id);
    }

    /// Makes a node idle whose worker is gone.
    fn make_idle(&mut self, id: NodeId, delay: Option<Duration>) {
        if self.graph[id].stage < StopStage::Stuck {
            self.release(id);
            self.live -= 1;
        }
        self.disarm(id);
        let node = &mut self.graph[id];
        node.inputs.iter_mut().for_each(|link| link.held = 0);
        node.phase = Phase::Idle;
        node.stage = StopStage::Free;
        node.is_urgent = false;
        if std::mem::take(&mut node.is_obsolete) && !node.is_installed {
            self.commands.push_back(Command::Removed(id));
        }
        if let Some(delay) = delay {
            self.arm(id, delay);
        }
        self.touch(id);
        self.act_on(id);
    }

    /// Decides what the end of a worker leads to (rule S10, in its order); returns how long the
    /// node rests, if it rests for a time.
    fn rest_after(&mut self, id: NodeId, end: End) -> Option<Duration> {
        let node = &mut self.graph[id];
        let was_marked = std::mem::take(&mut node.is_marked);
        let was_overdue = std::mem::take(&mut node.is_overdue);
        let is_bounced = std::mem::take(&mut node.is_root) && !node.is_parked;
        let (is_obsolete, is_installed) = (node.is_obsolete, node.is_installed);
        match end.kind {
            EndKind::Fatal | EndKind::Dropped => self.kill(),
            // Its successor starts, or nothing.
            _ if is_obsolete => {
                let is_bounced = is_installed && is_bounced;
                return is_bounced.then(|| self.rest_after_bounce(id)).flatten();
            }
            EndKind::Uninstall => self.uninstall(id),
            // A kill marks all, some of them a little later.
            _ if was_marked || self.is_killed => {
                return is_bounced.then(|| self.rest_after_bounce(id)).flatten();
            }
            EndKind::Failed => return self.rest_after_failure(id, end.at),
            _ if was_overdue => return self.rest_after_failure(id, end.at),
            EndKind::Done => {
                node.failures = 0;
                self.rest_unless_outdated(id, Rest::Done);
            }
            EndKind::Missing => {
                self.rest_unless_outdated(id, Rest::Missing);
            }
            // `Stopped` cannot come unasked; if it does, the worker is simply wanted again.
            EndKind::Bounce | EndKind::Stopped => return self.rest_after_bounce(id),
        }
        None
    }

    fn rest_after_bounce(&mut self, id: NodeId) -> Option<Duration> {
        let policy = self.graph[id].policy().unwrap_or(&self.policy);
        let delay = policy.backoff.spread(policy.bounce_delay, &mut self.random);
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
        let delay = policy.backoff.delay(self.graph[id].failures, &mut self.random);
        self.rest_for(id, Rest::Backoff, delay)
    }

    /// Rests a node for a while, and returns for how long; no while is no rest.
    fn rest_for(&mut self, id: NodeId, rest: Rest, delay: Duration) -> Option<Duration> {
        (!delay.is_zero() && self.rest_unless_outdated(id, rest)).then_some(delay)
    }

    /// Rests a node, and returns whether it does: what its worker ended by no longer counts if an
    /// input has changed since it was started.
    fn rest_unless_outdated(&mut self, id: NodeId, rest: Rest) -> bool {
        let node = &mut self.graph[id];
        let is_over = node.is_outdated && rest.is_soft();
        if !is_over {
            node.rest = rest;
        }
        !is_over
    }

    /// Tells those that were started with this generation's output that it has ended by itself.
    /// They are marked by the spread that follows, with all that depend on them.
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
        let lost = users(Age::Current).chain(users(Age::Old));
        self.commands.extend(lost.map(|user| Command::Lose(user, self.graph[user].generation)));
    }

    /// A timer has fired.
    pub(crate) fn fired(&mut self, id: NodeId, token: Token) {
        if !self.is_armed(id, token) {
            return;
        }
        self.disarm(id);
        let node = &mut self.graph[id];
        let generation = node.generation;
        if node.phase == Phase::Idle {
            node.rest = Rest::Ready;
            self.touch(id);
            return;
        }
        match node.stage {
            StopStage::Free => node.is_overdue = true,
            StopStage::Told => {}
            StopStage::Aborted | StopStage::Stuck => return self.give_up(id),
        }
        node.stage = StopStage::Aborted;
        // Of one that has ended there is no future to drop.
        if node.is_active() {
            self.commands.push_back(Command::Abort(id, generation));
        }
        let grace = self.policy_of(id).abort_grace;
        self.arm(id, grace);
        self.touch(id);
    }

    /// A worker has outlived both graces: it no longer counts, until it really ends. What it was
    /// started with is remembered: a start that had older values is bounced when it ends.
    fn give_up(&mut self, id: NodeId) {
        self.release(id);
        let node = &mut self.graph[id];
        node.stage = StopStage::Stuck;
        self.live -= 1;
        self.commands.push_back(Command::Stuck(id, node.generation));
        self.touch(id);
    }
}

/// Counts the failures of the last period with the one now; keeps one more than the limit at most.
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
