//! The maps in a schema, at any depth.

use serde_json::{Map, Value};

/// Returns all maps in a value, each as a value and as a map.
pub(super) fn maps(schema: &Value) -> Vec<(&Value, &Map<String, Value>)> {
    let (mut maps, mut left) = (Vec::new(), vec![schema]);
    while let Some(value) = left.pop() {
        match value {
            Value::Object(map) => {
                maps.push((value, map));
                left.extend(map.values());
            }
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    maps
}
