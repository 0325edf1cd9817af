//! The values of plain scalars, by the core schema of YAML 1.2.

use minijinja::value::{Serde, Value};
use serde_json::Number;

/// The meaning of a plain scalar.
#[derive(Debug, PartialEq)]
pub(crate) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    /// A number that is written in another way than it was given.
    Changed(Number),
    String,
    /// It reads as a number and means another one, or none, elsewhere; the text says why.
    Refused(&'static str),
}

/// Resolves a plain scalar by the core schema of YAML 1.2: `yes`, `no`, `on` and `off` are texts.
pub(crate) fn resolve(text: &str) -> Scalar {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Scalar::Null,
        "true" | "True" | "TRUE" => return Scalar::Bool(true),
        "false" | "False" | "FALSE" => return Scalar::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Scalar::Refused("is not a finite number");
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8);
    }
    match unsigned.as_bytes() {
        [b'0', next, ..] if next.is_ascii_digit() && is_number(unsigned) => {
            Scalar::Refused("is a number with a leading zero, which some read as octal")
        }
        [first, ..] if (first.is_ascii_digit() || *first == b'.') && is_number(unsigned) => {
            match number(text.strip_prefix('+').unwrap_or(text)) {
                Scalar::Number(value) if is_changed(&value, text) => Scalar::Changed(value),
                scalar => scalar,
            }
        }
        _ => Scalar::String,
    }
}

fn radix(digits: &str, radix: u32) -> Scalar {
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Scalar::String;
    }
    match u64::from_str_radix(digits, radix) {
        Ok(value) => Scalar::Number(value.into()),
        Err(_) => Scalar::Refused("is too large for a number of 64 bits"),
    }
}

/// `[0-9]* ( \. [0-9]* )? ( [eE] [-+]? [0-9]+ )?` with a digit somewhere before the exponent.
fn is_number(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let has_exponent = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    has_exponent && is_digits(whole) && is_digits(fraction) && whole.len() + fraction.len() > 0
}

/// Returns whether a number has another text in JSON, or where an expression puts it into a text.
fn is_changed(number: &Number, text: &str) -> bool {
    number.to_string() != text || Value::from(Serde(number)).to_string() != text
}

fn number(text: &str) -> Scalar {
    if text.contains(['.', 'e', 'E']) {
        return match text.parse().ok().and_then(Number::from_f64) {
            Some(value) => Scalar::Number(value),
            None => Scalar::Refused("is not a finite number"),
        };
    }
    if let Ok(value) = text.parse::<u64>() {
        return Scalar::Number(value.into());
    }
    match text.parse::<i64>() {
        Ok(value) => Scalar::Number(value.into()),
        Err(_) => Scalar::Refused("is too large for a number of 64 bits"),
    }
}
