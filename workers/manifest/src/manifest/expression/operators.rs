//! The operators of expressions, and the texts of values.

use std::borrow::Cow;
use std::cmp::Ordering;

use minijinja::machinery::ast::{BinOpKind, CompareOpKind};
use minijinja::value::{Value, ValueKind};

use crate::manifest::expression::budget::Budget;
use crate::manifest::expression::value::{no_value, require_values};

/// A number of an expression.
enum Number {
    Int(i128),
    Float(f64),
}

/// Applies an operator that takes both sides.
pub(super) fn binary(
    op: BinOpKind,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value, String> {
    match op {
        BinOpKind::Add if left.kind() == ValueKind::String && right.kind() == ValueKind::String => {
            concat(left, right, budget)
        }
        BinOpKind::Add if left.kind() == ValueKind::Seq && right.kind() == ValueKind::Seq => {
            budget.walk(left)?;
            budget.walk(right)?;
            let items = left.try_iter().into_iter().chain(right.try_iter()).flatten();
            Ok(items.collect::<Vec<_>>().into())
        }
        BinOpKind::Add
        | BinOpKind::Sub
        | BinOpKind::Mul
        | BinOpKind::Div
        | BinOpKind::FloorDiv
        | BinOpKind::Rem
        | BinOpKind::Pow => arithmetic(op, left, right),
        BinOpKind::Concat => concat(left, right, budget),
        BinOpKind::Eq => compare(CompareOpKind::Eq, left, right, budget),
        BinOpKind::Ne => compare(CompareOpKind::Ne, left, right, budget),
        BinOpKind::Lt => compare(CompareOpKind::Lt, left, right, budget),
        BinOpKind::Lte => compare(CompareOpKind::Lte, left, right, budget),
        BinOpKind::Gt => compare(CompareOpKind::Gt, left, right, budget),
        BinOpKind::Gte => compare(CompareOpKind::Gte, left, right, budget),
        BinOpKind::In => compare(CompareOpKind::In, left, right, budget),
        BinOpKind::ScAnd => Ok(if left.is_true() { right.clone() } else { left.clone() }),
        BinOpKind::ScOr => Ok(if left.is_true() { left.clone() } else { right.clone() }),
    }
}

/// Compares two values.
pub(super) fn compare(
    op: CompareOpKind,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Result<Value, String> {
    budget.walk(left)?;
    budget.walk(right)?;
    let holds = match op {
        CompareOpKind::Eq => left == right,
        CompareOpKind::Ne => left != right,
        CompareOpKind::Lt => ordered(left, right)?.is_lt(),
        CompareOpKind::Lte => ordered(left, right)?.is_le(),
        CompareOpKind::Gt => ordered(left, right)?.is_gt(),
        CompareOpKind::Gte => ordered(left, right)?.is_ge(),
        CompareOpKind::In => contains(right, left)?,
        CompareOpKind::NotIn => !contains(right, left)?,
    };
    Ok(holds.into())
}

/// Negates a number.
pub(super) fn negate(value: &Value) -> Result<Value, String> {
    // Not 0 less the value: the negative of 0.0 is -0.0.
    arithmetic(BinOpKind::Mul, &Value::from(-1), value)
        .map_err(|_| format!("cannot negate a {}", value.kind()))
}

/// Writes a value as text, within the budget.
pub(super) fn write(out: &mut String, value: &Value, budget: &mut Budget) -> Result<(), String> {
    let written = text(value)?;
    budget.text(written.len())?;
    out.push_str(&written);
    Ok(())
}

/// Returns the text of a value that has one: as YAML and JSON write it, not as minijinja does.
pub(super) fn text(value: &Value) -> Result<Cow<'_, str>, String> {
    if let Some(text) = value.as_str() {
        return Ok(text.into());
    }
    match value.kind() {
        ValueKind::Bool => Ok(if value.is_true() { "true" } else { "false" }.into()),
        ValueKind::Number => Ok(value.to_string().into()),
        ValueKind::None => Err("null cannot be put into a text".to_owned()),
        ValueKind::Map => Err("a map cannot be put into a text; \"| tojson\" makes one".to_owned()),
        ValueKind::Seq | ValueKind::Iterable => {
            let help = "\"| join(..)\" and \"| tojson\" make one";
            Err(format!("a list cannot be put into a text; {help}"))
        }
        ValueKind::Invalid => Err(no_value(value)),
        other => Err(format!("{other} is no plain value, and cannot be put into a text")),
    }
}

fn concat(left: &Value, right: &Value, budget: &mut Budget) -> Result<Value, String> {
    let mut out = String::new();
    write(&mut out, left, budget)?;
    write(&mut out, right, budget)?;
    Ok(out.into())
}

fn contains(container: &Value, item: &Value) -> Result<bool, String> {
    match container.kind() {
        ValueKind::String => match item.as_str() {
            Some(part) => Ok(container.as_str().is_some_and(|text| text.contains(part))),
            None => Err(format!("a text holds texts only, not a {}", item.kind())),
        },
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            for other in container.try_iter().map_err(|err| err.to_string())? {
                if other.kind() == ValueKind::Invalid {
                    return Err(no_value(&other));
                }
                if other == *item {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        other => Err(format!("cannot look for something in a {other}")),
    }
}

fn ordered(left: &Value, right: &Value) -> Result<Ordering, String> {
    if left.kind() == right.kind() {
        // minijinja panics on two values that stand for errors.
        require_values(left)?;
        require_values(right)?;
        return Ok(left.cmp(right));
    }
    Err(format!("cannot order a {} and a {}", left.kind(), right.kind()))
}

fn arithmetic(op: BinOpKind, left: &Value, right: &Value) -> Result<Value, String> {
    let (Some(first), Some(second)) = (number(left), number(right)) else {
        let help = if matches!(op, BinOpKind::Add) { "; \"~\" joins texts" } else { "" };
        return Err(format!(
            "cannot calculate with a {} and a {}{help}",
            left.kind(),
            right.kind()
        ));
    };
    let is_zero = matches!(second, Number::Int(0)) || matches!(second, Number::Float(0.0));
    if is_zero && matches!(op, BinOpKind::Div | BinOpKind::FloorDiv | BinOpKind::Rem) {
        return Err("division by zero".to_owned());
    }
    if let (Number::Int(first), Number::Int(second)) = (&first, &second)
        && let Some(result) = integers(op, *first, *second)
    {
        return result.map(Value::from).ok_or_else(|| "the number is too large".to_owned());
    }
    let (first, second) = (float(&first), float(&second));
    let result = match op {
        BinOpKind::Add => first + second,
        BinOpKind::Sub => first - second,
        BinOpKind::Mul => first * second,
        BinOpKind::FloorDiv => floor_float(first, second).0,
        BinOpKind::Rem => floor_float(first, second).1,
        BinOpKind::Pow => first.powf(second),
        _ => first / second,
    };
    if result.is_finite() {
        return Ok(result.into());
    }
    Err("the result is not a finite number".to_owned())
}

/// Calculates with integers; none where the result is a float.
fn integers(op: BinOpKind, first: i128, second: i128) -> Option<Option<i128>> {
    match op {
        BinOpKind::Add => Some(first.checked_add(second)),
        BinOpKind::Sub => Some(first.checked_sub(second)),
        BinOpKind::Mul => Some(first.checked_mul(second)),
        BinOpKind::FloorDiv => Some(floor(first, second).map(|(quotient, _)| quotient)),
        BinOpKind::Rem => Some(floor(first, second).map(|(_, remainder)| remainder)),
        BinOpKind::Pow if second >= 0 => {
            Some(u32::try_from(second).ok().and_then(|power| first.checked_pow(power)))
        }
        _ => None,
    }
}

/// Divides downwards, as Jinja does: the remainder has the sign of the divisor.
fn floor(first: i128, second: i128) -> Option<(i128, i128)> {
    let (quotient, remainder) = (first.checked_div(second)?, first.checked_rem(second)?);
    if remainder != 0 && (remainder < 0) != (second < 0) {
        return Some((quotient - 1, remainder + second));
    }
    Some((quotient, remainder))
}

/// Divides floats downwards, as Python does: a quotient near a whole number becomes that number.
fn floor_float(first: f64, second: f64) -> (f64, f64) {
    let mut remainder = first % second;
    let mut quotient = (first - remainder) / second;
    if remainder == 0.0 {
        remainder = 0.0_f64.copysign(second);
    } else if (remainder < 0.0) != (second < 0.0) {
        remainder += second;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(first / second), remainder);
    }
    let floored = quotient.floor();
    let is_next = quotient - floored > 0.5;
    (if is_next { floored + 1.0 } else { floored }, remainder)
}

fn number(value: &Value) -> Option<Number> {
    if value.kind() != ValueKind::Number {
        return None;
    }
    if value.is_integer() {
        return i128::try_from(value.clone()).ok().map(Number::Int);
    }
    f64::try_from(value.clone()).ok().map(Number::Float)
}

#[expect(clippy::cast_precision_loss, reason = "a float is what was asked for")]
fn float(number: &Number) -> f64 {
    match number {
        Number::Int(value) => *value as f64,
        Number::Float(value) => *value,
    }
}
