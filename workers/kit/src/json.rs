//! JSON of which nothing is lost: one document, in which no key is there twice and no whole number is rounded.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Longer numbers are cut where they are shown.
const LONGEST_SHOWN: usize = 40;

/// Reads one JSON document, in which no key is there twice and no whole number has more than 64 bits: nothing of
/// what was written is lost.
///
/// # Errors
///
/// What is wrong with it, with line and column.
pub fn read_json(text: &str) -> Result<Value, String> {
    let Exact(value) = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match too_wide(text) {
        None => Ok(value),
        Some((at, number)) => {
            let before = &text[..at];
            let line = before.matches('\n').count() + 1;
            let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
            let (number, rest) = number.split_at(number.len().min(LONGEST_SHOWN));
            let rest = if rest.is_empty() { "" } else { "..." };
            Err(format!(
                "the number {number}{rest} has more than 64 bits at line {line} column {column}; write it \
                 as a text"
            ))
        }
    }
}

/// Returns the first whole number of a document that has more than 64 bits, and where it begins. The reader
/// takes it for one with a fraction, and digits of it are lost.
fn too_wide(text: &str) -> Option<(usize, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut is_text) = (0, false);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if is_text => at += 1,
            b'"' => is_text = !is_text,
            b'-' | b'0'..=b'9' if !is_text => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"-+.eE".contains(byte);
                let length = bytes[at..].iter().take_while(|byte| is_part(byte)).count();
                let number = &text[at..at + length];
                let is_whole = !number.contains(['.', 'e', 'E']);
                if is_whole && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some((at, number));
                }
                at += length;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

struct Exact(Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExactVisitor).map(Self)
    }
}

struct ExactVisitor;

impl<'de> Visitor<'de> for ExactVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        // The reader refuses what is not finite.
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Exact(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if all.contains_key(&key) {
                return Err(A::Error::custom(format!("{key:?} is there twice")));
            }
            let Exact(value) = entries.next_value()?;
            all.insert(key, value);
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read_json;

    #[test]
    fn what_is_read_is_what_was_written() -> Result<(), String> {
        let text = r#"{"b": [null, true, -9223372036854775808, 18446744073709551615, 0.1, 1e20, -0],
                       "a": {"é": "\"99999999999999999999"}}"#;

        let value = read_json(text)?;

        let most = json!([null, true, i64::MIN, u64::MAX, 0.1, 1e20, -0.0]);
        assert_eq!(value, json!({"b": most, "a": {"é": "\"99999999999999999999"}}));
        let keys: Vec<_> = value.as_object().map(|it| it.keys().collect()).unwrap_or_default();
        assert_eq!(keys, ["b", "a"]);
        Ok(())
    }

    #[test]
    fn what_would_be_read_otherwise_than_it_was_written_is_refused() {
        let deep = "[".repeat(200);
        for (text, with) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{\"a\": 1", "EOF while parsing an object at line 1 column 7"),
            ("{}\n{}", "trailing characters at line 2 column 1"),
            ("\u{feff}{}", "expected value at line 1 column 1"),
            ("{\"a\": 1, \"a\": 2}", "\"a\" is there twice at line 1 column 12"),
            (
                "18446744073709551616",
                "the number 18446744073709551616 has more than 64 bits at line 1",
            ),
            (
                "[1,\n -9223372036854775809]",
                "-9223372036854775809 has more than 64 bits at line 2 column 2",
            ),
            ("1e999", "number out of range at line 1 column 5"),
            ("NaN", "expected value at line 1 column 1"),
            (&deep, "recursion limit exceeded at line 1 column 128"),
        ] {
            let error = read_json(text).map_or_else(|error| error, |value| value.to_string());
            assert!(error.contains(with), "{error} without {with}");
        }
    }
}
