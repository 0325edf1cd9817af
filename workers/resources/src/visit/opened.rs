//! A resource between its open and its close.

use std::borrow::Cow;
use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use crankcase_workers::{ProcessConfig, Secrets};
use parking_lot::Mutex;
use serde_json::Value;

use crate::base::blocking::blocking;
use crate::base::caught::{PanickedError, caught, caught_async};
use crate::base::deadline::{Deadline, too_late};
use crate::base::error::BoxError;
use crate::base::text::{chain, shown};
use crate::declare::action::{Action, Unfinished};
use crate::declare::claim::Claim;
use crate::declare::declaration::{Config, Declaration};
use crate::declare::earlier_config::EarlierConfig;
use crate::declare::params::HIDDEN;
use crate::kind::context::Context;
use crate::kind::contract::Unit;
use crate::kind::watch::Watch;
use crate::report::found::{Found, otherwise};
use crate::schedule::Answer;
use crate::schedule::asking::Turn;
use crate::state::Key;
use crate::visit::prepared::Prepared;

use self::disguise::Disguise;

mod acting;
mod disguise;
mod recording;

/// A resource between its open and its close; its panics are caught.
#[derive(Debug)]
pub(crate) struct Opened {
    prepared: Prepared,
    /// Asks the schedule before each action, under apply and run.
    turn: Mutex<Option<Turn>>,
    disguise: Disguise,
    /// The key under which its config is on record, if somebody has made it.
    last_good: OnceLock<Option<Key>>,
}

/// What a resource answers.
type Asked<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// How an action has ended.
#[derive(Debug)]
pub(crate) struct Acted {
    pub(crate) ended: Result<Result<(), Unfinished>, PanickedError>,
    /// Whether it was told to stop because it took too long.
    pub(crate) is_late: bool,
    /// What it has logged.
    pub(crate) log: Vec<String>,
}

/// Why an action was not begun.
#[derive(Debug)]
pub(crate) enum NotBegun {
    /// The schedule does not allow it.
    NotAllowed(Answer),
    /// What has to be on record before the action cannot be put there, as this says.
    NotOnRecord(String),
}

impl Prepared {
    /// Opens the resource.
    pub(crate) async fn open(self) -> Result<Opened, String> {
        let (turn, disguise, last_good) = Default::default();
        let opened = Opened { prepared: self, turn, disguise, last_good };
        let Err(err) = opened.timed(|unit, context| unit.open(context)).await else {
            return Ok(opened);
        };
        match opened.close().await {
            Ok(()) => Err(format!("cannot open it: {err}")),
            Err(closing) => Err(format!("cannot open it: {err}; {closing}")),
        }
    }
}

impl Opened {
    /// Returns how the resource was prepared.
    pub(crate) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Takes over what further calls get, and returns what they got before. What the resource
    /// remembers stays.
    pub(crate) fn see(&mut self, context: Context) -> Context {
        let context = context.remembering(&self.prepared.context);
        if context.hidden() != self.prepared.context.hidden() {
            self.last_good.take();
        }
        std::mem::replace(&mut self.prepared.context, context)
    }

    /// Hides from further calls what the resource was notified of.
    pub(crate) fn forget_notices(&mut self) {
        self.prepared.context.forget_notices();
    }

    /// Returns the resource's name.
    pub(crate) fn name(&self) -> &str {
        self.prepared.context.name()
    }

    /// Returns the config, made anew.
    pub(crate) fn config(&self) -> Config {
        self.prepared.config()
    }

    /// Returns the config, made anew, with what is secret in it.
    pub(crate) fn config_and_hidden(&self) -> EarlierConfig {
        EarlierConfig { config: self.config(), hidden: self.prepared.context.hidden().clone() }
    }

    /// Returns the place of the key under which its config is on record; none if it is not to be.
    pub(crate) fn last_good(&self) -> &OnceLock<Option<Key>> {
        &self.last_good
    }

    /// Returns what the resource keeps, makes and needs.
    pub(crate) fn claims<'a>(&self, declaration: &'a Declaration) -> Cow<'a, [Claim]> {
        match declaration.may_find() {
            true => Cow::Owned(self.prepared.claimed().claims),
            false => Cow::Borrowed(&declaration.claims),
        }
    }

    /// Returns whether the resource may make files that none of its claims names.
    pub(crate) fn makes_unnamed(&self, declaration: &Declaration) -> bool {
        match declaration.may_find() {
            true => self.prepared.claimed().makes_unnamed(),
            false => declaration.makes_unnamed,
        }
    }

    /// Returns what is in the programs that are executed for the resource, as digests by their
    /// paths; null if there are none.
    pub(crate) async fn programs(&self) -> Value {
        let programs = self.told(|unit, _| unit.programs()).unwrap_or_default();
        if programs.is_empty() {
            return Value::Null;
        }
        let facilities = self.prepared.context.facilities().clone();
        let read = move || {
            let digests = programs.iter().map(|path| facilities.programs().digest(path));
            Ok::<_, Infallible>(digests.collect())
        };
        blocking(read).await.unwrap_or_default()
    }

    /// Returns whether a state has all attributes that its kind declares.
    pub(crate) fn is_whole(&self, state: &Value) -> bool {
        let declared = self.prepared.kind.states();
        !declared.is_open && declared.names().all(|name| state.get(name).is_some())
    }

    /// Says in what a state is another one than was foreseen, if it is.
    pub(crate) fn otherwise(&self, foreseen: &Value, state: &Value) -> Option<String> {
        let (name, was, is) = otherwise(foreseen, state)?;
        let is_sensitive = self.prepared.kind.states().get(name).is_some_and(|it| it.is_sensitive);
        let is_hidden = is_sensitive || !self.prepared.context.hidden().is_empty();
        let shown = |value: &Value| if is_hidden { HIDDEN.to_owned() } else { shown(value) };
        let text = format!("its {name} was to be {} and is {}", shown(was), shown(is));
        Some(self.redact(&text))
    }

    /// Returns the folder of its manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.prepared.context.folder()
    }

    /// Returns how long a look, and each action, may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.prepared.context.timeout()
    }

    pub(crate) fn program(&self) -> Option<&ProcessConfig> {
        self.prepared.unit.program()
    }

    pub(crate) async fn watch(&self) -> Result<Watch, String> {
        self.timed(|unit, context| unit.watch(context)).await
    }

    pub(crate) async fn check(&self) -> Result<Found, String> {
        let found = self.timed(|unit, context| unit.check(context)).await?;
        Ok(self.disguise.hide(found, &self.prepared))
    }

    pub(crate) fn refresh(&self, done: &[Action]) -> Result<Option<Action>, String> {
        let done: Vec<_> = done.iter().map(|action| self.disguise.done(action)).collect();
        let action = self.told(|unit, context| unit.refresh(&done, context))?;
        Ok(action.map(|action| self.disguise.show(action, &self.prepared.context)))
    }

    pub(crate) fn holds(&self) -> Result<Option<String>, String> {
        Ok(self.told(Unit::holds)?.map(|why| self.redact(&why)))
    }

    pub(crate) async fn close(self) -> Result<(), String> {
        let call = self.untimed();
        let closed = caught_async(self.prepared.unit.close(&call)).await;
        call.trace();
        closed.map_err(|err| self.redact(&format!("closing it {err}")))
    }

    /// Asks the resource something, within its timeout.
    async fn timed<T>(
        &self,
        ask: impl for<'a> FnOnce(&'a dyn Unit, &'a Context) -> Asked<'a, T>,
    ) -> Result<T, String> {
        self.asked(ask).await.0
    }

    /// Asks the resource something, and returns the answer with the context that has its log.
    async fn asked<T>(
        &self,
        ask: impl for<'a> FnOnce(&'a dyn Unit, &'a Context) -> Asked<'a, T>,
    ) -> (Result<T, String>, Context) {
        let deadline = Deadline::new(self.timeout(), self.prepared.context.stop());
        let call = self.prepared.context.of_call(&deadline);
        let (answer, is_late) = deadline.tell(caught_async(ask(&*self.prepared.unit, &call))).await;
        call.trace();
        let error = match answer {
            Ok(Ok(value)) => return (Ok(value), call),
            Ok(Err(err)) => chain(&*err),
            Err(panicked) => chain(&panicked),
        };
        let error = self.redact(&error);
        (Err(if is_late { too_late(self.timeout(), &error) } else { error }), call)
    }

    /// Asks the resource something that it knows at once.
    fn told<T>(&self, ask: impl FnOnce(&dyn Unit, &Context) -> T) -> Result<T, String> {
        let call = self.untimed();
        let answer = caught(|| ask(&*self.prepared.unit, &call));
        call.trace();
        answer.map_err(|panicked| self.redact(&panicked.to_string()))
    }

    /// Returns what is hidden in all that is said of the resource.
    pub(crate) fn secrets(&self) -> &Secrets {
        self.prepared.context.secrets()
    }

    /// Returns a text without secrets.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets().redact(text).into_owned()
    }

    /// Returns the context of a call without a timeout.
    fn untimed(&self) -> Context {
        self.prepared.context.of_call(&Deadline::new(None, self.prepared.context.stop()))
    }
}
