//! Runs the rules of a site.
//!
//! Invariants:
//! 1. A rule handles one cause at a time. What changes meanwhile is handled afterwards, as one change.
//! 2. A cause is on record until a rule has handled it without an error, or has given it up. So a cause that was open
//!    when the agent was killed is handled by the next agent, and handlers have to be idempotent.
//! 3. An attempt is put on record before it begins, with the digest of its cause. So a cause that kills the agent each
//!    time is given up too, and the attempts at it count for no other cause.
//! 4. A record that cannot be read or written stops its own rule, until it can be.

mod events;
mod journal;
mod record;
mod recording;
mod telling;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::{Health, Latest, Outcome, Stop};
use crankcase_workers::{Ledger, pointer_segment};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::base::blocking::blocking;
use crate::base::caught::{caught, caught_async};
use crate::base::error::BoxError;
use crate::kind::secrets::{add_hidden, add_secret, at};
use crate::modes::site::Site;
use crate::rules::cause::{Cause, Trigger};
use crate::rules::pace::Pace;
use crate::rules::parameters::RuleParameters;
use crate::rules::rule::{Handler, Rule};
use crate::rules::tools::RuleTools;
use crate::schedule::shared::Schedule;
use crate::state::Records;
use crate::state::world::{World, WorldSnapshot};

pub use self::events::{Happenings, RuleEvents};
use self::record::Record;

/// The most events that are put on record in one write.
const BATCH: usize = 1_000;

/// The wait after the first failed attempt, and the longest wait.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The wait before the record of a rule that could not be read or written is tried again.
const RECORD_AGAIN: Duration = Duration::from_secs(10);

/// What a rule has done, for a report.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RuleTally {
    /// Whether the rule is enabled.
    pub is_enabled: bool,
    /// How many causes the rule has handled without an error.
    pub fired: u64,
    /// How many events wait.
    pub pending: usize,
    /// How many events were lost because too many waited.
    pub lost: u64,
    /// How many attempts at the current cause there have been.
    pub attempts: u32,
    /// The causes that were given up, the newest last: each in a few words, with its error.
    pub given_up: Vec<(String, String)>,
    /// Whether the rule changes facts or notifies resources so often that it is slowed to once a second.
    pub is_slowed: bool,
    /// Why the rule stands still: its record cannot be read or written. None if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stands_still: Option<String>,
}

/// Runs the rules of a site.
///
/// A new rule handles the fact or state that is there. A failed attempt is repeated after 1 s, and then after waits
/// that double up to 1 min. When a rule gives up a cause, the worker is degraded with the error until the rule has
/// handled a later cause.
///
/// A rule that changes facts or notifies resources ten times in ten seconds may be part of a loop. It is slowed to once
/// a second, and the worker is degraded meanwhile.
pub struct Rules {
    /// The site with the rules.
    pub site: Latest<Arc<Site>>,
    /// The facts that the rules read and write.
    pub world: Arc<dyn World>,
    /// The schedule of the resources.
    pub schedule: Schedule,
    /// The events of the resources, from [`RuleEvents`].
    pub events: Happenings,
    /// The records of the rules, with those of the resources.
    pub records: Records,
    /// The ledger of the commands that rules run.
    pub ledger: Option<Ledger>,
    /// The health of the worker that runs the rules.
    pub health: Health,
    /// Where the tally of each rule is published.
    pub tally: watch::Sender<BTreeMap<String, RuleTally>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("records", &self.records).finish_non_exhaustive()
    }
}

/// A rule, with its record and its current attempt.
#[derive(Debug)]
struct Life {
    rule: Arc<Rule>,
    parameters: RuleParameters,
    record: Record,
    /// The cause of the last attempt.
    tried: Option<Cause>,
    /// When the next attempt at the current cause is due.
    due: Option<Instant>,
    is_running: bool,
    pace: Arc<Pace>,
    /// Whether the record was read.
    is_read: bool,
    /// Why the record cannot be read or written, and when that is tried again.
    stands_still: Option<(String, Instant)>,
}

impl Life {
    fn new(rule: &Arc<Rule>) -> Self {
        Self {
            rule: Arc::clone(rule),
            parameters: rule.parameters.clone(),
            record: Record::default(),
            tried: None,
            due: None,
            is_running: false,
            pace: Arc::default(),
            is_read: false,
            stands_still: None,
        }
    }

    /// Forgets the attempts that were made at another cause than this one.
    fn turn_to(&mut self, cause: &Cause) {
        let is_other = match (&self.tried, &self.record.tried) {
            (Some(tried), _) => tried != cause,
            (None, Some(tried)) => *tried != cause.digest(),
            (None, None) => false,
        };
        if is_other {
            self.record.forget_attempts();
            (self.tried, self.due) = (None, None);
        }
    }
}

type Handled = (String, Cause, Duration, Result<bool, BoxError>);

impl Rules {
    /// Runs until it is told to stop.
    ///
    /// # Errors
    ///
    /// When the facts cannot be read.
    pub async fn run(mut self, stop: Stop) -> Outcome {
        // The worker before this one holds the lock until it is gone.
        let events = self.events.receiver.clone();
        let mut events = events.lock().await;
        let mut lives = BTreeMap::new();
        let mut handled: JoinSet<Handled> = JoinSet::new();
        let (mut states, mut batch) = (self.schedule.states(), Vec::new());
        let mut known = None;
        self.take_over(&mut lives).await;
        self.note_left(&mut lives).await;
        loop {
            // Read before the look, so that the next look sees what changes during this one.
            let facts = self.world.snapshot()?;
            if known.replace(facts.revision()) != Some(facts.revision()) {
                self.learn_secrets(&facts).await?;
            }
            states.mark_unchanged();
            let next = self.look((&mut lives, &mut handled), &facts, &stop).await?;
            self.tell(&lives);
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                changed = self.site.changed() => match changed {
                    Ok(_) => self.take_over(&mut lives).await,
                    // The engine ends.
                    Err(_) => std::future::pending().await,
                },
                Some(done) = handled.join_next() => if let Ok(done) = done {
                    self.end(&mut lives, done).await;
                },
                1.. = events.recv_many(&mut batch, BATCH) => {
                    self.note(&mut lives, &batch).await;
                    batch.clear();
                }
                () = self.world.changed(facts.revision()) => {}
                Ok(()) = states.changed() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Adds the secrets of the facts to those of the site, which may be of older facts.
    async fn learn_secrets(&self, facts: &Arc<dyn WorldSnapshot>) -> Result<(), BoxError> {
        let (facts, secrets) = (Arc::clone(facts), self.site.get().secrets().clone());
        blocking(move || {
            facts.secrets(&mut |secret| secrets.add(secret));
            Ok::<_, BoxError>(())
        })
        .await
    }

    /// Adds the secrets in the values of a cause: those of the value before are known to nobody after a restart.
    fn learn_secrets_of(&self, cause: &Cause, (on, facts): (&Trigger, &dyn WorldSnapshot)) {
        let site = self.site.get();
        let values = || cause.before.iter().chain(&cause.value);
        match on {
            Trigger::Fact(path) => {
                for value in values() {
                    if let Ok(shown) = facts.shown(path, value) {
                        add_hidden((value, &shown), site.secrets());
                    }
                }
            }
            Trigger::State(name) => {
                let Ok(declaration) = site.resource(name) else { return };
                let Ok(kind) = site.kinds().get(&declaration.kind) else { return };
                let secrets = caught(|| kind.state_secrets(&declaration.hidden));
                for keys in secrets.unwrap_or_default() {
                    let secrets = values().filter_map(|value| at(value, &keys));
                    secrets.for_each(|secret| add_secret(secret, site.secrets()));
                }
            }
            Trigger::Event { .. } => {}
        }
    }

    /// Takes over the rules of the site, and forgets all others. The records of the others stay.
    async fn take_over(&self, lives: &mut BTreeMap<String, Life>) {
        let site = self.site.get();
        let mut before = std::mem::take(lives);
        for rule in site.rules() {
            let life = match before.remove(&rule.name) {
                Some(life) => Life { rule: Arc::clone(rule), ..life },
                None => {
                    let mut life = Life::new(rule);
                    self.read(&mut life).await;
                    life
                }
            };
            lives.insert(rule.name.clone(), life);
        }
        self.events.journal.want(site.rules().iter().map(|rule| rule.on.clone()).collect());
    }

    /// Looks for causes, and begins to handle those that are due. Returns when the next cause is due.
    async fn look(
        &self,
        (lives, handled): (&mut BTreeMap<String, Life>, &mut JoinSet<Handled>),
        facts: &Arc<dyn WorldSnapshot>,
        stop: &Stop,
    ) -> Result<Option<Instant>, BoxError> {
        let (now, mut next) = (Instant::now(), None::<Instant>);
        let mut wait = |until: Instant| next = Some(next.map_or(until, |next| next.min(until)));
        for (name, life) in lives.iter_mut() {
            self.mend(life, now).await;
            life.pace.slowed_until().into_iter().for_each(&mut wait);
            let said = facts.get(&pointer(&["rules", name])).ok().flatten();
            life.parameters = life.rule.parameters.with(said.as_ref());
            if let Some((_, again)) = &life.stands_still {
                wait(*again);
                continue;
            }
            let is_ready = life.parameters.is_enabled && !life.is_running;
            let Some(cause) = self.cause(life, &**facts).filter(|_| is_ready) else {
                life.due = None;
                continue;
            };
            life.turn_to(&cause);
            if life.record.attempts >= life.parameters.attempts {
                let error = "no attempt is left, and the last one did not end".to_owned();
                self.give_up(life, &cause, error).await;
                wait(now);
                continue;
            }
            let due = *life.due.get_or_insert(now + life.parameters.debounce);
            if due > now {
                wait(due);
                continue;
            }
            (life.record.attempts, life.record.tried) =
                (life.record.attempts + 1, Some(cause.digest()));
            if !self.write(life).await {
                life.record.attempts -= 1;
                // The other record waits for the disk: an attempt that is not made must not count.
                drop(life.record.queue(&self.records, &life.rule.name));
                wait(now + RECORD_AGAIN);
                continue;
            }
            (life.tried, life.is_running, life.due) = (Some(cause.clone()), true, None);
            self.learn_secrets_of(&cause, (&life.rule.on, &**facts));
            let tools = self.tools(life, facts, stop);
            handled.spawn(handle(Arc::clone(&life.rule.handler), cause, tools));
        }
        Ok(next)
    }

    fn tools(&self, life: &Life, facts: &Arc<dyn WorldSnapshot>, stop: &Stop) -> RuleTools {
        RuleTools {
            rule: life.rule.name.clone(),
            world: Arc::clone(&self.world),
            facts: Arc::clone(facts),
            secrets: self.site.get().secrets().clone(),
            schedule: self.schedule.clone(),
            ledger: self.ledger.clone(),
            timeout: life.parameters.timeout,
            pace: Arc::clone(&life.pace),
            stop: stop.clone(),
        }
    }

    /// Returns the next cause that a rule has not handled yet.
    fn cause(&self, life: &Life, facts: &dyn WorldSnapshot) -> Option<Cause> {
        let (of, value) = match &life.rule.on {
            Trigger::Event { .. } => return life.record.pending.front().cloned(),
            Trigger::Fact(path) => (path, facts.get(path).ok()?),
            Trigger::State(name) => (name, Some(self.schedule.last_state(name)?.value().clone())),
        };
        let now: Vec<Value> = value.iter().cloned().collect();
        let handled = life.record.handled.as_ref();
        // A value that was never there is no cause.
        if handled.map_or(now.is_empty(), |handled| *handled == now) {
            return None;
        }
        let before = handled.and_then(|handled| handled.first().cloned());
        let rule = life.rule.name.clone();
        Some(Cause { rule, of: of.clone(), before, value, happened: None })
    }

    /// Gives up a cause.
    async fn give_up(&self, life: &mut Life, cause: &Cause, error: String) {
        let (rule, why, attempt) = (&life.rule.name, cause.text(), life.record.attempts);
        tracing::error!(rule, why, attempt, %error, "a rule has failed, and gives up");
        life.record.bury(cause, error);
        self.write(life).await;
    }

    /// Puts the result of an attempt on record.
    async fn end(&self, lives: &mut BTreeMap<String, Life>, (name, cause, took, result): Handled) {
        // The rule may have left the site meanwhile.
        let Some(life) = lives.get_mut(&name) else { return };
        life.is_running = false;
        let attempt = life.record.attempts;
        let (why, took_ms) = (cause.text(), took.as_millis());
        let secrets = self.site.get().secrets().clone();
        let result = result.map_err(|error| secrets.redact(&error.to_string()).into_owned());
        match result {
            Ok(false) => life.record.acknowledge(&cause),
            Ok(true) => {
                life.record.acknowledge(&cause);
                (life.record.fired, life.record.is_dead) = (life.record.fired + 1, false);
                tracing::info!(rule = name, why, took_ms, "a rule has fired");
            }
            Err(error) if attempt < life.parameters.attempts => {
                let (first, longest) = WAITS;
                let wait = first.saturating_mul(1 << (attempt - 1).min(16)).min(longest);
                life.due = Some(Instant::now() + wait);
                tracing::warn!(rule = name, why, attempt, %error, ?wait, "a rule has failed, and is tried again");
            }
            Err(error) => return self.give_up(life, &cause, error).await,
        }
        self.write(life).await;
    }
}

async fn handle(handler: Arc<dyn Handler>, cause: Cause, tools: RuleTools) -> Handled {
    let began = Instant::now();
    let (rule, limit) = (tools.rule.clone(), tools.timeout);
    let work = caught_async(async {
        if !handler.matches(&cause, &tools)? {
            return Ok(false);
        }
        handler.handle(&cause, &tools).await.map(|()| true)
    });
    let result = timeout(limit, work).await;
    let result = result.map(|caught| caught.unwrap_or_else(|panicked| Err(panicked.into())));
    let result = result.unwrap_or_else(|_| Err(format!("it took longer than {limit:?}").into()));
    (rule, cause, began.elapsed(), result)
}

/// Returns the JSON pointer of some names.
fn pointer(names: &[&str]) -> String {
    names.iter().map(|name| format!("/{}", pointer_segment(name))).collect()
}
