//! Whether an attribute of a state can be an attribute of a config.

use crate::manifest::check::{Checker, report};
use crate::manifest::expression::{Failure, Parsed, Use, bare, is_template};
use crate::manifest::node::{Data, Node};

impl Checker<'_> {
    /// Finds an attribute of the config that is one of a dependency's state, of a type whose values are
    /// never right there.
    pub(super) fn check_type(&mut self, attribute: &str, value: &Node) {
        let Data::String(text) = &value.data else { return };
        if self.usable.states.is_empty() || !is_template(text) {
            return;
        }
        let used = Parsed::new(text).ok().and_then(|parsed| bare(&parsed));
        if let Some(failure) = used.and_then(|used| self.misfit(attribute, &used)) {
            report(self.source, (text, &value.span), failure, self.problems);
        }
    }

    fn misfit(&self, attribute: &str, used: &Use) -> Option<Failure> {
        let Use::Name { offset, path } = used else { return None };
        let [alias, of, name] = path.strip_prefix(&["deps".to_owned()]).unwrap_or(path) else {
            return None;
        };
        let is_state = of == "state" || self.usable.groups.contains(alias.as_str());
        let table = self.usable.states.get(alias.as_str()).filter(|_| is_state)?;
        let (given, taken) = (table.get(name)?, self.usable.parameters?.get(attribute)?);
        // Null counts as not given.
        let may_be_null = !given.is_required && !taken.is_required;
        if may_be_null || taken.ty.can_take(&given.ty) {
            return None;
        }
        let (given, taken) = (given.ty.noun(), taken.ty.noun());
        let message = format!("{attribute}: {} is {given}; this takes {taken}", path.join("."));
        Some(Failure::new(*offset, message))
    }
}
