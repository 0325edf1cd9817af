use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::attributes::AttributeError;
use crate::declaration::{
    Config, DependencyState, Place, Render, RenderError, Rendered, Scope, States,
};
use crate::manifest::check;
use crate::manifest::expression::{Budget, Failure, Names, Stop, from_json, is_template};
use crate::manifest::node::Map;
use crate::manifest::problem::Problems;
use crate::manifest::source::Source;
use crate::manifest::text::{self, Texts, Trouble};
use crate::manifest::vars::Vars;

/// The config of one resource, with its expressions.
#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) source: Arc<Source>,
    pub(crate) config: Map,
    pub(crate) vars: Vars,
    /// All variables as JSON, which tells 1 from 1.0 and true; none if they have no such form.
    pub(crate) vars_text: Option<Arc<str>>,
    pub(crate) aliases: Vec<String>,
}

impl Template {
    /// Evaluates what needs no dependency, to find at load what would fail later.
    ///
    /// Returns the config if nothing in it needs one.
    pub(crate) fn rehearse(&self, budget: &mut Budget, problems: &mut Problems) -> Option<Config> {
        let deps = self.aliases.iter().map(|alias| (alias.clone(), None)).collect();
        let names = Names { vars: Arc::clone(&self.vars), deps };
        let mut texts = Texts::new(&names, budget);
        let config = texts.map(&self.config);
        let findings = texts.finish();
        let is_known = findings.unknown.is_empty() && findings.troubles.is_empty();
        for Trouble { span, text, failure } in findings.troubles {
            check::report(&self.source, (&text, &span), failure, problems);
        }
        is_known.then_some(config)
    }

    /// Notes what a kind says of an attribute, where the attribute is written, or at the resource.
    pub(crate) fn blame(&self, resource: usize, error: &AttributeError, problems: &mut Problems) {
        let written = self.config.get(&error.attribute);
        let offset = written.map_or(resource, |entry| entry.key.start);
        problems.at(&self.source, offset, error);
    }

    fn names(&self, states: &States) -> Names {
        let state = |alias: &String| match states.get(alias) {
            Some(DependencyState::Known(state)) => Some(from_json(state)),
            Some(DependencyState::Unknown) | None => None,
        };
        let deps: BTreeMap<_, _> =
            self.aliases.iter().map(|alias| (alias.clone(), state(alias))).collect();
        Names { vars: Arc::clone(&self.vars), deps }
    }
}

impl Render for Template {
    fn render(&self, states: &States) -> Result<Rendered, RenderError> {
        let names = self.names(states);
        let mut budget = Budget::new();
        let mut texts = Texts::new(&names, &mut budget);
        let config = texts.map(&self.config);
        let findings = texts.finish();
        if let Some(Trouble { span, text, failure }) = findings.troubles.into_iter().next() {
            let offset = self.source.locate(&span, &text, failure.offset);
            return Err(render_error(self.source.place(offset), failure));
        }
        if !findings.unknown.is_empty() {
            return Ok(Rendered::Unknown { because: findings.unknown.into_iter().collect() });
        }
        Ok(Rendered::Known { config, scope: Arc::new(Seen(names)) })
    }

    fn is_equal(&self, other: &dyn Render) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            self.vars_text.is_some()
                && self.vars_text == other.vars_text
                && self.aliases == other.aliases
                && self.config == other.config
        })
    }

    fn place_of(&self, attribute: &str) -> Option<Place> {
        self.config.get(attribute).map(|entry| self.source.place(entry.key.start))
    }
}

/// What the expressions of a rendered config saw.
#[derive(Debug)]
struct Seen(Names);

impl Scope for Seen {
    fn render_text(&self, path: &Path, text: &str) -> Result<String, RenderError> {
        if !is_template(text) {
            return Ok(text.to_owned());
        }
        let failure = match text::render_text(text, &self.0, &mut Budget::new()) {
            Ok(rendered) => return Ok(rendered),
            Err(Stop::Failed(failure)) => failure,
            Err(Stop::Unknown(aliases)) => {
                let aliases: Vec<String> = aliases.into_iter().collect();
                let message = format!("not known before it was applied: {}", aliases.join(", "));
                Failure { offset: 0, message, help: None }
            }
        };
        let place = Source::new(path.to_owned(), text.to_owned()).place(failure.offset);
        Err(render_error(place, failure))
    }

    fn unknown_in(&self, text: &str) -> Vec<String> {
        match text::render_text(text, &self.0, &mut Budget::new()) {
            Err(Stop::Unknown(aliases)) => aliases.into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

fn render_error(place: Place, failure: Failure) -> RenderError {
    let Failure { message, help, .. } = failure;
    let message = match help {
        Some(help) => format!("{message}; {help}"),
        None => message,
    };
    RenderError { place, message }
}
