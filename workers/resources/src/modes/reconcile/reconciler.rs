//! The worker of one resource: it visits the resource when the schedule says so.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use std::thread;
use std::time::Duration;

use crankcase_engine::{Backoff, Exit, Outcome, Stop};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::naming::worker_name;
use crate::base::text::cut_after;
use crate::declare::declaration::Declaration;
use crate::modes::reconcile::open_resource::OpenResource;
use crate::modes::reconcile::{Links, Reconcile};
use crate::report::observer::{AskedBy, Event, EventKind};
use crate::schedule::cause::{VisitBasis, Why, Whys};
use crate::schedule::handle::ScheduleHandle;
use crate::schedule::pace::Pace;
use crate::schedule::retry_state::RetryState;
use crate::schedule::shared::{AfterVisit, BegunVisit, Consequence, VisitReport};
use crate::schedule::state::State;
use crate::schedule::{Reason, Ticket};
use crate::visit::announcement::flush_answers;
use crate::visit::gatekeeper::Gatekeeper;
use crate::visit::supervised::News;
use crate::visit::watching::any;
use crate::visit::{Step, Visit};

mod adoption;
mod paused;
mod program;
mod round;

/// The length of the longest error in an event, in characters.
const LONGEST_ERROR: usize = 4_000;

/// What a look costs at least that a watch has caused and that has failed.
const FAILED_LOOK: Duration = Duration::from_millis(100);

/// For how long a resource waits for another one that is at work before it says so.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is said of a resource that is repaired again and again.
const FOUGHT_OVER: &str = "something else changes it again and again; it is mended less often";

/// The worker of one resource.
pub(crate) struct Reconciler<F> {
    name: String,
    setting: Arc<Reconcile>,
    links: Links,
    stop: Stop,
    gatekeeper: Gatekeeper,
    handle: ScheduleHandle,
    /// Whether a requested visit has not begun, and nobody was told so yet.
    is_waiting: bool,
    /// Why the next visit comes, as far as that is known.
    whys: Whys,
    /// Why the last one came, as a text.
    why: String,
    /// Who has asked for the last one, if somebody has.
    asked_by: Option<Box<AskedBy>>,
    /// How long the last visit took, without the time that it waited for files to be left alone.
    took: Duration,
    /// How long it waited for that.
    rested: Duration,
    /// How it has failed, if it has.
    last_failure: Option<String>,
    /// Whether it has left its site and was put back as it was.
    is_back: bool,
    /// Whether a person has paused it, as the last visit has found.
    is_paused: bool,
    retry_state: RetryState,
    pace: Pace,
    /// The last states of the dependencies, by alias.
    known: BTreeMap<String, State>,
    /// The declaration that the last visit has used.
    visited_by: Option<Declaration>,
    /// What the resource was visited with when it was last made as declared: what differs after
    /// that is drift.
    made_by: Option<VisitBasis>,
    held: Option<OpenResource>,
    /// The pid of the program that was started last, until its end was told.
    pid: Option<i32>,
    state: Option<watch::Sender<State>>,
    offer: Option<F>,
}

/// Why a worker goes on.
enum Next {
    Stop,
    /// The schedule has the resource visited.
    Visit(Box<BegunVisit>),
    /// The resource itself may have changed, as its watches say.
    Seen(Vec<Why>),
    /// The health of its program may have changed.
    Health,
    /// It has waited for long enough.
    Time,
    Ended(Exit),
}

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    pub(crate) fn new(setting: Arc<Reconcile>, mut links: Links, offer: F, stop: Stop) -> Self {
        let name = links.declaration.get().name.clone();
        let mut whys = Whys::default();
        whys.extend([links.asked_by.take().map_or(Why::Started, |by| Why::Asked(by.into()))]);
        Self {
            handle: ScheduleHandle::new(links.schedule.clone(), &name),
            gatekeeper: Gatekeeper::new(stop.clone()),
            is_waiting: true,
            whys,
            why: String::new(),
            asked_by: None,
            is_back: false,
            is_paused: false,
            took: Duration::ZERO,
            rested: Duration::ZERO,
            last_failure: None,
            retry_state: RetryState::new(setting.seed ^ seed_of(&name)),
            pace: Pace::default(),
            known: BTreeMap::new(),
            visited_by: None,
            made_by: None,
            held: None,
            pid: None,
            state: None,
            offer: Some(offer),
            name,
            setting,
            links,
            stop,
        }
    }

    /// Keeps the resource until the worker is told to stop, or the engine is to decide.
    pub(crate) async fn run(&mut self) -> Outcome {
        if self.links.schedule.is_to_be_parked(&self.name) {
            // The resource was parked under an earlier agent, and the engine parks a worker only
            // once it is there. That agent may have left a program that nobody has adopted.
            let facilities = &self.setting.facilities;
            facilities.end_survivors_of(&self.name, "its resource is parked").await;
            self.stop.wait().await;
            return Ok(());
        }
        let mut delay = PATIENCE;
        loop {
            delay = match self.wait(delay).await {
                Next::Stop => return Ok(()),
                Next::Ended(exit) => {
                    self.tell_error(&self.redact(&exit.to_string()), None);
                    self.handle.fail();
                    return Err(exit);
                }
                Next::Visit(visit) => {
                    // Boxed, so that a resource at rest does not hold the memory of a look.
                    let visited = Box::pin(self.visit(*visit)).await;
                    match visited {
                        Ok(_) if self.stop.is_stopped() => return Ok(()),
                        Ok(delay) => delay,
                        Err(exit) => return Err(exit),
                    }
                }
                Next::Seen(whys) => self.request(Reason::Change, whys),
                Next::Health => self.request(Reason::Routine, [Why::Health]),
                Next::Time if self.is_waiting => self.wait_for_another(),
                Next::Time => {
                    let why = if self.last_failure.is_some() { Why::Retry } else { Why::Poll };
                    self.request(Reason::Routine, [why])
                }
            }
        }
    }

    /// Requests a visit. Returns how long to wait for it before that is said.
    fn request(&mut self, reason: Reason, whys: impl IntoIterator<Item = Why>) -> Duration {
        self.whys.extend(whys);
        self.is_waiting = true;
        self.handle.request(reason);
        PATIENCE
    }

    /// Says that a visit waits for another resource, or for its turn, if it does. Returns how long
    /// to wait until a visit is requested once more, in case that none is to come.
    fn wait_for_another(&mut self) -> Duration {
        self.is_waiting = false;
        if let Some(name) = self.handle.waits_for() {
            let reason = format!("waits for \"{name}\", which has something to do");
            self.links.health.waits_for(&worker_name(&name), reason);
        } else if let Some(slots) = self.handle.lacks_slot() {
            let reason = format!("waits until one of {slots} resources that are worked on is done");
            self.links.health.degraded(reason);
        }
        self.full_look()
    }

    /// Visits the resource, and reports how the visit has ended. Returns how long to wait at most
    /// for the next one. What the engine is to decide on ends the worker.
    async fn visit(&mut self, begun: BegunVisit) -> Result<Duration, Exit> {
        let began = Instant::now();
        self.is_waiting = false;
        self.rested = Duration::ZERO;
        let failures = self.retry_state.failures();
        let mut whys = self.whys_of(&begun);
        let BegunVisit { ticket, notices, .. } = begun;
        let (declaration, was_visited) = self.links.declaration.visit();
        let before = self.visited_by.replace(declaration.clone());
        let is_redeclared = before.map_or(!was_visited, |before| !before.is_clone_of(&declaration));
        let mut visit = Visit::new(&declaration, notices);
        let declared = (&declaration, is_redeclared);
        let pause = self.links.schedule.pause_of(&self.name);
        let was_paused = std::mem::replace(&mut self.is_paused, pause.is_some());
        self.follow_health(&declaration);
        let rounded = match pause {
            Some(hold) => self.leave_alone(&declaration, ticket, hold, &mut visit).await,
            None => {
                whys.extend(was_paused.then_some(Why::Resumed));
                self.round(declared, ticket, &mut visit, &mut whys).await
            }
        };
        if let Err(end) = rounded {
            visit.end = end;
        }
        self.took = began.elapsed().saturating_sub(self.rested);
        let closing = closing(ticket, &visit);
        let (state, is_good) = (closing.state.clone(), closing.outcome.is_good());
        if !is_good && self.stop.is_stopped() {
            // Most likely that is why. The next worker sees how the resource is.
            self.handle.give_up(&closing);
            // When the agent ends, the next one tells the event of the action, as after a kill.
            if visit.end.unfinished().is_some() && !self.setting.facilities.leaves_programs() {
                self.tell_no_event().await;
            }
            return Ok(Duration::ZERO);
        }
        let Consequence { stands, records } = self.handle.report(closing);
        flush_answers(self.setting.facilities.records(), records).await;
        if let Some(state) = state.filter(|_| is_good && stands == AfterVisit::Counted) {
            self.publish(state);
        }
        if self.stop.is_stopped() {
            return Ok(Duration::ZERO);
        }
        let is_seen = whys.are_seen();
        if stands != AfterVisit::Counted {
            self.whys = whys;
        }
        let is_changed = visit.end.is_good() && !visit.done.is_empty();
        let delay = self.judge(visit, &stands).await?;
        if is_seen && !is_changed {
            let has_failed = self.retry_state.failures() > failures;
            self.pace.spend(if has_failed { self.took.max(FAILED_LOOK) } else { self.took });
        }
        Ok(delay)
    }

    /// Returns the reasons for a visit, as far as they are known before it.
    fn whys_of(&mut self, visit: &BegunVisit) -> Whys {
        let mut whys = std::mem::take(&mut self.whys);
        whys.extend(visit.notices.iter().map(|notice| Why::Notified(notice.by.as_str().into())));
        whys.extend(visit.because.clone());
        if !self.retry_state.is_fought_over() {
            // What it depends on may be faster to tell of the same change.
            whys.extend(self.seen());
        }
        self.why = whys.to_string();
        self.asked_by = whys.asked_by().cloned().map(Box::new);
        whys
    }

    /// Reports that a visit has failed, or that the program has ended. What the visit has done is
    /// reported already.
    fn tell_error(&self, error: &str, visit: Option<&Visit>) {
        let kind = self.links.declaration.get().kind.clone();
        let mut event = Event::new(EventKind::Failed, (&self.name, &kind), (&self.why, self.took));
        if let Some(Visit { change, end, .. }) = visit {
            event = event.with(&change.differences, &[], end.failed_action());
        }
        let error = Some(cut_after(error, LONGEST_ERROR));
        self.tell(Event { error, ..event });
    }

    /// Closes the resource, and ends its program. When the agent ends, or another worker is to keep
    /// the resource, a program that may outlive its worker runs on. In the second case it has to be
    /// ready: whether it becomes ready while no worker listens would not be known.
    pub(crate) async fn close(mut self) {
        let Some(held) = self.held.take() else { return };
        self.asked_by = None;
        if self.setting.facilities.leaves_programs() {
            if held.leave().await.is_some() {
                return self.tell_left();
            }
        } else if held.running.is_ready() && self.has_successor() {
            if let Some(survivor) = held.leave().await {
                return self.hand_over(survivor).await;
            }
        } else {
            held.close().await;
        }
        let why = self.handle.why_stopped(&self.name);
        self.tell_end(why);
    }

    /// Offers a state to the engine. The schedule has it already.
    fn publish(&mut self, state: State) {
        if let Some(sender) = &self.state {
            sender.send_if_modified(|old| {
                let is_other = *old != state;
                *old = state;
                is_other
            });
        } else if let Some(offer) = self.offer.take() {
            let (sender, receiver) = watch::channel(state);
            self.state = Some(sender);
            offer(receiver);
        }
    }

    /// Says how the resource is after a visit. Returns how long to wait at most for the next.
    async fn judge(&mut self, visit: Visit, stands: &AfterVisit) -> Result<Duration, Exit> {
        match stands {
            AfterVisit::Counted => {}
            AfterVisit::HeldBack(by) => {
                let reason = format!("held back by \"{by}\", which is not as declared");
                self.links.health.held_back(&worker_name(by), reason);
                return Ok(self.full_look());
            }
            AfterVisit::Waits => {
                self.is_waiting = true;
                return Ok(PATIENCE);
            }
        }
        let is_failed = !visit.end.is_good();
        let trouble = match visit.trouble() {
            None => {
                self.retry_state.end_failures();
                self.last_failure = None;
                let is_fought_over = self.retry_state.are_any();
                let fought_over = || is_fought_over.then(|| FOUGHT_OVER.to_owned());
                let unhealthy = self.held.as_ref().and_then(|held| held.running.unhealthy());
                let unhealthy = unhealthy.map(|reason| self.redact(&reason));
                visit.remark.or(visit.holds).or(unhealthy).or_else(fought_over)
            }
            Some(reason) if visit.step == Step::Supervise => {
                let exit = Exit::failed(reason);
                self.tell_error(&self.redact(&exit.to_string()), Some(&visit));
                return Err(exit);
            }
            Some(reason) => {
                self.retry_state.fail(match (visit.step, &self.held) {
                    (Step::Watch, Some(held)) => held.watches.failures,
                    _ => 1,
                });
                Some(self.note_failure(&reason, &visit).await)
            }
        };
        let delay = self.delay();
        let next_try = Instant::now().checked_add(delay).filter(|_| self.retry_state.are_any());
        match (trouble, next_try) {
            (None, _) => self.links.health.good(),
            (Some(remark), _) if self.is_paused && !is_failed => self.links.health.paused(remark),
            (Some(trouble), None) => self.links.health.degraded(trouble),
            (Some(trouble), Some(at)) if is_failed => self.links.health.attempt_failed(at, trouble),
            (Some(trouble), Some(at)) => self.links.health.degraded_until(at, trouble),
        }
        Ok(delay)
    }

    async fn note_failure(&mut self, reason: &str, visit: &Visit) -> String {
        let reason = self.redact(reason);
        // Those who watch are told once of what is the same at each try.
        if self.last_failure.as_ref() != Some(&reason) {
            self.tell_error(&reason, Some(visit));
            self.last_failure = Some(reason.clone());
        } else if visit.end.unfinished().is_some() {
            self.tell_no_event().await;
        }
        // Whoever follows the health logs it when it changes.
        tracing::debug!(resource = self.name, reason, "resource is not as declared");
        reason
    }

    /// Tells the observer that no event follows the action that was begun.
    async fn tell_no_event(&mut self) {
        let name = self.name.clone();
        self.setting.facilities.observe(move |it| it.failed_again(&name)).await;
    }

    fn redact(&self, text: &str) -> String {
        self.setting.facilities.secrets().redact(text).into_owned()
    }

    /// Waits until there is something to do. What was put back is nobody's concern any more: its
    /// watches and the time are no reasons.
    async fn wait(&mut self, delay: Duration) -> Next {
        if std::mem::take(&mut self.is_back) {
            return tokio::select! {
                biased;
                () = self.stop.wait() => Next::Stop,
                visit = self.handle.visit() => Next::Visit(visit),
            };
        }
        if self.is_paused {
            return self.wait_paused().await;
        }
        let is_fought_over = self.retry_state.is_fought_over();
        let (mut watches, mut program) = match &mut self.held {
            Some(held) => (Some(&mut held.watches), held.running.program.as_mut()),
            None => (None, None),
        };
        let watched = watches.as_mut().filter(|_| !is_fought_over);
        let watched = watched.map(|watches| watches.signals()).unwrap_or_default();
        let pace = &self.pace;
        let seen = async {
            pace.rest().await;
            any(watched).await
        };
        let news = async {
            match &mut program {
                Some(program) => program.news().await,
                None => std::future::pending().await,
            }
        };
        let exit = tokio::select! {
            biased;
            () = self.stop.wait() => return Next::Stop,
            news = news => match news {
                News::Ended(exit) => exit,
                News::Health => return Next::Health,
            },
            visit = self.handle.visit() => return Next::Visit(visit),
            whys = seen => return Next::Seen(whys),
            () = tokio::time::sleep(delay) => return Next::Time,
        };
        self.note_own_end(&exit);
        Next::Ended(exit)
    }

    /// Takes all changes that its watches have reported, and returns them as reasons.
    fn seen(&mut self) -> Vec<Why> {
        let Some(held) = &mut self.held else { return Vec::new() };
        let seen = pin!(any(held.watches.signals()));
        match seen.poll(&mut task::Context::from_waker(Waker::noop())) {
            Poll::Ready(whys) => whys,
            Poll::Pending => Vec::new(),
        }
    }

    /// Returns how long to wait at most.
    fn delay(&mut self) -> Duration {
        let delay = self.retry_state.delay(&self.backoff());
        delay.unwrap_or_else(|| self.full_look())
    }

    /// Returns how long to wait for a look without a reason.
    fn full_look(&mut self) -> Duration {
        let poll = self.held.as_ref().and_then(|held| held.watches.every);
        let declared = self.links.declaration.get().poll.unwrap_or(self.setting.look_every);
        let every = poll.unwrap_or(Duration::MAX).min(declared);
        let backoff = self.backoff();
        self.retry_state.spread(every, &backoff)
    }

    fn backoff(&self) -> Backoff {
        self.setting.backoff_of(&self.links.declaration.get())
    }
}

impl<F> Reconciler<F> {
    /// Keeps an event as the resource's last one, and tells it to the observer.
    fn tell(&self, mut happened: Event) {
        happened.asked_by = self.asked_by.as_deref().cloned();
        if let Some(observer) = self.setting.facilities.observer() {
            observer.happened(&happened);
        }
        self.handle.note_event(happened.excerpt());
    }
}

/// A worker that panics or is aborted closes nothing: its program is killed when it is dropped.
impl<F> Drop for Reconciler<F> {
    fn drop(&mut self) {
        self.asked_by = None;
        let why = match thread::panicking() {
            true => "its worker has panicked",
            false => "its worker was aborted",
        };
        self.tell_end(why);
    }
}

/// Returns the report of a visit for the schedule.
fn closing(ticket: Ticket, visit: &Visit) -> VisitReport {
    VisitReport {
        ticket,
        outcome: visit.outcome(),
        has_acted: visit.has_acted(),
        is_holding: visit.holds.is_some(),
        state: visit.known_state().map(|state| State::new(&state)),
        notice: visit.notice(),
    }
}

/// Spreads the looks of resources that begin together.
fn seed_of(name: &str) -> u64 {
    name.bytes().fold(0, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}
