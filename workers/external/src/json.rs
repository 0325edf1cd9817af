//! JSON as a type may write it: one document, in which no key is there twice and no number is rounded.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a document.
///
/// # Errors
///
/// What is wrong with it, with line and column.
pub(crate) fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).map(|Exact(value)| value)
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

    /// A whole number of more than 64 bits comes as one with a fraction, and has lost digits by then.
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let fits = value > i64::MIN as f64 && value < u64::MAX as f64;
        let number = Number::from_f64(value).filter(|_| fits);
        number.map(Value::Number).ok_or_else(|| {
            E::custom(format!("the number {value:e} has more than 64 bits; write it as a text"))
        })
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
    use serde_json::{Value, json};

    use super::read;

    #[test]
    fn what_is_read_is_what_was_written() -> serde_json::Result<()> {
        let text = r#"{"b": [null, true, -9223372036854775808, 18446744073709551615, 0.1], "a": {"é": "x"}}"#;

        let value = read(text)?;

        let most = [json!(null), json!(true), json!(i64::MIN), json!(u64::MAX), json!(0.1)];
        assert_eq!(value, json!({"b": most, "a": {"é": "x"}}));
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
            ("18446744073709551616", "1.8446744073709552e19 has more than 64 bits"),
            ("-9223372036854775809", "-9.223372036854776e18 has more than 64 bits"),
            ("1e999", "number out of range at line 1 column 5"),
            ("NaN", "expected value at line 1 column 1"),
            (&deep, "recursion limit exceeded at line 1 column 128"),
        ] {
            let error = read(text).map_err(|error| error.to_string());
            let error: String = error.map(|value: Value| value.to_string()).unwrap_or_else(|it| it);
            assert!(error.contains(with), "{error} without {with}");
        }
    }
}
