//! What is shown of a resource, without its secrets.

use std::collections::VecDeque;

use crankcase_workers::Secrets;
use parking_lot::Mutex;
use serde_json::Value;

use crate::base::error::BoxError;
use crate::declare::action::Action;
use crate::declare::params::{HIDDEN, Type};
use crate::kind::context::Context;
use crate::kind::secrets::{note_secrets, redact_text, redact_value};
use crate::report::found::{Difference, Found, Stale};
use crate::visit::prepared::Prepared;

/// How many actions that were done are remembered.
const MAX_DONE: usize = 64;

/// What the actions that were shown really are, where their arguments hold secrets.
#[derive(Default)]
pub(super) struct Disguise(Mutex<Pairs>);

/// Actions as they were shown, each with what it is.
#[derive(Default)]
struct Pairs {
    /// Those that the last look, or a refresh after it, wants.
    wanted: Vec<(Action, Action)>,
    /// Those that were taken to be done, the last ones.
    done: VecDeque<(Action, Action)>,
}

impl std::fmt::Debug for Disguise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disguise")
    }
}

impl Disguise {
    /// Hides the secrets in what a check has found, all but those in states: dependents need these.
    pub(super) fn hide(&self, mut found: Found, prepared: &Prepared) -> Found {
        let Prepared { kind, context, .. } = prepared;
        self.0.lock().wanted.clear();
        let note = |state: &Value| {
            let state = state.as_object();
            state.inspect(|it| note_secrets(it, kind.states(), context.secrets()));
        };
        match &mut found {
            Found::Valid(state) => note(state),
            Found::Unknown(_) => {}
            Found::Stale(Stale { current, differences, actions, shutdown, after, .. }) => {
                for state in current.as_ref().into_iter().chain(after.as_deref()) {
                    note(state);
                }
                for difference in differences {
                    if is_hidden(&difference.attribute, prepared) {
                        difference.hide();
                    } else {
                        redact_difference(difference, context.secrets());
                    }
                }
                for action in actions.iter_mut().chain(shutdown) {
                    *action = self.show(std::mem::replace(action, Action::new("")), context);
                }
            }
        }
        found
    }

    /// Returns an action as it is shown.
    pub(super) fn show(&self, action: Action, context: &Context) -> Action {
        let mut shown = action.clone();
        for (name, value) in &mut shown.arguments {
            if context.hidden().contains(name) {
                *value = HIDDEN.into();
            } else {
                redact_value(value, context.secrets());
            }
        }
        if shown != action {
            self.0.lock().wanted.push((shown.clone(), action));
        }
        shown
    }

    /// Returns the action behind a shown one, so that it can be done. If several are shown alike,
    /// each call returns the next of them.
    pub(super) fn take(&self, shown: &Action) -> Result<Action, BoxError> {
        let mut pairs = self.0.lock();
        let Some(position) = pairs.wanted.iter().position(|(it, _)| it == shown) else {
            let is_hidden = |value: &Value| value.to_string().contains(HIDDEN);
            return match shown.arguments.values().any(is_hidden) {
                true => Err("the last look did not ask for this action".into()),
                false => Ok(shown.clone()),
            };
        };
        let pair = pairs.wanted.remove(position);
        let action = pair.1.clone();
        pairs.done.push_front(pair);
        pairs.done.truncate(MAX_DONE);
        Ok(action)
    }

    /// Returns the action behind a shown one that was done.
    pub(super) fn done(&self, shown: &Action) -> Action {
        let pairs = self.0.lock();
        let found = pairs.done.iter().find(|(it, _)| it == shown);
        found.map_or_else(|| shown.clone(), |(_, action)| action.clone())
    }
}

/// Returns whether an attribute is shown to nobody. If any attribute of the config comes from a
/// secret, so may the attributes that the config does not give: the kind has made them from the
/// others. The values of some types are too few to say anything.
fn is_hidden(attribute: &str, prepared: &Prepared) -> bool {
    let Prepared { kind, context, .. } = prepared;
    let hidden = context.hidden();
    if hidden.is_empty() || hidden.contains(attribute) {
        return hidden.contains(attribute);
    }
    let ty = [kind.table(), kind.states()].into_iter().find_map(|table| table.get(attribute));
    let is_closed = |ty: &Type| matches!(ty, Type::Choice { .. } | Type::Flag | Type::Mode);
    !prepared.config().contains_key(attribute)
        && !ty.is_some_and(|parameter| is_closed(&parameter.ty))
}

fn redact_difference(difference: &mut Difference, secrets: &Secrets) {
    redact_value(&mut difference.old, secrets);
    redact_value(&mut difference.new, secrets);
    if let Some(text) = &mut difference.text {
        redact_text(text, secrets);
    }
}
