//! From a declaration to its resource.

use std::collections::BTreeSet;
use std::sync::Arc;

use crankcase_engine::Stop;

use crate::caught::caught;
use crate::claims::Claims;
use crate::context::Context;
use crate::declaration::{self, Config, Declaration, Rendered};
use crate::facilities::Facilities;
use crate::inputs::Inputs;
use crate::kind::{Kind, Unit};
use crate::kinds::Kinds;
use crate::known::KnownConfig;
use crate::text::chain;

/// What every visit of one run shares.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) kinds: Kinds,
    pub(crate) stop: Stop,
    pub(crate) claims: Claims,
    pub(crate) facilities: Facilities,
}

impl Setting {
    /// Returns what the visits of some declarations share.
    pub(crate) fn new(
        kinds: &Kinds,
        stop: Stop,
        declarations: &[Declaration],
        facilities: &Facilities,
    ) -> Self {
        let claims = Claims::default();
        claims.connect(declarations);
        Self { kinds: kinds.clone(), stop, claims, facilities: facilities.clone() }
    }
}
/// A declaration whose config was rendered.
#[derive(Debug)]
pub(crate) enum Made {
    /// It has become a resource.
    Unit(Arc<dyn Unit>, Context),
    /// It needs the states of the dependencies with these aliases.
    Unknown(Vec<String>),
}

/// Renders a config and validates it.
pub(crate) fn make(
    declaration: &Declaration,
    setting: &Setting,
    inputs: &Inputs,
) -> Result<Made, String> {
    let kind = setting.kinds.get(&declaration.kind).map_err(|err| err.to_string())?;
    let (config, scope) = match render(declaration, &inputs.known)? {
        Rendered::Known { config, scope } => (config, scope),
        Rendered::Unknown { because } => return Ok(Made::Unknown(because)),
    };
    let unit = make_of(declaration, kind, &config)?;
    claim(declaration, kind, &config, &setting.claims)?;
    let context = Context::new(declaration, scope, setting.stop.clone());
    let context = context.with(&setting.facilities);
    Ok(Made::Unit(unit, context.knowing(inputs.used.clone(), inputs.notices.clone())))
}

/// Renders a config.
pub(crate) fn render(
    declaration: &Declaration,
    inputs: &declaration::Inputs,
) -> Result<Rendered, String> {
    let rendered = caught(|| declaration.config.render(inputs)).map_err(|err| err.to_string())?;
    rendered.map_err(|err| chain(&err))
}

/// Makes a resource of a config; the error names each attribute with its place.
pub(crate) fn make_of(
    declaration: &Declaration,
    kind: &Arc<dyn Kind>,
    config: &Config,
) -> Result<Arc<dyn Unit>, String> {
    let made = caught(|| kind.make(config)).map_err(|err| err.to_string())?;
    made.map_err(|errors| {
        let errors: Vec<_> = errors
            .iter()
            .map(|error| match declaration.config.place_of(&error.attribute) {
                Some(place) => format!("{place}: {error}"),
                None => error.to_string(),
            })
            .collect();
        format!("the config is not valid: {}", errors.join("; "))
    })
}

/// Claims what a resource keeps, which no other may.
pub(crate) fn claim(
    declaration: &Declaration,
    kind: &Arc<dyn Kind>,
    config: &Config,
    claims: &Claims,
) -> Result<(), String> {
    if !declaration.may_find() {
        return Ok(());
    }
    let unknown = BTreeSet::new();
    let judged = caught(|| kind.judge(&KnownConfig { config, unknown: &unknown }));
    claims.claim(declaration, judged.map_err(|err| err.to_string())?.claimed.claims)
}
