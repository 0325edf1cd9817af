//! What the core runs of a resource that is written in Rust.

use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::ProcessConfig;

use crate::action::{Action, ActionType, Actions, Unfinished};
use crate::context::Context;
use crate::declaration::Config;
use crate::error::{AttributeError, BoxError};
use crate::found::Found;
use crate::kind::{Kind, Unit};
use crate::known::{Judged, KnownConfig};
use crate::params::{HIDDEN, Params, Reader, Table, shown_value};
use crate::resource::{Check, Resource, Supervised};
use crate::watch::Watch;

/// Returns the kind of a resource that is written in Rust.
pub fn kind<R: Resource>() -> KindOf<R> {
    KindOf { program: None, kind: PhantomData }
}

/// The kind of a resource that is written in Rust; [`kind`] makes it.
pub struct KindOf<R> {
    program: Option<fn(&R) -> ProcessConfig>,
    kind: PhantomData<fn() -> R>,
}

impl<R: Supervised> KindOf<R> {
    /// Has `run` supervise the programs that its resources are.
    #[must_use]
    pub fn supervised(self) -> Self {
        Self { program: Some(R::program), ..self }
    }
}

impl<R: Resource> fmt::Debug for KindOf<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindOf").field(&R::NAME).finish()
    }
}

impl<R: Resource> Kind for KindOf<R> {
    fn name(&self) -> &str {
        R::NAME
    }

    fn summary(&self) -> &str {
        &R::table().doc
    }

    fn table(&self) -> &Table {
        R::table()
    }

    fn states(&self) -> &Table {
        R::State::table()
    }

    fn actions(&self) -> Vec<ActionType> {
        R::Action::types()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Judged {
        let (half, errors) = read_half::<R>(known);
        Judged { errors, claimed: R::claims(&half), parts: R::parts(&half) }
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let config = read::<R>(config)?;
        let program = self.program.map(|program| program(&config));
        Ok(Arc::new(Made { config, program }))
    }

    fn same(&self, old: &Config, new: &Config) -> bool {
        let is_same = || Some(read::<R>(old).ok()?.is_same(&read::<R>(new).ok()?));
        old == new || is_same().unwrap_or(false)
    }

    fn stops_first(&self) -> bool {
        R::STOPS_FIRST
    }

    fn is_supervised(&self) -> bool {
        self.program.is_some()
    }
}

/// A resource, as the core runs it.
#[derive(Debug)]
struct Made<R> {
    config: R,
    program: Option<ProcessConfig>,
}

#[async_trait]
impl<R: Resource> Unit for Made<R> {
    async fn open(&self, context: &Context) -> Result<(), BoxError> {
        self.config.open(context).await
    }

    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        self.config.check(context).await.map(Check::erase)
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        self.config.act(&R::Action::read(action)?, context).await
    }

    fn refresh(&self, done: &[Action], context: &Context) -> Option<Action> {
        // Each came of an action of this very type, so it can be read.
        let done: Vec<_> = done.iter().filter_map(|action| R::Action::read(action).ok()).collect();
        self.config.refresh(&done, context).map(|action| action.erase())
    }

    fn holds(&self, context: &Context) -> Option<String> {
        self.config.holds(context)
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        self.config.watch(context).await
    }

    fn program(&self) -> Option<&ProcessConfig> {
        self.program.as_ref()
    }

    async fn close(&self, context: &Context) {
        self.config.close(context).await;
    }
}

/// Reads a config that is known as a whole, or returns all that is wrong with it.
fn read<R: Resource>(config: &Config) -> Result<R, Vec<AttributeError>> {
    let unknown = BTreeSet::new();
    let (half, errors) = read_half::<R>(&KnownConfig { config, unknown: &unknown });
    match R::whole(half) {
        Some(whole) if errors.is_empty() => Ok(whole),
        None if errors.is_empty() => {
            Err(vec![AttributeError::new("config", "is not complete".to_owned())])
        }
        _ => Err(errors),
    }
}

/// Reads what is known of a config, with all that is wrong with it.
fn read_half<R: Resource>(known: &KnownConfig<'_>) -> (R::Half, Vec<AttributeError>) {
    let mut reader = Reader::new(R::table(), known);
    let mut half = R::read(&mut reader);
    let mut errors = reader.into_errors();
    let first = errors.len();
    R::rules(&mut half, &mut errors);
    for error in &mut errors[first..] {
        let value = known.config.get(&error.attribute).filter(|value| !value.is_null());
        let is_sensitive = R::table().get(&error.attribute).is_some_and(|it| it.is_sensitive);
        let shown = |value| if is_sensitive { HIDDEN.to_owned() } else { shown_value(value) };
        error.value = error.value.take().or_else(|| value.map(shown));
    }
    (half, errors)
}
