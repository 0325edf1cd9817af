//! What the core runs: kinds and their resources, whatever they are made of.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_workers::{ProcessConfig, Secrets};
use serde_json::Value;

use crate::base::error::{AttributeError, BoxError};
use crate::declare::action::{Action, ActionType, Unfinished};
use crate::declare::declaration::Config;
use crate::declare::known::KnownConfig;
use crate::declare::params::{Reader, Table};
use crate::declare::surroundings::Surroundings;
use crate::kind::config_report::ConfigReport;
use crate::kind::context::Context;
use crate::kind::secrets::{has_sensitive, note_secrets};
use crate::kind::watch::Watch;
use crate::report::found::Found;
use crate::state::world::FactSchema;

/// A kind of resource: what a manifest names as `type`.
///
/// A kind in Rust implements [`Resource`](crate::Resource), and [`kind`](crate::kind()) turns that
/// into a `Kind`. Only a kind that is made at run time, such as a program in another language,
/// implements this trait itself.
///
/// # Guarantees
///
/// - A panic in a method is caught and becomes an error of the one resource.
///
/// # Requirements
///
/// - [`judge`](Self::judge) and [`make`](Self::make) are pure: they look at the config alone, open
///   nothing and wait for nothing. They return all errors at once.
pub trait Kind: fmt::Debug + Send + Sync {
    /// Returns the name under which a manifest asks for the kind.
    fn name(&self) -> &str;

    /// Returns what the kind is for, in one sentence.
    fn summary(&self) -> &str;

    /// Returns the parameters of a config. By default a config has any attributes.
    fn table(&self) -> &Table {
        Table::open()
    }

    /// Returns the JSON Schema of a config, if that says more than the table of parameters.
    fn config_schema(&self) -> Option<Value> {
        None
    }

    /// Returns the attributes of a state, which expressions of dependents may use. By default it has
    /// any.
    fn states(&self) -> &Table {
        Table::open()
    }

    /// Returns where the secrets are in the state of a resource: the keys that lead to each.
    /// `hidden` are the attributes of its config that come from secrets. By default they are those
    /// attributes, and the attributes that [`states`](Self::states) says are sensitive.
    fn state_secrets(&self, hidden: &BTreeSet<String>) -> Vec<Vec<String>> {
        let sensitive = self.states().parameters.iter().filter(|parameter| parameter.is_sensitive);
        let names = sensitive.map(|parameter| &parameter.name).chain(hidden);
        names.map(|name| vec![name.clone()]).collect()
    }

    /// Returns the actions that a check may want done. By default they are not told.
    fn actions(&self) -> Vec<ActionType> {
        Vec::new()
    }

    /// Returns what is wrong with a config as far as it is known while its manifest is loaded, what a
    /// resource with it keeps, makes, needs and reads, and what is known of its state.
    ///
    /// An error refuses the manifest, so each must be one that [`make`](Self::make) would return too,
    /// whatever becomes known later. By default a known config is made for its errors; in a partly
    /// known one, only attributes that the table lacks are errors. Nothing is said of claims
    /// and of the state.
    fn judge(&self, known: &KnownConfig<'_>) -> ConfigReport {
        let errors = if known.unknown.is_empty() {
            self.make(known.config).err().unwrap_or_default()
        } else {
            Reader::new(self.table(), known).into_errors()
        };
        ConfigReport { errors, ..ConfigReport::default() }
    }

    /// Judges the config of the resource with this name, for kinds to which the name means
    /// something. By default the name does not matter, and it is [judged](Self::judge) alone.
    fn judge_of(&self, resource: &str, known: &KnownConfig<'_>) -> ConfigReport {
        let _ = resource;
        self.judge(known)
    }

    /// Adds the secrets in the config of the resource with this name to `secrets`: from then on they are shown nowhere.
    /// By default these are the attributes that the table says are sensitive.
    fn hide(&self, resource: &str, config: &Config, secrets: &Secrets) {
        let _ = resource;
        note_secrets(config, self.table(), secrets);
    }

    /// Returns whether there are secrets in the config of the resource with this name, also those
    /// that are too short to be found in texts. A config with secrets is not put on record. By
    /// default it has some if it has an attribute that the table says is sensitive.
    fn has_secrets(&self, resource: &str, config: &Config) -> bool {
        let _ = resource;
        has_sensitive(config, self.table())
    }

    /// Makes a resource of a config.
    ///
    /// # Errors
    ///
    /// Every attribute that is wrong, with what would be right.
    fn make(&self, config: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>>;

    /// Makes a config fit to be sent to another machine; see
    /// [`Resource::send`](crate::Resource::send). By default it travels as it is.
    ///
    /// # Errors
    ///
    /// When it cannot travel.
    fn send(&self, config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        let _ = (config, surroundings);
        Ok(())
    }

    /// Fills in what only the machine knows that a config was sent to; see
    /// [`Resource::receive`](crate::Resource::receive). By default that is nothing.
    ///
    /// # Errors
    ///
    /// When the machine cannot have such a resource.
    fn receive(&self, config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        let _ = (config, surroundings);
        Ok(())
    }

    /// Returns whether two configs declare the same resource, so that a new manifest leaves it
    /// running.
    fn same(&self, old: &Config, new: &Config) -> bool {
        old == new
    }

    /// Returns whether a check may ask for a shutdown-first action, whatever the config is.
    ///
    /// Apply looks at everything once more before its first action if a kind in use says so, or the
    /// [claims](crate::Claimed::stops_first) of a config. Under run it is the first action of its
    /// resource.
    fn stops_first(&self) -> bool {
        false
    }

    /// Returns whether its resources can be put back as they were; see [`Unit::reversal`].
    fn can_reverse(&self) -> bool {
        false
    }

    /// Returns whether apply may act on several of its resources as one; see
    /// [`Unit::act_together`].
    fn is_grouping(&self) -> bool {
        false
    }

    /// Returns the schemas of the facts that the kind owns; see
    /// [`Resource::fact_schemas`](crate::Resource::fact_schemas).
    fn fact_schemas(&self) -> Vec<FactSchema> {
        Vec::new()
    }

    /// Returns whether its resources keep facts; see [`Resource::KEEPS_FACTS`](crate::Resource::KEEPS_FACTS).
    fn keeps_facts(&self) -> bool {
        false
    }

    /// Returns whether its resources read the [host](Context::host). Under `run` they are looked at again
    /// when the host has changed; others are not, and see none.
    fn reads_host(&self) -> bool {
        false
    }

    /// Returns whether its resources are programs that `run` supervises; see [`Unit::program`].
    fn is_supervised(&self) -> bool {
        false
    }
}

/// One resource with a valid config: it looks, says what would have to be done, and does it.
///
/// A resource lives for one plan, one apply, or under `run` for as long as its config stays the
/// same. What it must remember for that time (that it ran already, a connection) is in
/// [`Context::memory`].
///
/// # Guarantees
///
/// - [`open`](Self::open) comes first and [`close`](Self::close) last, each once; between them no
///   two calls overlap. After an `open` that failed comes only `close`.
/// - A panic is caught and becomes an error of this resource.
/// - An action is run at most once, soon after the check that returned it, and after it the
///   resource is checked again.
///
/// # Requirements
///
/// - [`check`](Self::check) changes nothing, whatever it finds.
/// - After the actions of a check were done, the next check is valid, unless the world moved.
/// - Blocking work is done on the [blocking pool](crate::blocking()).
#[async_trait]
pub trait Unit: Any + fmt::Debug + Send + Sync {
    /// Opens what check, actions and watch share.
    ///
    /// # Errors
    ///
    /// When it cannot be opened; the resource has then failed.
    async fn open(&self, context: &Context) -> Result<(), BoxError> {
        let _ = context;
        Ok(())
    }

    /// Looks at the resource and says what would have to be done; changes nothing.
    ///
    /// # Errors
    ///
    /// When it cannot be told whether the resource is as declared, or when no action of its kind
    /// may repair it.
    async fn check(&self, context: &Context) -> Result<Found, BoxError>;

    /// Does something that a check has asked for, or a [refresh](Self::refresh). By default there is
    /// nothing that it can do.
    ///
    /// # Errors
    ///
    /// When it failed or was interrupted. What it has logged until then is kept.
    ///
    /// # Cancel safety
    ///
    /// It need not be cancel safe: the context's stop is told instead.
    async fn act(&self, action: &Action, context: &Context) -> Result<(), Unfinished> {
        let _ = context;
        Err(format!("there is no action \"{}\"", action.name).into())
    }

    /// Returns the config that declares the resource as it is now, before anything is done to it; see
    /// [`Resource::reversal`](crate::Resource::reversal). By default nothing is known of that. Its kind
    /// says that it [can](Kind::can_reverse).
    ///
    /// # Errors
    ///
    /// When it cannot be told; nothing is done to the resource then.
    async fn reversal(&self, context: &Context) -> Result<Option<Config>, BoxError> {
        let _ = context;
        Ok(None)
    }

    /// Returns the files that it executes for the resource; see [`Resource::programs`](crate::Resource::programs).
    /// By default there are none.
    fn programs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the key of the resource, which may be acted on together with others of the same key.
    /// None by default: it is acted on alone. Its kind says that it [groups](Kind::is_grouping).
    fn group(&self) -> Option<String> {
        None
    }

    /// Acts on several resources at once; this is the first of them. The check of each has asked for its
    /// action. See [`Grouping`](crate::Grouping).
    ///
    /// # Errors
    ///
    /// When any of it failed or was interrupted. If it failed, each is acted on alone.
    async fn act_together(&self, members: &[GroupMember]) -> Result<(), Unfinished> {
        let _ = members;
        Err("its kind acts on each resource alone".into())
    }

    /// Returns what is to be done because a resource that notifies this one has changed.
    ///
    /// `done` holds the actions that the resource has run, or in a plan would run, for its own
    /// sake just before: what has started afresh anyway need not start again. By default a
    /// notification means nothing.
    fn refresh(&self, done: &[Action], context: &Context) -> Option<Action> {
        let _ = (done, context);
        None
    }

    /// Returns why a run is not at its end yet although the resource is as declared; see
    /// [`Resource::holds`](crate::Resource::holds). By default nothing holds it up.
    fn holds(&self, context: &Context) -> Option<String> {
        let _ = context;
        None
    }

    /// Returns how to learn that the state may have changed. By default it never does.
    ///
    /// It is asked after [`open`](Self::open), and again when the watch has failed or the manifest is
    /// in another folder.
    ///
    /// # Errors
    ///
    /// When the kind cannot listen to signals of its own; it is asked again after a backoff.
    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let _ = context;
        Ok(Watch::never())
    }

    /// Returns the program that `run` supervises for the resource, if it is one.
    ///
    /// Its name is set by who runs it. Plan and apply do not start it. Its kind says that it
    /// [is supervised](Kind::is_supervised).
    fn program(&self) -> Option<&ProcessConfig> {
        None
    }

    /// Closes what [`open`](Self::open) has opened.
    async fn close(&self, context: &Context) {
        let _ = context;
    }
}

/// A resource that is acted on together with others.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GroupMember {
    /// The resource.
    pub unit: Arc<dyn Unit>,
    /// What its check has asked for.
    pub action: Action,
    /// Its context.
    pub context: Context,
}

impl GroupMember {
    pub(crate) fn new(unit: Arc<dyn Unit>, action: Action, context: Context) -> Self {
        Self { unit, action, context }
    }
}
