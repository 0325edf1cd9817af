//! What the machine knows about one name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::vocabulary::hash::Set;
use crate::vocabulary::policy::Policy;

/// A name's number within one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

impl NodeId {
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("an engine holds fewer than 2^32 names"))
    }

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a worker among all that a name has had, from 1. Zero before the first.
pub(crate) type Generation = u32;

/// A moment by the driver's clock. The machine only stores it.
pub(crate) type Moment = u64;

/// Distinguishes a timer of a node from its earlier timers.
pub(crate) type Token = u32;

/// One output of a name, or a part of it that one input selects. The machine only compares ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Port(pub(crate) u32);

/// How a worker depends on an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// The worker starts only while the input is up, and bounces when the input changes.
    Required,
    /// The worker waits for an input that is coming, starts without one that is down, and bounces
    /// when the input changes.
    Optional,
    /// The worker follows the input, which never bounces it and never delays its start.
    Live,
    /// Like `Live`, but the start waits until the input is up.
    LiveRequired,
    /// Like `Required`, but the worker follows the values of the input: a new value does not bounce
    /// it.
    Held,
    /// The input is a set of names. The worker follows the values of all its members.
    Set,
}

impl Need {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Required | Self::Held => "required",
            Self::Optional => "optional",
            Self::Live => "live",
            Self::LiveRequired => "live required",
            Self::Set => "live set",
        }
    }

    /// Whether a start waits until the input is up.
    pub(crate) fn gates(self) -> bool {
        matches!(self, Self::Required | Self::LiveRequired | Self::Held)
    }

    /// Whether the worker is bounced when the input comes or goes.
    pub(crate) fn bounces(self) -> bool {
        matches!(self, Self::Required | Self::Optional | Self::Held)
    }

    /// Whether the worker follows the values of the input, so that a new value does not bounce it.
    pub(crate) fn follows(self) -> bool {
        matches!(self, Self::Live | Self::LiveRequired | Self::Held | Self::Set)
    }
}

/// One declared input of a manifold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    pub(crate) target: NodeId,
    pub(crate) need: Need,
    pub(crate) port: Port,
}

/// An input of the installed manifold, or of the live worker of a former one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) edge: Edge,
    /// The index of this node among the target's users.
    pub(super) back: u32,
    /// The target's generation that the live worker was started with, or zero. A live input follows
    /// every generation, so it is only zero or 1 there.
    pub(super) held: Generation,
}

/// One use of a node by another node.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) node: NodeId,
    pub(super) input: u32,
}

/// Selects the inputs of the installed manifold, or those of the live worker of a former one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Current,
    Old,
}

/// What a node shows its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Status {
    /// Neither up nor coming.
    #[default]
    Down,
    /// Will be up without a further cause.
    Coming,
    /// Running, and not about to stop.
    Up,
}

/// Whether a node has a worker, and what the worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Starting,
    Running,
    /// Its worker has ended, but something of it is left.
    Lingering,
}

/// Why an idle node does not start, apart from its inputs and a park by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Rest {
    #[default]
    Ready,
    /// It waits for its bounce delay. No changed input and no bounce shortens it.
    Delay,
    /// It waits after a failure.
    Backoff,
    /// Its worker ended because something that it needs is missing.
    Missing,
    /// Its worker ended because it was done.
    Done,
    /// Its worker failed more often than the intensity allows.
    Spent,
}

impl Rest {
    /// Whether a changed input, a bounce by hand or an unpark ends it.
    pub(super) fn is_soft(self) -> bool {
        matches!(self, Self::Backoff | Self::Missing | Self::Done | Self::Spent)
    }
}

/// What a node waited for last before its worker could start, or why its worker has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Cause {
    /// A call about the node itself: an install, a bounce, a park or an unpark.
    #[default]
    Call,
    /// An input has come up, has changed, or is no longer up.
    Input(NodeId),
    /// Its bounce delay.
    Delay,
    /// Its backoff.
    Backoff,
    /// The end of its worker before.
    End,
    /// The kill of the engine.
    Kill,
}

/// How far the stop of a live worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) enum StopStage {
    /// It was not told to stop.
    #[default]
    Free,
    /// It was told to stop, or it lingers. Its grace runs.
    Told,
    /// Its future is dropped at its next await. Its second grace runs.
    Aborted,
    /// It is still there after both graces.
    Stuck,
}

/// Fields that few nodes need, kept apart so that most nodes take less of the CPU's cache.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeExtras {
    /// The inputs that the live worker of a former manifold still holds.
    pub(super) old_inputs: Box<[Link]>,
    /// The users that hold or follow this node through the inputs of a former manifold.
    pub(super) old_users: Vec<User>,
    pub(super) policy: Option<Arc<Policy>>,
    /// The policy of the live worker's manifold, if it was replaced by one with another policy.
    pub(super) old_policy: Option<Arc<Policy>>,
    /// The number of bounces in a row, if the bounce delay grows.
    pub(super) bounces: u32,
    /// When the last failures were, since the engine began. Empty without an intensity.
    pub(super) recent: VecDeque<Duration>,
    /// When the rest after a lingering worker's end will be over, since the engine began.
    pub(super) rests_until: Option<Duration>,
    /// The members of this node, if it is a set.
    pub(super) members: Set<NodeId>,
    /// The sets that this node is a member of.
    pub(super) sets: Vec<NodeId>,
}

impl NodeExtras {
    fn is_empty(&self) -> bool {
        self.old_inputs.is_empty()
            && self.old_users.is_empty()
            && self.policy.is_none()
            && self.old_policy.is_none()
            && self.bounces == 0
            && self.recent.is_empty()
            && self.rests_until.is_none()
            && self.members.is_empty()
            && self.sets.is_empty()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    pub(super) inputs: Box<[Link]>,
    pub(super) users: Vec<User>,
    pub(super) extras: Option<Box<NodeExtras>>,
    pub(super) generation: Generation,
    pub(super) token: Token,
    pub(super) failures: u32,
    /// The number of inputs that gate the start and are not up.
    pub(super) unmet: u32,
    /// The number of inputs that gate the start and are down.
    pub(super) blocked: u32,
    /// The number of optional inputs that are coming.
    pub(super) awaited: u32,
    /// The number of live workers that were started with this generation's output. Stuck workers do
    /// not count.
    pub(super) holders: u32,
    /// The number of live workers that follow this node. Stuck workers do not count.
    pub(super) followers: u32,
    /// The number of reasons outside the machine to keep the name when nothing uses it.
    pub(super) pins: u32,
    /// The last cause of a start or a stop, and its moment.
    pub(super) cause: (Cause, Moment),
    pub(super) phase: Phase,
    pub(super) rest: Rest,
    pub(super) stage: StopStage,
    pub(super) shown: Status,
    pub(super) is_installed: bool,
    /// The live worker must stop.
    pub(super) is_marked: bool,
    /// The mark began here, so the restart waits for the bounce delay.
    pub(super) is_root: bool,
    /// The live worker belongs to a manifold that was replaced or removed.
    pub(super) is_obsolete: bool,
    /// The live worker was marked by a kill or after it, not before. It is told to stop only when
    /// nothing follows it.
    pub(super) is_swept: bool,
    /// An input's value changed while the worker was starting.
    pub(super) is_outdated: bool,
    /// The start took longer than its timeout and was aborted.
    pub(super) is_overdue: bool,
    /// Parked by hand.
    pub(super) is_parked: bool,
    pub(super) is_armed: bool,
    /// The id is free for another name.
    pub(super) is_free: bool,
    /// The node counts as not at rest in [`Machine`](super::Machine).
    pub(super) is_busy: bool,
    /// A call waits for this node, so the machine looks at it before all others.
    pub(super) is_urgent: bool,
    /// The node is urgent, but its holders may not be urgent yet.
    pub(super) must_hurry: bool,
    pub(super) in_spread: bool,
    pub(super) in_acts: bool,
    pub(super) in_urgent: bool,
}

impl Node {
    /// Whether it has a worker that is not gone.
    pub(super) fn is_live(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Whether it has a worker that has not ended.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running)
    }

    pub(super) fn extras_mut(&mut self) -> &mut NodeExtras {
        self.extras.get_or_insert_default()
    }

    /// Frees the extras if they are empty.
    pub(super) fn trim(&mut self) {
        self.extras = self.extras.take().filter(|extras| !extras.is_empty());
    }

    pub(super) fn policy(&self) -> Option<&Arc<Policy>> {
        self.extras.as_ref()?.policy.as_ref()
    }

    /// Returns the policy of the live worker, if its manifold was replaced by one with another.
    pub(super) fn old_policy(&self) -> Option<&Arc<Policy>> {
        self.extras.as_ref()?.old_policy.as_ref()
    }

    /// Returns the members of this node, if it is a set.
    pub(super) fn members(&self) -> impl Iterator<Item = NodeId> {
        self.extras.iter().flat_map(|extras| &extras.members).copied()
    }

    /// Returns the users of the node and the sets that it is a member of: their users use it, too.
    pub(super) fn all_users(&self) -> impl Iterator<Item = NodeId> {
        self.users.iter().map(|user| user.node).chain(self.sets().iter().copied())
    }

    /// Returns the sets that this node is a member of.
    pub(super) fn sets(&self) -> &[NodeId] {
        self.extras.as_ref().map_or(&[], |extras| &extras.sets)
    }

    /// Sets the node's own policy, or none, and forgets when the last failures were.
    pub(super) fn begin_policy(&mut self, policy: Option<Arc<Policy>>) {
        if self.extras.is_some() || policy.is_some() {
            let extras = self.extras_mut();
            extras.policy = policy;
            extras.recent = VecDeque::new();
            extras.bounces = 0;
            self.trim();
        }
    }

    pub(super) fn inputs(&self, age: Age) -> &[Link] {
        match age {
            Age::Current => &self.inputs,
            Age::Old => self.extras.as_ref().map_or(&[], |extras| &extras.old_inputs),
        }
    }

    pub(super) fn users(&self, age: Age) -> &[User] {
        match age {
            Age::Current => &self.users,
            Age::Old => self.extras.as_ref().map_or(&[], |extras| &extras.old_users),
        }
    }

    pub(super) fn inputs_mut(&mut self, age: Age) -> &mut [Link] {
        match age {
            Age::Current => &mut self.inputs,
            Age::Old => &mut self.extras_mut().old_inputs,
        }
    }

    pub(super) fn users_mut(&mut self, age: Age) -> &mut Vec<User> {
        match age {
            Age::Current => &mut self.users,
            Age::Old => &mut self.extras_mut().old_users,
        }
    }

    /// Whether it will be up without a further cause, if its coming inputs come up.
    fn is_coming(&self) -> bool {
        match self.phase {
            Phase::Idle | Phase::Lingering => {
                let is_ready = matches!(self.rest, Rest::Ready | Rest::Delay);
                is_ready && self.blocked == 0 && self.stage < StopStage::Stuck
            }
            Phase::Starting if !self.is_marked => !self.is_overdue && self.stage == StopStage::Free,
            Phase::Starting | Phase::Running => self.stage < StopStage::Stuck && self.blocked == 0,
        }
    }

    #[inline]
    pub(super) fn status(&self) -> Status {
        if !self.is_installed || self.is_parked {
            Status::Down
        } else if self.phase == Phase::Running && !self.is_marked {
            Status::Up
        } else if self.is_coming() {
            Status::Coming
        } else {
            Status::Down
        }
    }

    pub(super) fn can_start(&self) -> bool {
        self.is_ready() && self.inputs_allow_start()
    }

    /// Whether it starts as soon as its inputs allow that.
    pub(super) fn is_ready(&self) -> bool {
        self.is_installed
            && !self.is_parked
            && self.phase == Phase::Idle
            && self.rest == Rest::Ready
    }

    /// Whether no input keeps it from being started.
    pub(super) fn inputs_allow_start(&self) -> bool {
        self.unmet == 0 && self.awaited == 0
    }

    /// Whether no manifold is installed at it, nothing uses or pins it, and its last worker is
    /// gone.
    pub(super) fn is_forgettable(&self) -> bool {
        !self.is_free
            && !self.is_installed
            && !self.is_live()
            && self.users.is_empty()
            && self.users(Age::Old).is_empty()
            && self.pins == 0
    }

    /// Whether something will happen to it without a further cause. Backoffs do not count.
    pub(super) fn must_move(&self) -> bool {
        match self.phase {
            Phase::Idle => self.is_installed && !self.is_parked && self.rest == Rest::Delay,
            Phase::Starting | Phase::Lingering => self.stage < StopStage::Stuck,
            Phase::Running => self.is_marked && self.stage < StopStage::Stuck,
        }
    }
}
