//! Which results come of secrets.

use crankcase_resources::add_secret;
use minijinja::machinery::ast::Expr;
use minijinja::value::Value;

use crate::manifest::expression::Failure;
use crate::manifest::expression::eval::{Eval, Stop, Taint};
use crate::manifest::expression::uses::path;

impl<'a> Eval<'_, '_, 'a> {
    /// Evaluates an expression; says whether it has used a secret. What is wrong with one that has is not
    /// shown: an error may hold its values.
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

    /// Takes a result that comes of a secret for one.
    pub(super) fn note(&self, value: &Value, is_secret: bool) {
        if is_secret && let Ok(value) = serde_json::to_value(value) {
            add_secret(&value, &self.names.sensitive.secrets);
        }
    }

    /// Evaluates a name, or a name with attributes.
    pub(super) fn chain(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        let is_in_chain = std::mem::take(&mut self.taint.is_in_chain);
        if !self.names.sensitive.is_empty()
            && let Some(path) = path(expr)
        {
            self.taint.is_secret |= !is_in_chain && self.is_secret(&path);
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
        value
    }

    fn is_secret(&self, path: &[String]) -> bool {
        let local = self.locals.iter().rev().flatten().find(|local| local.name == path[0]);
        match local {
            Some(local) => local.is_secret,
            None => self.names.sensitive.used(path).is_some(),
        }
    }
}
