//! What the loop keeps for each name, in addition to the machine's node.

use std::any::TypeId;
use std::num::NonZeroU64;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::machine::{Cause, Generation, NodeId, Port};
use crate::manifolds::Manifold;
use crate::seen::event::{EventKind, Origin};
use crate::seen::log::EventRef;
use crate::seen::report::WaitedFor;
use crate::vocabulary::chunks::Chunks;
use crate::vocabulary::clock::Stamp;
use crate::vocabulary::discard::discard;
use crate::vocabulary::follow;
use crate::vocabulary::hash::Set;
use crate::vocabulary::live_set::Members;
use crate::vocabulary::name::Text;
use crate::vocabulary::ticks::TICK;
use crate::vocabulary::value::{Kind, Outputs, Value};
use crate::worker::host::Environment;
use crate::worker::launch::Declaration;
use crate::worker::reporter::Reporter;
use crate::worker::stop::Stopper;
use crate::worker::stop::cell::Degraded;

/// The values of one output, for those who follow them.
pub(super) struct Channel {
    kind: &'static Kind,
    /// The part that they follow; `None` for the whole. They are not told of a value with the same
    /// part.
    part: Option<Port>,
    sender: follow::Sender<Option<Value>>,
}

#[derive(Default)]
pub(super) struct Slot {
    pub(super) name: Option<Text>,
    pub(super) manifold: Option<Manifold>,
    pub(super) worker: Option<WorkerSlot>,
    /// How many workers it has had, including those that an admission has refused.
    pub(super) starts: u32,
    /// Whether its manifold, or its last one, passes a value across a border.
    pub(super) is_carrier: bool,
    /// Whether that manifold takes the value out of this engine. Then nobody chose the name.
    pub(super) is_source: bool,
    /// Which inputs were present at the last start.
    present: Box<[bool]>,
    /// When its manifold was installed.
    pub(super) installed: Option<NonZeroU64>,
    /// Its last start.
    pub(super) last_start: LastStart,
    /// Whether the worker of the last start has come up.
    pub(super) has_come_up: bool,
    /// Its first start, once another one may follow.
    pub(super) first_start: Option<Box<FirstStart>>,
    pub(super) started: Option<NonZeroU64>,
    pub(super) stopped: Option<NonZeroU64>,
    /// When its current timer ends.
    pub(super) until: Option<NonZeroU64>,
    /// The last event about it that may cause others.
    pub(super) last_event: EventRef,
    extras: Option<Box<SlotExtras>>,
}

/// The failed attempts of a worker since it was last in good health.
#[derive(Clone, Copy)]
pub(super) struct Attempts {
    pub(super) count: u32,
    pub(super) first: Stamp,
    pub(super) last: Stamp,
}

/// The last start of a name's worker.
#[derive(Default)]
pub(super) struct LastStart {
    /// What it waited for last before that.
    pub(super) cause: Cause,
    /// When it could start. Zero before the first start.
    pub(super) ready: Stamp,
    /// When it was begun.
    pub(super) begun: Stamp,
}

/// The first start of a name's worker that came up, or the first one if none did.
#[derive(Clone)]
pub(super) struct FirstStart {
    pub(super) generation: u32,
    pub(super) waited_for: WaitedFor,
    pub(super) ready: Stamp,
    pub(super) begun: Stamp,
    pub(super) up: Option<NonZeroU64>,
    pub(super) failed_attempts: u32,
}

/// Data that few slots have. It is boxed, so that each of a hundred thousand idle workers costs
/// only a pointer.
#[derive(Default)]
pub(super) struct SlotExtras {
    pub(super) channels: Vec<Channel>,
    /// If the name is a set: the values of its members, by type.
    pub(super) sets: Vec<(&'static Kind, Members)>,
    // Boxed, as many have noted something, and few of them have failed.
    pub(super) last_error: Option<Box<LastError>>,
    pub(super) degraded: Option<Box<Degraded>>,
    pub(super) attempts: Option<Attempts>,
    /// How many attempts had failed when the worker of the last start came up.
    failed_attempts: u32,
    /// The last event about it that causes no other event: of its health, or a note.
    pub(super) aside_event: EventRef,
    /// How many of its workers an admission has refused.
    pub(super) refused: u32,
    /// The origin of the call that parked it. `None` if it is not parked, or if that call had none.
    parked_by: Option<Arc<Origin>>,
    /// The origin of the last bounce or unpark, for the next start.
    asked_by: Option<Arc<Origin>>,
    /// Whether its last worker was aborted: it did not end in its grace, or did not start in time.
    was_aborted: bool,
}

pub(super) struct WorkerSlot {
    pub(super) generation: Generation,
    pub(super) stopper: Stopper,
    pub(super) task: Option<AbortHandle>,
    pub(super) outputs: Outputs,
    pub(super) reporter: Option<Arc<Reporter>>,
    pub(super) uptime: Uptime,
    /// Whether dropping its outputs runs no foreign code and frees little memory. Set at the start,
    /// because the manifold may be replaced later.
    pub(super) is_plain: bool,
    /// Whether its manifold was replaced or uninstalled. Then the name does not offer its outputs.
    pub(super) is_obsolete: bool,
    /// Whether the worker has ended and something of it is left, other than values that are being
    /// dropped.
    pub(super) lingers: bool,
}

/// Whether a worker is up, or was up for long when it was told to stop.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Uptime {
    /// It is not up, and was not up long enough for its failures to be forgotten.
    None,
    /// It is up.
    Now,
    /// It was up long enough for its failures to be forgotten.
    Long,
}

impl WorkerSlot {
    pub(super) fn is_up(&self) -> bool {
        self.uptime == Uptime::Now
    }
}

pub(super) struct LastError {
    pub(super) text: String,
    pub(super) is_panic: bool,
    pub(super) backtrace: Option<String>,
    pub(super) at: Stamp,
}

/// A worker blocks its thread if its task has been polled for this many ticks or more: for a second
/// at least.
const BLOCKING: u32 = 5;

impl Index<NodeId> for Chunks<Slot> {
    type Output = Slot;

    #[inline]
    fn index(&self, node: NodeId) -> &Slot {
        &self[node.index()]
    }
}

impl IndexMut<NodeId> for Chunks<Slot> {
    #[inline]
    fn index_mut(&mut self, node: NodeId) -> &mut Slot {
        &mut self[node.index()]
    }
}

impl Slot {
    pub(super) fn name(&self) -> &Text {
        self.name.as_ref().expect("a slot that is in use has a name")
    }

    pub(super) fn kinds(&self) -> &[&'static Kind] {
        self.manifold.as_ref().map_or(&[], |manifold| manifold.blueprint.offers())
    }

    pub(super) fn extras(&self) -> Option<&SlotExtras> {
        self.extras.as_deref()
    }

    pub(super) fn extras_mut(&mut self) -> &mut SlotExtras {
        self.extras.get_or_insert_default()
    }

    pub(super) fn degraded(&self) -> Option<&str> {
        Some(&self.extras()?.degraded.as_ref()?.reason)
    }

    /// Returns the name of the worker that this one says it waits for, well or not.
    pub(super) fn waits_for(&self) -> Option<&str> {
        Some(&self.extras()?.degraded.as_ref()?.waits_for.as_ref()?.name)
    }

    /// Whether another worker holds this one back.
    pub(super) fn is_held_back(&self) -> bool {
        let degraded = self.extras().and_then(|extras| extras.degraded.as_deref());
        degraded.is_some_and(Degraded::is_held_back)
    }

    /// Whether its worker says that it leaves its work alone because a person has asked for that.
    pub(super) fn is_paused(&self) -> bool {
        let degraded = self.extras().and_then(|extras| extras.degraded.as_deref());
        degraded.is_some_and(|degraded| degraded.is_paused)
    }

    /// Returns for how many seconds its worker has blocked its thread.
    pub(super) fn blocks_for(&self) -> Option<f64> {
        let polled_for = self.worker.as_ref()?.stopper.polled_for()?;
        (polled_for >= BLOCKING).then(|| (TICK * polled_for).as_secs_f64())
    }

    /// Returns when a degraded worker tries again, if it says so.
    pub(super) fn next_try(&self) -> Option<Instant> {
        self.extras()?.degraded.as_ref()?.next_try
    }

    pub(super) fn last_error(&self) -> Option<&LastError> {
        self.extras()?.last_error.as_deref()
    }

    pub(super) fn parked_by(&self) -> Option<&Arc<Origin>> {
        self.extras()?.parked_by.as_ref()
    }

    /// Records the origin of a park. `None` for an unpark, or for a park without an origin.
    pub(super) fn set_parked_by(&mut self, origin: Option<&Arc<Origin>>) {
        if origin.is_some() || self.parked_by().is_some() {
            self.extras_mut().parked_by = origin.cloned();
        }
    }

    /// Records the origin of a bounce or an unpark. `None` for a call without an origin.
    pub(super) fn set_asked_by(&mut self, origin: Option<&Arc<Origin>>) {
        if origin.is_some() || self.extras.is_some() {
            self.extras_mut().asked_by = origin.cloned();
        }
    }

    /// Returns the origin of the last bounce or unpark since the last start, and forgets it.
    pub(super) fn take_asked_by(&mut self) -> Option<Arc<Origin>> {
        self.extras.as_mut()?.asked_by.take()
    }

    /// Records that a start is begun.
    pub(super) fn note_start(&mut self, (cause, ready): (Cause, Stamp), now: Stamp) {
        self.starts = self.starts.saturating_add(1);
        self.last_start = LastStart { cause, ready, begun: now };
        self.has_come_up = false;
    }

    /// Records that the worker is up.
    pub(super) fn note_up(&mut self, now: Stamp) {
        self.started = NonZeroU64::new(now);
        self.has_come_up = true;
        let failed = self.attempts().map_or(0, |attempts| attempts.count);
        if failed > 0 || self.failed_attempts() > 0 {
            self.extras_mut().failed_attempts = failed;
        }
    }

    /// Returns when the worker of the last start came up, if it did.
    pub(super) fn last_up(&self) -> Option<NonZeroU64> {
        self.started.filter(|_| self.has_come_up)
    }

    /// Returns how many attempts had failed when the worker of the last start came up.
    pub(super) fn failed_attempts(&self) -> u32 {
        self.extras().map_or(0, |extras| extras.failed_attempts)
    }

    /// Forgets the starts of a manifold that was uninstalled, when another one is installed.
    pub(super) fn forget_starts(&mut self) {
        (self.first_start, self.last_start) = (None, LastStart::default());
        self.has_come_up = false;
    }

    /// Records which inputs are present.
    pub(super) fn note_present(&mut self, present: &[bool]) {
        // A restart of the same manifold reuses the memory.
        if self.present.len() == present.len() {
            self.present.copy_from_slice(present);
        } else {
            self.present = present.into();
        }
    }

    /// Records which inputs of a new manifold were present at the last start: those that the
    /// previous manifold had too and that were present then.
    pub(super) fn carry_present(&mut self, old: Option<&Manifold>) {
        let had = old.map_or(&[][..], |manifold| manifold.blueprint.inputs());
        if had.is_empty() {
            return self.note_present(&[]);
        }
        let key = |input: &Declaration| (input.name.clone(), input.kind.id());
        let had: Set<_> = had
            .iter()
            .enumerate()
            .filter(|(index, _)| self.was_present(*index))
            .map(|(_, input)| key(input))
            .collect();
        let has = self.manifold.iter().flat_map(|manifold| manifold.blueprint.inputs());
        let present: Vec<_> = has.map(|input| had.contains(&key(input))).collect();
        self.note_present(&present);
    }

    /// Whether an input was present at the last start.
    pub(super) fn was_present(&self, index: usize) -> bool {
        self.present.get(index).is_some_and(|is_there| *is_there)
    }

    /// Forgets the health of the last worker. A new worker begins in good health.
    pub(super) fn forget_health(&mut self) {
        if let Some(extras) = &mut self.extras {
            (extras.degraded, extras.attempts) = (None, None);
        }
    }

    /// Numbers the references to its events.
    pub(super) fn number_events(&mut self, first: u64) {
        self.last_event = self.last_event.numbered(first);
        if let Some(extras) = &mut self.extras {
            extras.aside_event = extras.aside_event.numbered(first);
        }
    }

    /// Returns the last event about it.
    pub(super) fn last_event_of_all(&self) -> EventRef {
        let aside = self.extras().map_or_else(EventRef::default, |extras| extras.aside_event);
        self.last_event.later(aside)
    }

    pub(super) fn attempts(&self) -> Option<Attempts> {
        self.extras()?.attempts
    }

    /// Records the health of the worker. Returns what is new in it.
    pub(super) fn note_health(
        &mut self,
        degraded: Option<Degraded>,
        now: Stamp,
    ) -> Option<EventKind> {
        let Some(degraded) = degraded else {
            let was_degraded = self.degraded().is_some();
            self.forget_health();
            return was_degraded.then_some(EventKind::Health { degraded: None });
        };
        let waits_for = degraded.waits_for.as_ref().map(|awaited| &*awaited.name);
        let is_same = self.degraded() == Some(&*degraded.reason)
            && self.waits_for() == waits_for
            && self.is_held_back() == degraded.is_held_back()
            && self.is_paused() == degraded.is_paused;
        let extras = self.extras_mut();
        if degraded.attempts > 0 {
            let attempts = Attempts { count: 0, first: now, last: now };
            let attempts = extras.attempts.get_or_insert(attempts);
            attempts.count = attempts.count.saturating_add(degraded.attempts);
            attempts.last = now;
        }
        let (reason, has_failed) = (degraded.reason.clone(), degraded.attempts > 0);
        extras.degraded = Some(Box::new(degraded));
        match (is_same, extras.attempts) {
            (false, _) => Some(EventKind::Health { degraded: Some(reason) }),
            (true, Some(Attempts { count, .. })) if has_failed => {
                Some(EventKind::Failed { attempts: count })
            }
            (true, _) => None,
        }
    }

    /// Forgets what does not apply to another manifold of the name.
    pub(super) fn forget_manifold(&mut self) {
        self.set_parked_by(None);
        self.set_asked_by(None);
        self.set_aborted(false);
        self.note_present(&[]);
    }

    /// Records whether its last worker was aborted.
    pub(super) fn set_aborted(&mut self, was_aborted: bool) {
        if was_aborted || self.was_aborted() {
            self.extras_mut().was_aborted = was_aborted;
        }
    }

    pub(super) fn was_aborted(&self) -> bool {
        self.extras().is_some_and(|extras| extras.was_aborted)
    }

    pub(super) fn forget_error(&mut self) {
        if let Some(extras) = &mut self.extras {
            extras.last_error = None;
        }
    }

    /// Returns the index of a type among what the manifold offers.
    pub(super) fn index_of(&self, kind: TypeId) -> Option<usize> {
        self.kinds().iter().position(|offered| offered.id() == kind)
    }

    /// Returns the current value of a type. Every worker that is up offers `()`.
    pub(super) fn value(&self, kind: TypeId) -> Option<Value> {
        let worker = self.worker.as_ref()?;
        if !worker.is_up() || worker.is_obsolete {
            return None;
        }
        match self.index_of(kind) {
            Some(index) => worker.outputs.get(index).cloned(),
            None => (kind == TypeId::of::<()>()).then(|| Arc::new(()) as Value),
        }
    }

    /// Returns a receiver of the values of a type, or of a part of them. Also removes channels
    /// without receivers.
    pub(super) fn follow(
        &mut self,
        kind: &'static Kind,
        part: Option<Port>,
        environment: &Environment,
    ) -> follow::Receiver<Option<Value>> {
        let value = self.value(kind.id());
        let channels = &mut self.extras_mut().channels;
        for left in channels.extract_if(.., |channel| channel.sender.receiver_count() == 0) {
            if let Some(value) = left.sender.replace(None).filter(|_| !left.kind.is_plain()) {
                discard(&environment.workers, value);
            }
        }
        let is_it = |channel: &&Channel| channel.kind.is_same(kind) && channel.part == part;
        if let Some(channel) = channels.iter().find(is_it) {
            return channel.sender.subscribe();
        }
        let (sender, receiver) = follow::channel(value);
        channels.push(Channel { kind, part, sender });
        receiver
    }

    /// Shows the followers what the worker offers now. Returns the replaced values that must not be
    /// dropped in the loop.
    pub(super) fn show(&self) -> impl Iterator<Item = Value> {
        self.channels().iter().filter_map(|channel| self.show_in(channel))
    }

    /// Like [`show`](Self::show), but only for the followers of one type, and not for those of a
    /// part that has not changed.
    pub(super) fn show_changed(
        &self,
        kind: &'static Kind,
        has_changed: impl Fn(Port) -> bool,
    ) -> impl Iterator<Item = Value> {
        let of_kind = self.channels().iter().filter(move |channel| channel.kind.is_same(kind));
        let changed = of_kind.filter(move |channel| channel.part.is_none_or(&has_changed));
        changed.filter_map(|channel| self.show_in(channel))
    }

    fn channels(&self) -> &[Channel] {
        self.extras().map_or(&[], |extras| &extras.channels)
    }

    fn show_in(&self, channel: &Channel) -> Option<Value> {
        let (value, mut unseen) = (self.value(channel.kind.id()), None);
        channel.sender.send_if_modified(|shown| {
            let is_news = shown.is_some() || value.is_some();
            unseen = std::mem::replace(shown, value);
            is_news
        });
        unseen.filter(|_| !channel.kind.is_plain())
    }
}
