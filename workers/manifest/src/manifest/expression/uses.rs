//! The names, filters, tests and functions that a text uses.

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::value::Value;

use crate::manifest::expression::jinja;
use crate::manifest::expression::parsed::{Failure, Parsed};

/// Something that a text uses and does not define itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Use {
    /// A name with the attributes that are taken from it: `vars.root` is `["vars", "root"]`.
    Name { offset: usize, path: Vec<String> },
    /// A filter.
    Filter { offset: usize, name: String },
    /// A test, the word after `is`.
    Test { offset: usize, name: String },
    /// A function.
    Function { offset: usize, name: String },
}

/// Finds everything that a text uses, also where it would not be evaluated.
pub(crate) fn uses(parsed: &Parsed<'_>) -> Result<Vec<Use>, Failure> {
    let mut walk = Walk { uses: Vec::new(), locals: vec![Vec::new()] };
    walk.statements(parsed.statements())?;
    Ok(walk.uses)
}

/// Returns the name, with the attributes that are taken from it, if a text is nothing else: its
/// value keeps its type.
pub(crate) fn bare(parsed: &Parsed<'_>) -> Option<Use> {
    let [Stmt::EmitExpr(emit)] = parsed.statements() else { return None };
    Some(Use::Name { offset: start(&emit.expr), path: path(&emit.expr)? })
}

struct Walk<'a> {
    uses: Vec<Use>,
    locals: Vec<Vec<&'a str>>,
}

impl<'a> Walk<'a> {
    fn statements(&mut self, statements: &'a [Stmt<'a>]) -> Result<(), Failure> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &'a Stmt<'a>) -> Result<(), Failure> {
        match statement {
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::EmitExpr(emit) => self.expr(&emit.expr),
            Stmt::IfCond(cond) => {
                self.expr(&cond.expr)?;
                self.statements(&cond.true_body)?;
                self.statements(&cond.false_body)
            }
            Stmt::ForLoop(each) if !each.recursive => {
                self.expr(&each.iter)?;
                self.locals.push(vec!["loop"]);
                self.assign(&each.target)?;
                each.filter_expr.iter().try_for_each(|filter| self.expr(filter))?;
                self.statements(&each.body)?;
                self.locals.pop();
                self.scoped(&each.else_body)
            }
            Stmt::Set(set) => {
                self.expr(&set.expr)?;
                self.assign(&set.target)
            }
            Stmt::WithBlock(with) => {
                self.locals.push(Vec::new());
                for (target, expr) in &with.assignments {
                    self.expr(expr)?;
                    self.assign(target)?;
                }
                self.statements(&with.body)?;
                self.locals.pop();
                Ok(())
            }
            other => {
                let name = match other {
                    Stmt::FilterBlock(_) => "filter",
                    Stmt::Do(_) => "do",
                    Stmt::SetBlock(_) => "set with a body",
                    _ => "autoescape",
                };
                let message = format!(
                    "there is no statement \"{name}\"; there are if, for, set, with and raw"
                );
                let failure = Failure::new(statement_offset(other), message);
                Err(failure.with_instead(jinja::instead_of_statement(name)))
            }
        }
    }

    fn scoped(&mut self, statements: &'a [Stmt<'a>]) -> Result<(), Failure> {
        self.locals.push(Vec::new());
        self.statements(statements)?;
        self.locals.pop();
        Ok(())
    }

    fn assign(&mut self, target: &'a Expr<'a>) -> Result<(), Failure> {
        match target {
            Expr::Var(var) => {
                if let Some(frame) = self.locals.last_mut() {
                    frame.push(var.id);
                }
                Ok(())
            }
            Expr::List(list) => list.items.iter().try_for_each(|item| self.assign(item)),
            Expr::Tuple(tuple) => tuple.items.iter().try_for_each(|item| self.assign(item)),
            other => Err(Failure::new(offset(other), "only a name can be set")),
        }
    }

    fn expr(&mut self, expr: &'a Expr<'a>) -> Result<(), Failure> {
        match expr {
            Expr::Const(_) => Ok(()),
            Expr::Var(_) => self.name(expr),
            Expr::GetAttr(attr) if path(expr).is_none() => self.expr(&attr.expr),
            Expr::GetItem(item) if path(expr).is_none() => {
                self.expr(&item.expr)?;
                self.expr(&item.subscript_expr)
            }
            Expr::GetAttr(_) | Expr::GetItem(_) => self.name(expr),
            Expr::Slice(slice) => {
                let bounds = [&slice.start, &slice.stop, &slice.step].into_iter().flatten();
                self.exprs(std::iter::once(&slice.expr).chain(bounds))
            }
            Expr::UnaryOp(unary) => self.expr(&unary.expr),
            Expr::BinOp(binary) => self.exprs([&binary.left, &binary.right]),
            Expr::Compare(compare) => {
                let others = compare.ops.iter().map(|op| &op.expr);
                self.exprs(std::iter::once(&compare.expr).chain(others))
            }
            Expr::IfExpr(cond) => {
                self.exprs([&cond.test_expr, &cond.true_expr].into_iter().chain(&cond.false_expr))
            }
            Expr::Filter(filter) => {
                let name = filter.name.to_owned();
                self.uses.push(Use::Filter { offset: offset(expr), name });
                self.exprs(&filter.expr)?;
                self.args(&filter.args)
            }
            Expr::Test(test) => {
                let name = test.name.to_owned();
                self.uses.push(Use::Test { offset: offset(expr), name });
                self.expr(&test.expr)?;
                self.args(&test.args)
            }
            Expr::Call(call) => {
                let Expr::Var(function) = &call.expr else {
                    return Err(no_method(&call.expr, offset(expr)));
                };
                let name = function.id.to_owned();
                self.uses.push(Use::Function { offset: offset(&call.expr), name });
                self.args(&call.args)
            }
            Expr::List(list) => self.exprs(&list.items),
            Expr::Tuple(tuple) => self.exprs(&tuple.items),
            Expr::Map(map) => self.exprs(map.keys.iter().chain(&map.values)),
        }
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'a Expr<'a>>) -> Result<(), Failure> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr))
    }

    fn args(&mut self, args: &'a [CallArg<'a>]) -> Result<(), Failure> {
        args.iter().try_for_each(|arg| match arg {
            CallArg::Pos(expr) | CallArg::Kwarg(_, expr) => self.expr(expr),
            CallArg::PosSplat(expr) | CallArg::KwargSplat(expr) => {
                Err(Failure::new(offset(expr), "\"*\" and \"**\" arguments are not supported"))
            }
        })
    }

    fn name(&mut self, expr: &'a Expr<'a>) -> Result<(), Failure> {
        let Some(path) = path(expr) else { return Ok(()) };
        let is_local = self.locals.iter().flatten().any(|local| *local == path[0]);
        if !is_local {
            self.uses.push(Use::Name { offset: start(expr), path });
        }
        Ok(())
    }
}

/// Returns the path of a chain of attributes that begins with a name.
pub(super) fn path(expr: &Expr<'_>) -> Option<Vec<String>> {
    match expr {
        Expr::Var(var) => Some(vec![var.id.to_owned()]),
        Expr::GetAttr(attr) => {
            let mut path = path(&attr.expr)?;
            path.push(attr.name.to_owned());
            Some(path)
        }
        Expr::GetItem(item) => {
            let Expr::Const(key) = &item.subscript_expr else { return None };
            let key = Value::as_str(&key.value)?.to_owned();
            let mut path = path(&item.expr)?;
            path.push(key);
            Some(path)
        }
        _ => None,
    }
}

/// Returns where an expression's operator stands.
pub(super) fn offset(expr: &Expr<'_>) -> usize {
    expr.span().start_offset as usize
}

/// Returns where the name at the begin of a chain of attributes stands.
pub(super) fn start(expr: &Expr<'_>) -> usize {
    match expr {
        Expr::GetAttr(attr) => start(&attr.expr),
        Expr::GetItem(item) => start(&item.expr),
        _ => offset(expr),
    }
}

/// Returns the failure that a called name is no function, with what to write instead.
fn no_method(called: &Expr<'_>, offset: usize) -> Failure {
    let Expr::GetAttr(method) = called else {
        return Failure::new(offset, "only a function can be called, by its name");
    };
    let message = format!("there is no method \"{}\"; values have none", method.name);
    Failure::new(offset, message).with_instead(jinja::instead_of_method(method.name))
}

fn statement_offset(statement: &Stmt<'_>) -> usize {
    let span = match statement {
        Stmt::ForLoop(node) => node.span(),
        Stmt::SetBlock(node) => node.span(),
        Stmt::AutoEscape(node) => node.span(),
        Stmt::FilterBlock(node) => node.span(),
        Stmt::Do(node) => node.span(),
        _ => return 0,
    };
    span.start_offset as usize
}
