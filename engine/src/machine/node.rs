//! What the machine knows of one name.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

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

/// Counts the workers that one name has had; zero before the first.
pub(crate) type Generation = u32;

/// Tells one timer of a node from its earlier ones.
pub(crate) type Token = u32;

/// Which of a name's outputs an edge uses. The machine only compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Port(pub(crate) u32);

/// How a worker depends on an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Need {
    /// It is started only while the input is up, and bounced when the input changes.
    Required,
    /// It is started without an input that is not coming, and bounced when the input changes.
    Optional,
    /// It follows the input without ever being bounced or delayed.
    Live,
    /// As live, but its start waits until the input is up.
    LiveRequired,
}

impl Need {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Optional => "optional",
            Self::Live => "live",
            Self::LiveRequired => "live required",
        }
    }

    /// Whether a start waits until the input is up.
    pub(crate) fn gates(self) -> bool {
        matches!(self, Self::Required | Self::LiveRequired)
    }

    /// Whether a change of the input bounces the worker.
    pub(crate) fn bounces(self) -> bool {
        matches!(self, Self::Required | Self::Optional)
    }
}

/// One declared input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Edge {
    pub(crate) target: NodeId,
    pub(crate) need: Need,
    pub(crate) port: Port,
}

/// A declared input of an installed manifold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) edge: Edge,
    /// Where the target lists this node among its users.
    pub(super) back: u32,
    /// The target's generation that the live worker was started with; zero for none. A live input
    /// follows every generation: there it is only zero or not.
    pub(super) held: Generation,
}

/// One use of a node by another.
#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    pub(super) node: NodeId,
    pub(super) input: u32,
}

/// Whose inputs: the installed manifold's, or those of the live worker of a former one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Current,
    Old,
}

/// What a node shows its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Status {
    /// Not running, and will not be without a further cause.
    #[default]
    Down,
    /// Will be up without a further cause.
    Coming,
    /// Running, and not about to stop.
    Up,
}

/// Whether a node has a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Starting,
    Running,
    /// Its worker has ended, and something of it is left.
    Lingering,
}

/// What keeps an idle node from starting, besides its inputs and a park by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Rest {
    #[default]
    Ready,
    /// It waits out its bounce delay, which nothing shortens.
    Delay,
    /// It waits after a failure.
    Backoff,
    /// It ended because something it needs is missing.
    Missing,
    /// It ended because it was done.
    Done,
    /// It failed more often than its intensity allows.
    Spent,
}

impl Rest {
    /// Whether an input change or a bounce by hand ends it.
    pub(super) fn is_soft(self) -> bool {
        matches!(self, Self::Backoff | Self::Missing | Self::Done | Self::Spent)
    }
}

/// How far the stop of a live worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) enum StopStage {
    /// Nothing was said to it.
    #[default]
    Free,
    /// It was told to stop and has its grace.
    Told,
    /// Its future is dropped at its next await, and it has its second grace.
    Aborted,
    /// It outlived both.
    Stuck,
}

/// What few nodes have, so that the others take less of the processor's cache.
#[derive(Debug, Clone, Default)]
pub(super) struct NodeExtras {
    /// What the live worker of an earlier manifold still holds.
    pub(super) old_inputs: Box<[Link]>,
    /// Who holds or follows this node by the inputs of an earlier manifold.
    pub(super) old_users: Vec<User>,
    pub(super) policy: Option<Arc<Policy>>,
    /// When the last failures were, if an intensity is set.
    pub(super) recent: VecDeque<Duration>,
    /// When the rest after a lingering worker's end is over, since the engine began.
    pub(super) rests_until: Option<Duration>,
}

impl NodeExtras {
    fn is_empty(&self) -> bool {
        self.old_inputs.is_empty()
            && self.old_users.is_empty()
            && self.policy.is_none()
            && self.recent.is_empty()
            && self.rests_until.is_none()
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
    /// Inputs that gate the start and are not up.
    pub(super) unmet: u32,
    /// Inputs that gate the start and are down.
    pub(super) blocked: u32,
    /// Optional inputs that are coming.
    pub(super) awaited: u32,
    /// Live workers that were started with this generation's output.
    pub(super) holders: u32,
    /// Live workers that follow this node.
    pub(super) followers: u32,
    /// Reasons from outside to keep the name though nothing uses it.
    pub(super) pins: u32,
    pub(super) phase: Phase,
    pub(super) rest: Rest,
    pub(super) stage: StopStage,
    pub(super) shown: Status,
    pub(super) is_installed: bool,
    /// The live worker is to stop.
    pub(super) is_marked: bool,
    /// The mark began here: the restart waits for the bounce delay.
    pub(super) is_root: bool,
    /// The live worker belongs to a manifold that was replaced or removed.
    pub(super) is_obsolete: bool,
    /// A kill marked the live worker, nothing before: it is told after those that follow it.
    pub(super) is_swept: bool,
    /// An input's value changed while the worker was starting.
    pub(super) is_outdated: bool,
    /// The start took too long and was dropped.
    pub(super) is_overdue: bool,
    /// Parked by hand.
    pub(super) is_parked: bool,
    pub(super) is_armed: bool,
    /// The id waits to be given to another name.
    pub(super) is_free: bool,
    /// Counted in the machine's number of nodes that are not at rest.
    pub(super) is_busy: bool,
    /// A call waits for what the machine does with it: it comes before all others.
    pub(super) is_urgent: bool,
    /// It is urgent, and those that hold it may not be.
    pub(super) must_hurry: bool,
    pub(super) in_spread: bool,
    pub(super) in_acts: bool,
    pub(super) in_urgent: bool,
}

impl Node {
    /// Whether it has a worker of which something is left.
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

    /// Gives back the room of what is extras, if nothing is there any more.
    pub(super) fn trim(&mut self) {
        self.extras = self.extras.take().filter(|extras| !extras.is_empty());
    }

    pub(super) fn policy(&self) -> Option<&Arc<Policy>> {
        self.extras.as_ref()?.policy.as_ref()
    }

    /// Sets a policy of its own, or none, and forgets when the last failures were.
    pub(super) fn begin_policy(&mut self, policy: Option<Arc<Policy>>) {
        if self.extras.is_some() || policy.is_some() {
            let extras = self.extras_mut();
            extras.policy = policy;
            extras.recent = VecDeque::new();
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

    /// Whether it would start if nothing further happened, once its coming inputs are up.
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
        self.is_installed
            && !self.is_parked
            && self.phase == Phase::Idle
            && self.rest == Rest::Ready
            && self.unmet == 0
            && self.awaited == 0
    }

    /// Whether nothing installs, uses or pins it, and its last worker is gone.
    pub(super) fn is_forgettable(&self) -> bool {
        !self.is_free
            && !self.is_installed
            && !self.is_live()
            && self.users.is_empty()
            && self.users(Age::Old).is_empty()
            && self.pins == 0
    }

    /// Whether something will happen to it without a further cause, failures aside.
    pub(super) fn must_move(&self) -> bool {
        match self.phase {
            Phase::Idle => self.is_installed && !self.is_parked && self.rest == Rest::Delay,
            Phase::Starting | Phase::Lingering => self.stage < StopStage::Stuck,
            Phase::Running => self.is_marked && self.stage < StopStage::Stuck,
        }
    }
}
