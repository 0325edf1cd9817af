//! The results that come of secrets.

use crankcase_resources::front::add_secret;
use minijinja::machinery::ast::Expr;
use minijinja::value::{Value, ValueKind};

use crate::manifest::expression::Failure;
use crate::manifest::expression::eval::{Eval, Stop, Taint, failed};
use crate::manifest::expression::partial::Partial;
use crate::manifest::expression::uses::{path, start};

/// How many values that are looked through for secrets are one step of work.
const VALUES_PER_STEP: usize = 16;
/// How many bytes of text are one such value.
const BYTES_PER_VALUE: usize = 64;

impl<'a> Eval<'_, '_, 'a> {
    /// Evaluates an expression, and returns whether it has used a secret. If it has, its problem is
    /// not shown, because an error may hold its values.
    pub(super) fn watched(&mut self, expr: &'a Expr<'a>) -> Result<(Value, bool), Stop> {
        self.taint = Taint::default();
        let value = self.expr(expr);
        let is_secret = self.taint.is_secret;
        match value {
            Err(Stop::Failed(failure)) if is_secret => {
                let message =
                    "it cannot be evaluated; it uses a secret, so no more is shown of why";
                let offset = failure.offset;
                Err(Stop::Failed(Failure::new(offset, message)))
            }
            value => Ok((value?, is_secret)),
        }
    }

    /// Counts a result that comes of a secret as a secret.
    pub(super) fn note(&self, value: &Value, is_secret: bool) {
        if is_secret && let Ok(value) = serde_json::to_value(value) {
            add_secret(&value, &self.names.sensitive.secrets);
        }
    }

    /// Evaluates a name, or a name with attributes.
    pub(super) fn chain(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        let is_in_chain = std::mem::take(&mut self.taint.is_in_chain);
        let sensitive = &self.names.sensitive;
        let has_secrets = !(sensitive.is_empty() && sensitive.secrets.is_empty());
        if (has_secrets || !self.names.unknown_facts.is_empty())
            && let Some(path) = path(expr)
        {
            if !is_in_chain {
                self.require_facts(&path)?;
                self.taint.is_secret |= has_secrets && self.is_secret(&path);
            }
            self.taint.is_in_chain = path.len() > 1;
        }
        let value = match expr {
            Expr::Var(var) => self.name(var.id),
            Expr::GetAttr(attr) => self.attribute(&attr.expr, &attr.name.into()),
            Expr::GetItem(item) => {
                let key = self.expr(&item.subscript_expr)?;
                self.attribute(&item.expr, &key)
            }
            other => return self.expr(other),
        };
        self.taint.is_in_chain = false;
        // Only the last value of a name with attributes counts.
        if let Ok(value) = &value
            && !is_in_chain
        {
            let mut looked = 0;
            self.taint.is_secret |= self.holds_secret(value, &mut looked);
            let paid = self.budget.steps(looked / VALUES_PER_STEP);
            paid.map_err(|why| failed(start(expr), why))?;
        }
        value
    }

    /// Returns whether a value holds a known secret: in its text, or in a text of its list or map.
    /// Counts the values that it has looked through.
    fn holds_secret(&self, value: &Value, looked: &mut usize) -> bool {
        let secrets = &self.names.sensitive.secrets;
        if secrets.is_empty() {
            return false;
        }
        *looked += 1 + value.as_str().map_or(0, str::len) / BYTES_PER_VALUE;
        if let Some(partial) = value.downcast_object_ref::<Partial>() {
            // A look through the value is no use of it.
            return partial.known.values().any(|known| self.holds_secret(known, looked));
        }
        let mut inner = value.try_iter().into_iter().flatten();
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                inner.any(|item| self.holds_secret(&item, looked))
            }
            ValueKind::Map => inner.any(|key| {
                let inner = value.get_item(&key);
                self.holds_secret(&key, looked)
                    || inner.is_ok_and(|inner| self.holds_secret(&inner, looked))
            }),
            _ => match value.as_str() {
                Some(text) => secrets.are_in(text),
                None => secrets.are_in(&value.to_string()),
            },
        }
    }

    fn is_secret(&self, path: &[String]) -> bool {
        let local = self.locals.iter().rev().flatten().find(|local| local.name == path[0]);
        match local {
            Some(local) => local.is_secret,
            None => {
                let sensitive = &self.names.sensitive;
                sensitive.used(path).is_some() || sensitive.is_of_state(path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crankcase_resources::front::Secrets;
    use minijinja::value::Value;

    use crate::manifest::expression::budget::Budget;
    use crate::manifest::expression::eval::{Names, evaluate};
    use crate::manifest::expression::parsed::Parsed;
    use crate::manifest::sensitive::Sensitive;

    /// Returns how much work it is to take one of 16,000 values.
    fn work(secrets: &Secrets) -> usize {
        let values: Vec<Value> = (0..16_000).map(Value::from).collect();
        let vars = Arc::new(BTreeMap::from([("values".to_owned(), Value::from(values))]));
        let sensitive = Arc::new(Sensitive::new(secrets));
        let names = Names { vars, sensitive, ..Names::default() };
        let parsed = Parsed::new("{{ values[0] }}").expect("it is an expression");
        let mut budget = Budget::new();
        assert!(evaluate(&parsed, &names, &mut budget).is_ok());
        budget.spent()
    }

    #[test]
    fn a_look_for_secrets_is_paid_for() {
        let secrets = Secrets::default();
        let without = work(&secrets);

        secrets.add("hunter2hunter2");

        assert!(work(&secrets) >= without + 1_000);
    }
}
