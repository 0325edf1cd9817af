//! The evaluator of expressions and statements.

mod lookup;
mod taint;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use minijinja::machinery::ast::{BinOp, BinOpKind, CallArg, Expr, ForLoop, Stmt, UnaryOpKind};
use minijinja::value::{Kwargs, Value, ValueKind};

use crate::manifest::expression::budget::Budget;
use crate::manifest::expression::filters;
use crate::manifest::expression::operators;
use crate::manifest::expression::parsed::{Failure, Parsed};
use crate::manifest::expression::uses::{offset, start};
use crate::manifest::expression::value::no_value;
use crate::manifest::kept_facts::UnknownFacts;
use crate::manifest::sensitive::Sensitive;

/// How deep an expression, and statements in statements, may nest.
const MAX_DEPTH: usize = 100;

/// The values of free names.
#[derive(Default)]
pub(crate) struct Names {
    /// The variables.
    pub(crate) vars: Arc<BTreeMap<String, Value>>,
    /// The dependencies as expressions see them, by alias; none for one that is not known yet.
    pub(crate) deps: BTreeMap<String, Option<Value>>,
    /// The known parts of the states that are not known as a whole, by alias.
    pub(crate) declared: BTreeMap<String, Value>,
    /// The machine.
    pub(crate) host: Value,
    pub(crate) facts: Value,
    /// Whether there are more facts than these.
    pub(crate) has_part_of_facts: bool,
    /// The facts that are not known yet, as other resources keep them.
    pub(crate) unknown_facts: UnknownFacts,
    /// The variables that follow from such facts, each with the aliases of the resources that keep these.
    pub(crate) unknown_vars: BTreeMap<String, BTreeSet<String>>,
    /// The names of the resources that keep facts at paths which are known only after apply, if
    /// there are any.
    pub(crate) late_keepers: Option<Arc<str>>,
    /// The item that the resource is for, if it is for one.
    pub(crate) item: Option<Value>,
    /// The secrets among these values.
    pub(crate) sensitive: Arc<Sensitive>,
    /// The variables that are wrong, each with the message about it.
    pub(crate) wrong: Arc<BTreeMap<String, String>>,
}

/// Shows the names of the variables and the dependencies, and no values.
impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vars: Vec<_> = self.vars.keys().collect();
        let deps: Vec<_> = self.deps.keys().collect();
        f.debug_struct("Names").field("vars", &vars).field("deps", &deps).finish_non_exhaustive()
    }
}

/// Why an evaluation has no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It is wrong.
    Failed(Failure),
    /// It uses the dependencies with these aliases, or facts that they keep, and their states are
    /// not known yet.
    Unknown(BTreeSet<String>),
}

/// Evaluates a text: a text that is exactly one `{{ }}` keeps its type.
pub(crate) fn evaluate(
    parsed: &Parsed<'_>,
    names: &Names,
    budget: &mut Budget,
) -> Result<Value, Stop> {
    if let [Stmt::EmitExpr(emit)] = parsed.statements() {
        let mut eval = Eval::new(names, budget);
        let (value, is_secret) = eval.watched(&emit.expr)?;
        eval.not_forgotten(&emit.expr, &value)?;
        eval.note(&value, is_secret);
        return Ok(value);
    }
    evaluate_text(parsed, names, budget).map(Value::from)
}

/// Evaluates a text whose result is a text.
pub(crate) fn evaluate_text(
    parsed: &Parsed<'_>,
    names: &Names,
    budget: &mut Budget,
) -> Result<String, Stop> {
    let mut out = String::new();
    Eval::new(names, budget).statements(parsed.statements(), &mut out)?;
    Ok(out)
}

struct Eval<'n, 'b, 'a> {
    names: &'n Names,
    budget: &'b mut Budget,
    locals: Vec<Vec<Local<'a>>>,
    depth: usize,
    taint: Taint,
}

/// The values that the expression at work has used.
#[derive(Debug, Default)]
struct Taint {
    /// Whether one of them was a secret.
    is_secret: bool,
    /// Whether the next name is the beginning of a chain of attributes that was looked at as a whole.
    is_in_chain: bool,
}

/// A name that a text has set.
struct Local<'a> {
    name: &'a str,
    value: Value,
    /// Whether the value comes of a secret.
    is_secret: bool,
}

impl<'n, 'b, 'a> Eval<'n, 'b, 'a> {
    fn new(names: &'n Names, budget: &'b mut Budget) -> Self {
        Self { names, budget, locals: vec![Vec::new()], depth: 0, taint: Taint::default() }
    }

    fn statements(&mut self, statements: &'a [Stmt<'a>], out: &mut String) -> Result<(), Stop> {
        self.nest(0)?;
        for statement in statements {
            self.statement(statement, out)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn statement(&mut self, statement: &'a Stmt<'a>, out: &mut String) -> Result<(), Stop> {
        self.budget.steps(1).map_err(|why| failed(0, why))?;
        match statement {
            Stmt::EmitRaw(raw) => {
                self.budget.text(raw.raw.len()).map_err(|why| failed(0, why))?;
                out.push_str(raw.raw);
                Ok(())
            }
            Stmt::EmitExpr(emit) => {
                let (value, is_secret) = self.watched(&emit.expr)?;
                self.not_null(&emit.expr, &value)?;
                self.note(&value, is_secret);
                let written = operators::write(out, &value, self.budget);
                written.map_err(|why| failed(start(&emit.expr), why))
            }
            Stmt::IfCond(cond) => {
                let holds = self.watched(&cond.expr)?.0.is_true();
                self.statements(if holds { &cond.true_body } else { &cond.false_body }, out)
            }
            Stmt::ForLoop(each) => self.each(each, out),
            Stmt::Set(set) => {
                let (value, is_secret) = self.watched(&set.expr)?;
                self.assign(&set.target, value, is_secret)
            }
            Stmt::WithBlock(with) => {
                self.locals.push(Vec::new());
                for (target, expr) in &with.assignments {
                    let (value, is_secret) = self.watched(expr)?;
                    self.assign(target, value, is_secret)?;
                }
                self.statements(&with.body, out)?;
                self.locals.pop();
                Ok(())
            }
            _ => Err(failed(0, "this statement is not supported")),
        }
    }

    fn each(&mut self, each: &'a ForLoop<'a>, out: &mut String) -> Result<(), Stop> {
        let (iterated, is_secret) = self.watched(&each.iter)?;
        let place = start(&each.iter);
        let is_iterable =
            matches!(iterated.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map);
        if !is_iterable {
            return Err(failed(place, format!("cannot loop over a {}", iterated.kind())));
        }
        let mut items = Vec::new();
        for item in iterated.try_iter().map_err(|err| failed(place, err.to_string()))? {
            self.budget.steps(1).map_err(|why| failed(place, why))?;
            if let Some(filter) = &each.filter_expr {
                self.locals.push(Vec::new());
                self.assign(&each.target, item.clone(), is_secret)?;
                let keeps = self.watched(filter)?.0.is_true();
                self.locals.pop();
                if !keeps {
                    continue;
                }
            }
            items.push(item);
        }
        let length = items.len();
        if length == 0 {
            return self.statements(&each.else_body, out);
        }
        for (index, item) in items.into_iter().enumerate() {
            let position = position(index, length);
            self.locals.push(vec![Local { name: "loop", value: position, is_secret: false }]);
            self.assign(&each.target, item, is_secret)?;
            self.statements(&each.body, out)?;
            self.locals.pop();
        }
        Ok(())
    }

    fn assign(&mut self, target: &'a Expr<'a>, value: Value, is_secret: bool) -> Result<(), Stop> {
        let targets = match target {
            Expr::Var(var) => {
                if let Some(frame) = self.locals.last_mut() {
                    frame.retain(|local| local.name != var.id);
                    frame.push(Local { name: var.id, value, is_secret });
                }
                return Ok(());
            }
            Expr::List(list) => &list.items,
            Expr::Tuple(tuple) => &tuple.items,
            other => return Err(failed(offset(other), "only a name can be set")),
        };
        let items: Vec<Value> = match value.try_iter() {
            Ok(items) => items.take(targets.len() + 1).collect(),
            Err(err) => return Err(failed(offset(target), err.to_string())),
        };
        if items.len() != targets.len() {
            let message = format!("{} names for another number of values", targets.len());
            return Err(failed(offset(target), message));
        }
        let mut pairs = targets.iter().zip(items);
        pairs.try_for_each(|(target, item)| self.assign(target, item, is_secret))
    }

    /// Evaluates an expression. An undefined value is an error, and so is one that stands for an error.
    fn expr(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        let value = self.maybe(expr)?;
        if value.is_undefined() {
            return Err(self.undefined(expr));
        }
        if value.kind() == ValueKind::Invalid {
            return Err(failed(start(expr), no_value(&value)));
        }
        Ok(value)
    }

    /// Evaluates an expression that may be undefined, as `default` and `is defined` allow.
    fn maybe(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        self.nest(offset(expr))?;
        let value = self.maybe_at(expr);
        self.depth -= 1;
        value
    }

    fn maybe_at(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        let place = offset(expr);
        match expr {
            Expr::Const(constant) => Ok(constant.value.clone()),
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.chain(expr),
            Expr::Slice(slice) => self.slice(slice),
            Expr::UnaryOp(unary) => {
                let value = self.expr(&unary.expr)?;
                match unary.op {
                    UnaryOpKind::Not => Ok((!value.is_true()).into()),
                    UnaryOpKind::Neg => operators::negate(&value).map_err(|why| failed(place, why)),
                }
            }
            Expr::BinOp(binary) => self.binary(binary),
            Expr::Compare(compare) => {
                let mut left = self.expr(&compare.expr)?;
                for op in &compare.ops {
                    let right = self.expr(&op.expr)?;
                    let holds = operators::compare(op.op, &left, &right, self.budget)
                        .map_err(|why| failed(start(&compare.expr), why))?;
                    if !holds.is_true() {
                        return Ok(false.into());
                    }
                    left = right;
                }
                Ok(true.into())
            }
            Expr::IfExpr(cond) => match (self.expr(&cond.test_expr)?.is_true(), &cond.false_expr) {
                (true, _) => self.maybe(&cond.true_expr),
                (false, Some(other)) => self.maybe(other),
                (false, None) => Err(failed(place, "an \"if\" without \"else\" has no value")),
            },
            Expr::Filter(_) | Expr::Test(_) | Expr::Call(_) => self.applied(expr),
            Expr::List(list) => self.list(&list.items, place),
            Expr::Tuple(tuple) => self.list(&tuple.items, place),
            Expr::Map(map) => {
                let mut pairs = Vec::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    pairs.push((self.expr(key)?, self.expr(value)?));
                }
                let value = pairs.into_iter().collect::<BTreeMap<_, _>>().into();
                self.admit(value, place)
            }
        }
    }

    fn binary(&mut self, binary: &'a BinOp<'a>) -> Result<Value, Stop> {
        let left = self.expr(&binary.left)?;
        match binary.op {
            BinOpKind::ScAnd if !left.is_true() => return Ok(left),
            BinOpKind::ScOr if left.is_true() => return Ok(left),
            _ => {}
        }
        let right = self.expr(&binary.right)?;
        if matches!(binary.op, BinOpKind::Concat) {
            self.not_null(&binary.left, &left)?;
            self.not_null(&binary.right, &right)?;
        }
        let result = operators::binary(binary.op, &left, &right, self.budget);
        result.map_err(|why| failed(start(&binary.left), why))
    }

    /// Applies a filter, a test or a function.
    fn applied(&mut self, expr: &'a Expr<'a>) -> Result<Value, Stop> {
        let place = offset(expr);
        let (result, args);
        match expr {
            Expr::Filter(filter) => {
                let Some(inner) = &filter.expr else {
                    return Err(failed(place, "a filter without a value"));
                };
                let is_default = matches!(filter.name, "default" | "d");
                let value = if is_default { self.maybe(inner)? } else { self.expr(inner)? };
                args = self.args(Some(value), &filter.args)?;
                result = filters::filter(filter.name, &args, self.budget);
            }
            Expr::Test(test) => {
                let is_defined = matches!(test.name, "defined" | "undefined");
                let value =
                    if is_defined { self.maybe(&test.expr)? } else { self.expr(&test.expr)? };
                args = self.args(Some(value), &test.args)?;
                result = filters::test(test.name, &args, self.budget).map(Value::from);
            }
            Expr::Call(call) => {
                let Expr::Var(function) = &call.expr else {
                    return Err(failed(place, "a value has no methods"));
                };
                args = self.args(None, &call.args)?;
                result = filters::function(function.id, &args, self.budget);
            }
            _ => return Err(failed(place, "not a call")),
        }
        result.map_err(|why| failed(place, why))
    }

    fn args(&mut self, first: Option<Value>, args: &'a [CallArg<'a>]) -> Result<Vec<Value>, Stop> {
        let mut values: Vec<Value> = first.into_iter().collect();
        let mut named = Vec::new();
        for arg in args {
            match arg {
                CallArg::Pos(expr) => values.push(self.expr(expr)?),
                CallArg::Kwarg(name, expr) => named.push(((*name).to_owned(), self.expr(expr)?)),
                CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => {
                    let message = "\"*\" and \"**\" arguments are not supported";
                    return Err(failed(offset(expr), message));
                }
            }
        }
        if !named.is_empty() {
            values.push(named.into_iter().collect::<Kwargs>().into());
        }
        Ok(values)
    }

    fn list(&mut self, items: &'a [Expr<'a>], place: usize) -> Result<Value, Stop> {
        let items: Vec<Value> =
            items.iter().map(|item| self.expr(item)).collect::<Result<_, _>>()?;
        self.admit(items.into(), place)
    }

    /// Counts a new collection, and refuses one that nests too deep.
    fn admit(&mut self, value: Value, place: usize) -> Result<Value, Stop> {
        self.budget.walk(&value).map_err(|why| failed(place, why))?;
        Ok(value)
    }

    fn nest(&mut self, place: usize) -> Result<(), Stop> {
        self.budget.steps(1).map_err(|why| failed(place, why))?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("the expression nests deeper than {MAX_DEPTH} levels");
            return Err(failed(place, message));
        }
        Ok(())
    }
}

/// Returns the value of `loop` in a turn of a loop.
fn position(index: usize, length: usize) -> Value {
    BTreeMap::from([
        ("index", Value::from(index + 1)),
        ("index0", Value::from(index)),
        ("first", Value::from(index == 0)),
        ("last", Value::from(index + 1 == length)),
        ("length", Value::from(length)),
        ("revindex", Value::from(length - index)),
    ])
    .into()
}

fn failed(offset: usize, message: impl Into<String>) -> Stop {
    Stop::Failed(Failure::new(offset, message))
}
