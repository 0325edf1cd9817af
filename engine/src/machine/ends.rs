//! What the end of a worker, and of a wait, leads to.

use std::sync::Arc;
use std::time::Duration;

use super::node::{Age, Generation, Node, NodeId, Phase, Rest, Stage, Token, User};
use super::{Command, EndKind, Machine};

/// The end of one generation's worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) kind: EndKind,
    /// How long it was up before it was told to stop, or ended; zero if it never was.
    pub(crate) ran: Duration,
    /// When it ended, since the engine began.
    pub(crate) at: Duration,
}

impl Machine {
    /// A worker has ended, in whatever phase.
    pub(crate) fn ended(&mut self, id: NodeId, generation: Generation, end: End) {
        if self.graph[id].generation != generation || !self.graph[id].is_live() {
            return;
        }
        if self.graph[id].stage == Stage::Free {
            self.tell_users_of_loss(id, generation);
        }
        self.release(id);
        self.disarm(id);
        let node = &mut self.graph[id];
        if node.stage < Stage::Stuck {
            self.live -= 1;
        }
        let was_marked = std::mem::take(&mut node.is_marked);
        let is_root = std::mem::take(&mut node.is_root);
        let was_obsolete = std::mem::take(&mut node.is_obsolete);
        let was_overdue = std::mem::take(&mut node.is_overdue);
        node.is_swept = false;
        node.phase = Phase::Idle;
        node.stage = Stage::Free;
        node.holders = 0;
        node.rest = Rest::Ready;
        if end.ran >= self.reset_after(id) {
            self.graph[id].failures = 0;
        }
        if matches!(end.kind, EndKind::Fatal | EndKind::Dropped) {
            self.kill();
        } else if was_obsolete {
            self.follow_up(id, is_root);
        } else if end.kind == EndKind::Uninstall {
            self.uninstall(id);
        } else if was_marked {
            if is_root && !self.graph[id].is_parked {
                self.rest_after_bounce(id);
            }
        } else if was_overdue {
            self.rest_after_failure(id, end);
        } else {
            self.rest_after(id, end);
        }
        self.graph[id].is_outdated = false;
        self.touch(id);
        self.act_on(id);
    }

    /// The manifold that the ended worker belonged to is gone: its successor starts, or nothing.
    fn follow_up(&mut self, id: NodeId, is_root: bool) {
        if !self.graph[id].is_installed {
            self.commands.push_back(Command::Removed(id));
        } else if is_root && !self.graph[id].is_parked {
            self.rest_after_bounce(id);
        }
    }

    fn rest_after(&mut self, id: NodeId, end: End) {
        let node = &mut self.graph[id];
        match end.kind {
            EndKind::Done => {
                node.failures = 0;
                self.rest_unless_outdated(id, Rest::Done);
            }
            EndKind::Missing => {
                self.rest_unless_outdated(id, Rest::Missing);
            }
            EndKind::Failed => self.rest_after_failure(id, end),
            // `Stopped` cannot come unasked; if it does, the worker is simply wanted again.
            _ => self.rest_after_bounce(id),
        }
    }

    fn rest_after_bounce(&mut self, id: NodeId) {
        let policy = self.graph[id].policy().unwrap_or(&self.policy);
        let delay = policy.backoff.spread(policy.bounce_delay, &mut self.random);
        self.rest_for(id, Rest::Delay, delay);
    }

    fn rest_after_failure(&mut self, id: NodeId, end: End) {
        let policy = Arc::clone(self.graph[id].policy().unwrap_or(&self.policy));
        let node = &mut self.graph[id];
        node.failures = node.failures.saturating_add(1);
        let is_spent = policy.intensity.is_some_and(|intensity| {
            let limit = usize::try_from(intensity.failures).unwrap_or(usize::MAX);
            count_recent(node, end.at, intensity.within, limit) > limit
        });
        if is_spent {
            self.rest_unless_outdated(id, Rest::Spent);
            return;
        }
        let delay = policy.backoff.delay(self.graph[id].failures, &mut self.random);
        self.rest_for(id, Rest::Backoff, delay);
    }

    /// Rests an idle node for a while; no while is no rest.
    fn rest_for(&mut self, id: NodeId, rest: Rest, delay: Duration) {
        if !delay.is_zero() && self.rest_unless_outdated(id, rest) {
            self.arm(id, delay);
        }
    }

    /// Rests an idle node, and returns whether it does: what it ended by no longer counts if an
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
                link.edge.need.bounces() && link.held == generation
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
            Stage::Free => node.is_overdue = true,
            Stage::Told => {}
            Stage::Aborted | Stage::Stuck => return self.give_up(id),
        }
        node.stage = Stage::Aborted;
        let grace = self.policy_of(id).abort_grace;
        self.commands.push_back(Command::Abort(id, generation));
        self.arm(id, grace);
        self.touch(id);
    }

    /// A worker that was told to stop will not end in its grace, and is not waited for so long.
    pub(crate) fn overrun(&mut self, id: NodeId, generation: Generation) {
        let node = &self.graph[id];
        if node.generation == generation && node.is_live() && node.stage == Stage::Told {
            let token = node.token;
            self.fired(id, token);
        }
    }

    /// A worker has outlived both graces: it no longer counts, until it really ends.
    fn give_up(&mut self, id: NodeId) {
        self.release(id);
        let node = &mut self.graph[id];
        node.stage = Stage::Stuck;
        self.live -= 1;
        self.commands.push_back(Command::Stuck(id, node.generation));
        self.touch(id);
    }
}

/// Counts the failures of the last period with the one now; keeps one more than the limit at most.
fn count_recent(node: &mut Node, now: Duration, within: Duration, limit: usize) -> usize {
    let recent = &mut node.rare_mut().recent;
    while recent.front().is_some_and(|first| now.saturating_sub(*first) >= within) {
        recent.pop_front();
    }
    if recent.len() > limit {
        recent.pop_front();
    }
    recent.push_back(now);
    recent.len()
}
