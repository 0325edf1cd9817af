//! JSON Schema, draft 2020-12, of parameters.
use serde_json::{Map, Value, json};

use crate::params::table::{Parameter, Table};
use crate::params::ty::Type;

/// What every schema of a config allows in the place of a value: an expression.
const EXPRESSION: &str = r"\{[{%]";

impl Table {
    /// Returns the JSON Schema (draft 2020-12) of a map with these parameters.
    pub fn schema(&self) -> Value {
        let properties: Map<String, Value> = self
            .parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.schema()))
            .collect();
        let required = self.parameters.iter().filter(|it| it.is_required).map(|it| &it.name);
        json!({
            "type": "object",
            "properties": properties,
            "required": required.collect::<Vec<_>>(),
            "additionalProperties": self.is_open,
        })
    }

    /// Returns the schema of a config as it stands in a manifest: in the place of each value there may
    /// be an expression.
    pub fn manifest_schema(&self) -> Value {
        let mut schema = self.schema();
        let properties = schema["properties"].as_object_mut();
        for property in properties.into_iter().flat_map(Map::values_mut) {
            let Some(map) = property.as_object_mut() else { continue };
            let said: Map<_, _> = ["description", "default", "writeOnly"]
                .iter()
                .filter_map(|key| map.remove_entry(*key))
                .collect();
            let expression = json!({"type": "string", "pattern": EXPRESSION});
            let value = std::mem::take(map);
            map.insert("anyOf".to_owned(), json!([value, expression]));
            map.extend(said);
        }
        schema
    }
}

impl Parameter {
    fn schema(&self) -> Value {
        let mut schema = self.ty.schema();
        let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!(", in {unit}"));
        schema["description"] = format!("{}{unit}", self.doc).into();
        if let Some(default) = &self.default {
            schema["default"] = default.clone();
        }
        if self.is_sensitive {
            schema["writeOnly"] = true.into();
        }
        schema
    }
}

impl Type {
    /// Returns the JSON Schema (draft 2020-12) of the type.
    pub fn schema(&self) -> Value {
        match self {
            Self::Text => json!({"type": "string"}),
            Self::Path => json!({"type": "string", "pattern": "^/"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Int { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Mode => json!({"type": "string", "pattern": "^[0-7]{3,4}$"}),
            Self::Duration => json!({"type": "string", "pattern": "^[0-9]"}),
            Self::Choice { words } => json!({"enum": words}),
            Self::List { of } => json!({"type": "array", "items": of.schema()}),
            Self::Map { of } => json!({"type": "object", "additionalProperties": of.schema()}),
            Self::Object { table } => table.schema(),
            Self::Either { of } => {
                json!({"anyOf": of.iter().map(Self::schema).collect::<Vec<_>>()})
            }
            Self::Any => json!({}),
        }
    }
}
