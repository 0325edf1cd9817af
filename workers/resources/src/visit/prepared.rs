//! Resources that are prepared by their declarations.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use serde_json::Value;

use crate::base::caught::caught;
use crate::base::error::AttributeError;
use crate::base::packed::Packed;
use crate::base::shape::Shape;
use crate::base::text::chain;
use crate::declare::declaration::{
    Config, Declaration, Inputs, Place, RenderError, Rendered, RenderedText, Scope,
};
use crate::declare::earlier_config::EarlierConfig;
use crate::declare::kept_thing::KeptThing;
use crate::declare::known::{Claimed, KnownConfig};
use crate::kind::context::{Context, Used};
use crate::kind::contract::{Kind, Unit};
use crate::kind::kinds::Kinds;
use crate::kind::secrets::add_secret;
use crate::report::seal::Salt;
use crate::state::facilities::Facilities;
use crate::visit::claims::Claims;
use crate::visit::inputs;

/// What all resources of a run are prepared with.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) kinds: Kinds,
    pub(crate) stop: Stop,
    pub(crate) claims: Claims,
    pub(crate) facilities: Facilities,
    /// What a plan is sealed with, if it is.
    pub(crate) salt: Option<Salt>,
}

impl Setting {
    /// Returns what the resources of some declarations are prepared with.
    pub(crate) fn new(
        kinds: &Kinds,
        stop: Stop,
        declarations: &[Declaration],
        facilities: &Facilities,
    ) -> Self {
        let claims = Claims::default();
        claims.connect(declarations);
        Self { kinds: kinds.clone(), stop, claims, facilities: facilities.clone(), salt: None }
    }
}

/// A resource that was prepared by its declaration and is not open yet: its config is rendered, and
/// the kind has made it.
pub(crate) struct Prepared {
    pub(crate) kind: Arc<dyn Kind>,
    /// Packed, as the unit has what it needs of it.
    config: Packed,
    pub(crate) context: Context,
    pub(crate) unit: Arc<dyn Unit>,
    /// Whether it is a resource that is open already, by an equal config.
    pub(crate) is_open: bool,
}

impl fmt::Debug for Prepared {
    // The values of the config may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Prepared");
        shown.field("kind", &self.kind.name()).field("config", &Shape::of_map(&self.config()));
        shown.finish_non_exhaustive()
    }
}

/// Why a declaration has not become a resource.
#[derive(Debug)]
pub(crate) enum NotPrepared {
    /// Its config needs the states of the dependencies with these aliases.
    Unknown(Vec<String>),
    /// It is wrong, as this says.
    Wrong(String),
}

impl From<String> for NotPrepared {
    fn from(error: String) -> Self {
        Self::Wrong(error)
    }
}

impl Prepared {
    /// Renders the config of a declaration, has the kind make the resource of it, and claims what
    /// the resource keeps. If the config is that of the resource that is `open`, it is that one.
    pub(crate) fn of(
        declaration: &Declaration,
        setting: &Setting,
        inputs: &inputs::Inputs,
        open: Option<&Self>,
    ) -> Result<Self, NotPrepared> {
        Self::new(declaration, setting, inputs, open).map_err(|error| match error {
            NotPrepared::Wrong(error) => {
                setting.facilities.secrets().redact(&error).into_owned().into()
            }
            unknown @ NotPrepared::Unknown(_) => unknown,
        })
    }

    fn new(
        declaration: &Declaration,
        setting: &Setting,
        inputs: &inputs::Inputs,
        open: Option<&Self>,
    ) -> Result<Self, NotPrepared> {
        let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
        let inputs::Inputs { used, notices, foresight, .. } = inputs;
        let states = used.iter().map(|used| (used.alias.clone(), used.state.clone()));
        let states = Inputs::new(states.collect());
        let rendered =
            caught(|| declaration.config.render(&states)).map_err(|err| err.to_string())?;
        let (config, scope) = match rendered.map_err(|err| chain(&err))? {
            Rendered::Known { config, scope } => (config, scope),
            Rendered::Unknown { because } => return Err(NotPrepared::Unknown(because)),
        };
        let context = Context::new(declaration, scope, setting.stop.clone());
        let context = context.with(&setting.facilities).knowing(used.clone(), notices.clone());
        let context = context.foreseeing(foresight.as_ref());
        let is_same = |open: &&Self| caught(|| kind.same(&open.config(), &config)).unwrap_or(false);
        let open = open.filter(is_same);
        let unit = match open {
            Some(open) => Arc::clone(&open.unit),
            None => make(declaration, setting, (&**kind, &config))?,
        };
        let (kind, config) = (Arc::clone(kind), Packed::new(&Value::Object(config)));
        Ok(Self { kind, config, context, unit, is_open: open.is_some() })
    }

    /// Prepares a resource with a config that it had before, because the one that it is declared
    /// with now is wrong, and claims what it keeps with that one. It was notified of nothing, and
    /// renders no texts.
    pub(crate) fn as_before(
        (before, used): (EarlierConfig, Vec<Used>),
        (declaration, wrong): (&Declaration, &str),
        setting: &Setting,
    ) -> Result<Self, NotPrepared> {
        let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
        let EarlierConfig { config, hidden } = before;
        let mut declaration = declaration.clone();
        // The declaration of now need not say what was secret then.
        if !hidden.is_subset(&declaration.hidden) {
            declaration.hidden.extend(hidden);
        }
        for (_, value) in config.iter().filter(|(name, _)| declaration.hidden.contains(*name)) {
            add_secret(value, setting.facilities.secrets());
        }
        let scope = Unrendered { place: declaration.place.clone(), wrong: wrong.to_owned() };
        let context = Context::new(&declaration, Arc::new(scope), setting.stop.clone());
        let context = context.with(&setting.facilities).knowing(used, Vec::new());
        let unit = make(&declaration, setting, (&**kind, &config))?;
        let (kind, config) = (Arc::clone(kind), Packed::new(&Value::Object(config)));
        let prepared = Self { kind, config, context, unit, is_open: false };
        prepared.claim_as_before(&declaration, &setting.claims)?;
        Ok(prepared)
    }

    /// Claims what the resource keeps with a config that it had before. One that is left alone keeps
    /// nothing. The error says who keeps it already.
    pub(crate) fn claim_as_before(
        &self,
        declaration: &Declaration,
        claims: &Claims,
    ) -> Result<(), String> {
        match declaration.noop {
            true => Ok(()),
            false => claims.claim(declaration, self.claimed().claims),
        }
    }

    /// Returns the config, made anew.
    pub(crate) fn config(&self) -> Config {
        match self.config.value() {
            Value::Object(config) => config,
            _ => unreachable!("a config is packed as a map"),
        }
    }

    /// Returns what the resource keeps.
    pub(crate) fn thing(&self) -> KeptThing {
        KeptThing::of((self.kind.name(), self.context.name()), &self.claimed().claims)
    }

    /// Returns what the resource keeps, makes, needs and reads.
    pub(crate) fn claimed(&self) -> Claimed {
        let known = KnownConfig { config: &self.config(), unknown: &BTreeSet::new() };
        let judged = caught(|| self.kind.judge(&known));
        judged.map_or_else(|_| Claimed::default(), |judged| judged.claimed)
    }
}

/// Renders nothing, because the declaration is wrong.
#[derive(Debug)]
struct Unrendered {
    place: Place,
    wrong: String,
}

impl Scope for Unrendered {
    fn render_text(&self, _: &Path, _: &str) -> Result<RenderedText, RenderError> {
        Err(RenderError { place: self.place.clone(), message: self.wrong.clone() })
    }
}

/// Has the kind make the resource of a config, and claims what the resource keeps.
fn make(
    declaration: &Declaration,
    setting: &Setting,
    (kind, config): (&dyn Kind, &Config),
) -> Result<Arc<dyn Unit>, NotPrepared> {
    let who = (&*declaration.kind, &*declaration.name);
    setting.kinds.hide(who, config, setting.facilities.secrets());
    let made = caught(|| kind.make(config)).map_err(|err| err.to_string())?;
    let unit = made.map_err(|errors| invalid(declaration, &errors))?;
    if declaration.may_find() {
        let known = KnownConfig { config, unknown: &BTreeSet::new() };
        let judged = caught(|| kind.judge(&known)).map_err(|err| err.to_string())?;
        if let Some(part) = judged.parts.iter().find(|part| !declaration.has_part(part.name())) {
            return Err(format!("its part \"{}\" was not known at load", part.name()).into());
        }
        setting.claims.claim(declaration, judged.claimed.claims)?;
    } else {
        // It may have kept something else while it was held as it was before.
        setting.claims.release(&declaration.name);
    }
    Ok(unit)
}

/// Says what is wrong with a config: each attribute with its place.
fn invalid(declaration: &Declaration, errors: &[AttributeError]) -> String {
    let errors = errors.iter().map(|error| match declaration.config.place_of(&error.attribute) {
        Some(place) => format!("{place}: {error}"),
        None => error.to_string(),
    });
    format!("the config is not valid: {}", errors.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
