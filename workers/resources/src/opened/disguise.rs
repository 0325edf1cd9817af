//! What is shown of a resource, without its secrets.

use std::collections::VecDeque;

use crankcase_workers::Secrets;
use parking_lot::Mutex;
use serde_json::Value;

use crate::action::Action;
use crate::context::Context;
use crate::found::{Amiss, Difference, Found};
use crate::make::Made;
use crate::params::{HIDDEN, Type};
use crate::secrets::{note_secrets, redact_text, redact_value};

/// How many actions with secrets are remembered; a check asks for a few.
const MAX_ACTIONS: usize = 64;

/// What the actions that were shown really are, where their arguments hold secrets: each as it was shown,
/// and as it is.
#[derive(Default)]
pub(super) struct Disguise(Mutex<VecDeque<(Action, Action)>>);

impl std::fmt::Debug for Disguise {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Disguise")
    }
}

impl Disguise {
    /// Hides the secrets in what a check has found, all but those in states: dependents need these.
    pub(super) fn hide(&self, mut found: Found, made: &Made) -> Found {
        let Made { kind, context, .. } = made;
        let note = |state: &Value| {
            let state = state.as_object();
            state.inspect(|it| note_secrets(it, kind.states(), context.secrets()));
        };
        match &mut found {
            Found::Valid(state) => note(state),
            Found::Unknown(_) => {}
            Found::Stale(Amiss { current, differences, actions, shutdown, after }) => {
                for state in current.as_ref().into_iter().chain(after.as_deref()) {
                    note(state);
                }
                for difference in differences {
                    if is_hidden(&difference.attribute, made) {
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
        let pair = (shown.clone(), action);
        let mut actions = self.0.lock();
        if pair.0 != pair.1 && !actions.contains(&pair) {
            actions.truncate(MAX_ACTIONS - 1);
            actions.push_front(pair);
        }
        shown
    }

    /// Returns what an action that was shown really is.
    pub(super) fn real(&self, shown: &Action) -> Action {
        let mut actions = self.0.lock();
        let Some(position) = actions.iter().rposition(|(it, _)| it == shown) else {
            return shown.clone();
        };
        // Of several that are shown alike the next one is another.
        let pair = actions.remove(position).expect("it was found there");
        let real = pair.1.clone();
        actions.push_front(pair);
        real
    }
}

/// Returns whether an attribute is shown to nobody. If any attribute of the config comes of a secret, so
/// may those that the config does not give: the kind has made them of the others. The values of some types
/// are too few to say anything.
fn is_hidden(attribute: &str, Made { kind, config, context, .. }: &Made) -> bool {
    let hidden = context.hidden();
    if hidden.is_empty() || hidden.contains(attribute) {
        return hidden.contains(attribute);
    }
    let ty = [kind.table(), kind.states()].into_iter().find_map(|table| table.get(attribute));
    let is_closed = |ty: &Type| matches!(ty, Type::Choice { .. } | Type::Flag | Type::Mode);
    !config.contains_key(attribute) && !ty.is_some_and(|parameter| is_closed(&parameter.ty))
}

fn redact_difference(difference: &mut Difference, secrets: &Secrets) {
    redact_value(&mut difference.old, secrets);
    redact_value(&mut difference.new, secrets);
    if let Some(text) = &mut difference.text {
        redact_text(text, secrets);
    }
}
