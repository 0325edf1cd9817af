//! From a declaration to its resource.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use serde_json::Value;

use crate::caught::caught;
use crate::claims::Claims;
use crate::context::{Context, Used};
use crate::declaration::{
    Config, Declaration, Inputs, Place, RenderError, Rendered, RenderedText, Scope,
};
use crate::error::AttributeError;
use crate::facilities::Facilities;
use crate::inputs;
use crate::kind::{Kind, Unit};
use crate::kinds::Kinds;
use crate::known::{Claimed, KnownConfig};
use crate::packed::Packed;
use crate::seal::Salt;
use crate::secrets::add_secret;
use crate::shape::Shape;
use crate::text::chain;
use crate::thing::Thing;

/// What all resources of a run are made with.
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
    /// Returns what the resources of some declarations are made with.
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

/// A resource that was made of its declaration and is not open yet.
pub(crate) struct Made {
    pub(crate) kind: Arc<dyn Kind>,
    /// Packed, as the unit has what it needs of it.
    config: Packed,
    pub(crate) unit: Arc<dyn Unit>,
    pub(crate) context: Context,
}

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show("Made", (&*self.kind, &self.config()), f)
    }
}

impl Made {
    /// Returns the config, made anew.
    pub(crate) fn config(&self) -> Config {
        match self.config.value() {
            Value::Object(config) => config,
            _ => unreachable!("a config is packed as a map"),
        }
    }

    /// Returns what the resource keeps.
    pub(crate) fn thing(&self) -> Thing {
        Thing::of((self.kind.name(), self.context.name()), &self.claimed().claims)
    }

    /// Returns what the resource keeps, makes, needs and reads.
    pub(crate) fn claimed(&self) -> Claimed {
        let known = KnownConfig { config: &self.config(), unknown: &BTreeSet::new() };
        let judged = caught(|| self.kind.judge(&known));
        judged.map_or_else(|_| Claimed::default(), |judged| judged.claimed)
    }
}

/// Why a declaration has not become a resource.
#[derive(Debug)]
pub(crate) enum Unmade {
    /// Its config needs the states of the dependencies with these aliases.
    Unknown(Vec<String>),
    /// It is wrong, as this says.
    Wrong(String),
}

impl Unmade {
    fn without_secrets(self, setting: &Setting) -> Self {
        match self {
            Self::Wrong(error) => {
                Self::Wrong(setting.facilities.secrets().redact(&error).into_owned())
            }
            unknown @ Self::Unknown(_) => unknown,
        }
    }
}

impl From<String> for Unmade {
    fn from(error: String) -> Self {
        Self::Wrong(error)
    }
}

/// A declaration whose config was rendered.
pub(crate) struct Rendering {
    pub(crate) kind: Arc<dyn Kind>,
    pub(crate) config: Config,
    pub(crate) context: Context,
}

impl fmt::Debug for Rendering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show("Rendering", (&*self.kind, &self.config), f)
    }
}

/// Shows what has a config, without the values of the config.
fn show(
    name: &str,
    (kind, config): (&dyn Kind, &Config),
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut shown = f.debug_struct(name);
    shown.field("kind", &kind.name()).field("config", &Shape::of_map(config));
    shown.finish_non_exhaustive()
}

/// Renders the config of a declaration.
pub(crate) fn render(
    declaration: &Declaration,
    setting: &Setting,
    inputs: &inputs::Inputs,
) -> Result<Rendering, Unmade> {
    render_config(declaration, setting, inputs).map_err(|unmade| unmade.without_secrets(setting))
}

fn render_config(
    declaration: &Declaration,
    setting: &Setting,
    inputs: &inputs::Inputs,
) -> Result<Rendering, Unmade> {
    let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
    let inputs::Inputs { used, notices, foresight, .. } = inputs;
    let states = used.iter().map(|used| (used.alias.clone(), used.state.clone()));
    let states = Inputs::new(states.collect());
    let rendered = caught(|| declaration.config.render(&states)).map_err(|err| err.to_string())?;
    let (config, scope) = match rendered.map_err(|err| chain(&err))? {
        Rendered::Known { config, scope } => (config, scope),
        Rendered::Unknown { because } => return Err(Unmade::Unknown(because)),
    };
    let context = Context::new(declaration, scope, setting.stop.clone());
    let context = context.with(&setting.facilities).knowing(used.clone(), notices.clone());
    let context = context.foreseeing(foresight.as_ref());
    Ok(Rendering { kind: Arc::clone(kind), config, context })
}

impl Rendering {
    /// Has the kind validate the config, and claims what the resource keeps.
    pub(crate) fn make(self, declaration: &Declaration, setting: &Setting) -> Result<Made, Unmade> {
        let who = (&*declaration.kind, &*declaration.name);
        setting.kinds.hide(who, &self.config, setting.facilities.secrets());
        let made = self.make_unit(declaration, &setting.claims);
        made.map_err(|unmade| unmade.without_secrets(setting))
    }

    fn make_unit(self, declaration: &Declaration, claims: &Claims) -> Result<Made, Unmade> {
        let Self { kind, config, context } = self;
        let made = caught(|| kind.make(&config)).map_err(|err| err.to_string())?;
        let unit = made.map_err(|errors| invalid(declaration, &errors))?;
        if declaration.may_find() {
            let known = KnownConfig { config: &config, unknown: &BTreeSet::new() };
            let judged = caught(|| kind.judge(&known)).map_err(|err| err.to_string())?;
            if let Some(part) = judged.parts.iter().find(|part| !declaration.has_part(part.name()))
            {
                let name = part.name();
                return Err(format!("its part \"{name}\" was not known at load").into());
            }
            claims.claim(declaration, judged.claimed.claims)?;
        }
        let config = Packed::new(&Value::Object(config));
        Ok(Made { kind, config, unit, context })
    }
}

/// Makes the resource of a declaration: renders the config, has the kind validate it, and claims what
/// the resource keeps.
pub(crate) fn make(
    declaration: &Declaration,
    setting: &Setting,
    inputs: &inputs::Inputs,
) -> Result<Made, Unmade> {
    render(declaration, setting, inputs)?.make(declaration, setting)
}

/// Makes the resource of a declaration with a config that it had before, because the one that it is
/// declared with now is wrong. It was notified of nothing, and renders no texts.
pub(crate) fn make_as_before(
    (config, used): (Config, Vec<Used>),
    (declaration, wrong): (&Declaration, &str),
    setting: &Setting,
) -> Result<Made, Unmade> {
    let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
    for (_, value) in config.iter().filter(|(name, _)| declaration.hidden.contains(*name)) {
        add_secret(value, setting.facilities.secrets());
    }
    let scope = Unrendered { place: declaration.place.clone(), wrong: wrong.to_owned() };
    let context = Context::new(declaration, Arc::new(scope), setting.stop.clone());
    let context = context.with(&setting.facilities).knowing(used, Vec::new());
    Rendering { kind: Arc::clone(kind), config, context }.make(declaration, setting)
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

/// Says what is wrong with a config: each attribute with its place.
fn invalid(declaration: &Declaration, errors: &[AttributeError]) -> String {
    let errors = errors.iter().map(|error| match declaration.config.place_of(&error.attribute) {
        Some(place) => format!("{place}: {error}"),
        None => error.to_string(),
    });
    format!("the config is not valid: {}", errors.collect::<Vec<_>>().join("; "))
}
