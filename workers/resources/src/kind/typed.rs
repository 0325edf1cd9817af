//! What the core runs of a resource that is written in Rust.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::ProcessConfig;
use serde_json::Value;

use crate::base::error::{AttributeError, BoxError};
use crate::declare::action::{Action, ActionType, Actions, Unfinished};
use crate::declare::declaration::Config;
use crate::declare::known::KnownConfig;
use crate::declare::params::{HIDDEN, Params, Reader, Table, declared, shown_value, written};
use crate::declare::surroundings::Surroundings;
use crate::kind::config_report::ConfigReport;
use crate::kind::context::Context;
use crate::kind::contract::{GroupMember, Kind, Unit};
use crate::kind::resource::{Check, Grouping, Member, Resource, Supervised};
use crate::kind::watch::Watch;
use crate::report::found::{Difference, Found};
use crate::state::world::FactSchema;

/// Returns the kind of a resource that is written in Rust.
pub fn kind<R: Resource>() -> KindOf<R> {
    KindOf { program: None, grouping: None, kind: PhantomData }
}

/// The kind of a resource that is written in Rust; [`kind`] makes it.
pub struct KindOf<R> {
    program: Option<fn(&R) -> ProcessConfig>,
    grouping: Option<Together<R>>,
    kind: PhantomData<fn() -> R>,
}

/// How several resources are acted on together.
struct Together<R> {
    group: fn(&R) -> Option<String>,
    act: for<'a> fn(&'a [GroupMember]) -> Acting<'a>,
}

type Acting<'a> = Pin<Box<dyn Future<Output = Result<(), Unfinished>> + Send + 'a>>;

// A derive would ask that the resources are `Clone` too.
impl<R> Clone for Together<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Together<R> {}

impl<R: Grouping> KindOf<R> {
    /// Has apply act on several of its resources as one.
    #[must_use]
    pub fn grouping(self) -> Self {
        let together =
            Together { group: R::group, act: |members| Box::pin(act_together::<R>(members)) };
        Self { grouping: Some(together), ..self }
    }
}

async fn act_together<R: Grouping>(members: &[GroupMember]) -> Result<(), Unfinished> {
    let typed = members.iter().map(|GroupMember { unit, action, context, .. }| {
        let unit: &dyn Any = &**unit;
        let made: &Made<R> =
            unit.downcast_ref().ok_or("a resource of another kind is among them")?;
        Ok(Member::new(&made.config, R::Action::read(action)?, context))
    });
    R::act_together(&typed.collect::<Result<Vec<_>, BoxError>>()?).await
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

    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let (partial, errors) = read_partial::<R>(known);
        let declared = declared::<R, R::State>(&partial);
        ConfigReport { errors, claimed: R::claims(&partial), declared, parts: R::parts(&partial) }
    }

    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        let config = read::<R>(config)?;
        let program = self.program.map(|program| Box::new(program(&config)));
        Ok(Arc::new(Made { config, program, grouping: self.grouping }))
    }

    fn send(&self, config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        R::send(config, surroundings)
    }

    fn receive(&self, config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        R::receive(config, surroundings)
    }

    fn same(&self, old: &Config, new: &Config) -> bool {
        let is_same = || Some(read::<R>(old).ok()?.is_same(&read::<R>(new).ok()?));
        old == new || is_same().unwrap_or(false)
    }

    fn stops_first(&self) -> bool {
        R::STOPS_FIRST
    }

    fn can_reverse(&self) -> bool {
        R::REVERSES
    }

    fn is_grouping(&self) -> bool {
        self.grouping.is_some()
    }

    fn fact_schemas(&self) -> Vec<FactSchema> {
        R::fact_schemas()
    }

    fn keeps_facts(&self) -> bool {
        R::KEEPS_FACTS
    }

    fn reads_host(&self) -> bool {
        R::READS_HOST
    }

    fn is_supervised(&self) -> bool {
        self.program.is_some()
    }
}

/// A resource, as the core runs it.
struct Made<R> {
    config: R,
    /// Boxed, as few resources are programs.
    program: Option<Box<ProcessConfig>>,
    grouping: Option<Together<R>>,
}

impl<R: Resource> fmt::Debug for Made<R> {
    // The config may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Made").field(&R::NAME).finish()
    }
}

#[async_trait]
impl<R: Resource> Unit for Made<R> {
    async fn open(&self, context: &Context) -> Result<(), BoxError> {
        self.config.open(context).await
    }

    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let mut found = self.config.check(context).await.map(Check::erase)?;
        if let Found::Stale(amiss) = &mut found {
            let is_sensitive =
                |name: &str| is_sensitive::<R>(name) || is_sensitive::<R::State>(name);
            let hidden = amiss.differences.iter_mut().filter(|it| is_sensitive(&it.attribute));
            hidden.for_each(Difference::hide);
        }
        Ok(found)
    }

    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        self.config.act(&R::Action::read(action)?, context).await
    }

    async fn reversal(&self, context: &Context) -> Result<Option<Config>, BoxError> {
        let reversal = self.config.reversal(context).await?;
        let written = reversal.map(|config| written::<R>(&config.into()));
        let Some(Value::Object(config)) = written else { return Ok(None) };
        Ok(Some(config))
    }

    fn programs(&self) -> Vec<PathBuf> {
        self.config.programs()
    }

    fn group(&self) -> Option<String> {
        (self.grouping?.group)(&self.config)
    }

    async fn act_together(&self, members: &[GroupMember]) -> Result<(), Unfinished> {
        match self.grouping {
            Some(grouping) => (grouping.act)(members).await,
            None => Err("its kind acts on each resource alone".into()),
        }
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
        self.program.as_deref()
    }

    async fn close(&self, context: &Context) {
        self.config.close(context).await;
    }
}

fn is_sensitive<P: Params>(name: &str) -> bool {
    P::table().get(name).is_some_and(|parameter| parameter.is_sensitive)
}

/// Reads a config that is known as a whole, or returns all that is wrong with it.
fn read<R: Resource>(config: &Config) -> Result<R, Vec<AttributeError>> {
    let unknown = BTreeSet::new();
    let (partial, errors) = read_partial::<R>(&KnownConfig { config, unknown: &unknown });
    match R::whole(partial) {
        Some(whole) if errors.is_empty() => Ok(whole),
        None if errors.is_empty() => {
            Err(vec![AttributeError::new("config", "is not complete".to_owned())])
        }
        _ => Err(errors),
    }
}

/// Reads what is known of a config, with all that is wrong with it.
fn read_partial<R: Resource>(known: &KnownConfig<'_>) -> (R::Partial, Vec<AttributeError>) {
    let mut reader = Reader::new(R::table(), known);
    let mut partial = R::read(&mut reader);
    let mut errors = reader.into_errors();
    let first = errors.len();
    R::rules(&mut partial, &mut errors);
    for error in &mut errors[first..] {
        let value = known.config.get(&error.attribute).filter(|value| !value.is_null());
        let is_sensitive = is_sensitive::<R>(&error.attribute);
        let shown = |value| if is_sensitive { HIDDEN.to_owned() } else { shown_value(value) };
        error.value = error.value.take().or_else(|| value.map(shown));
    }
    (partial, errors)
}
