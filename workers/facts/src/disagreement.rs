//! Disagreements between declared values and found values.

use std::fmt;

use serde_json::Value;

use crate::pointer::Pointer;
use crate::violation::shown;

/// A declared value that was not found.
#[derive(Debug, Clone, PartialEq)]
pub struct Disagreement {
    /// The path of the value in the declaration.
    pub path: Pointer,
    /// The declared value.
    pub declared: Value,
    /// The value that was found instead; none if there was none, or if no item of a list agrees with the declared item.
    pub found: Option<Value>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, declared, found } = self;
        match found {
            Some(found) => write!(
                f,
                "{path} is declared as {}, and {} was found",
                shown(declared),
                shown(found)
            ),
            None => write!(f, "{path}: {} is declared, and was not found", shown(declared)),
        }
    }
}

/// Compares declared values with found values.
///
/// In a map, each declared member must exist; there may be more. In a list, each declared item must agree with a
/// found item, in any order. All other values must be equal.
pub fn disagreements(declared: &Value, found: &Value) -> Vec<Disagreement> {
    let mut all = Vec::new();
    compare(&Pointer::root(), declared, Some(found), &mut all);
    all
}

fn compare(path: &Pointer, declared: &Value, found: Option<&Value>, all: &mut Vec<Disagreement>) {
    match (declared, found) {
        (Value::Object(declared), Some(Value::Object(found))) => {
            for (name, value) in declared {
                compare(&path.join(name), value, found.get(name), all);
            }
        }
        (Value::Array(declared), Some(Value::Array(found))) => {
            let agrees = |item: &Value, found: &Value| disagreements(item, found).is_empty();
            for (index, item) in declared.iter().enumerate() {
                if !found.iter().any(|found| agrees(item, found)) {
                    compare(&path.join(&index.to_string()), item, None, all);
                }
            }
        }
        (declared, Some(found)) if declared == found => {}
        (declared, found) => {
            let (path, declared, found) = (path.clone(), declared.clone(), found.cloned());
            all.push(Disagreement { path, declared, found });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::disagreements;

    #[test]
    fn what_is_declared_has_to_be_found() {
        let found = json!({"name": "h1", "processors": 8, "disks": [{"name": "sda", "size": 10}, {"name": "sdb", "size": 20}]});
        let declared = json!({"processors": 16, "disks": [{"name": "sdb"}, {"name": "sdc"}, {"size": 30}], "memory": 1});

        let said: Vec<_> =
            disagreements(&declared, &found).iter().map(ToString::to_string).collect();

        assert_eq!(
            said,
            [
                "/processors is declared as 16, and 8 was found",
                "/disks/1: {\"name\":\"sdc\"} is declared, and was not found",
                "/disks/2: {\"size\":30} is declared, and was not found",
                "/memory: 1 is declared, and was not found",
            ]
        );
        assert_eq!(disagreements(&json!({"disks": []}), &found), []);
    }
}
