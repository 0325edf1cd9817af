//! JSON Schema, draft 2020-12, of parameters.
use serde_json::{Map, Value, json};

use crate::declare::params::table::{Parameter, Table};
use crate::declare::params::ty::Type;

/// What every schema of a config allows in the place of a value: an expression.
const EXPRESSION: &str = r"\{[{%]";

impl Table {
    /// Returns the JSON Schema (draft 2020-12) of a map with these parameters. What is not required may
    /// be null, which counts as not given.
    pub fn schema(&self) -> Value {
        self.schema_or(None)
    }

    /// Returns the schema of a config as it stands in a manifest: in the place of each value, at every
    /// depth, there may be an expression.
    pub fn manifest_schema(&self) -> Value {
        self.schema_or(Some(&json!({"type": "string", "pattern": EXPRESSION})))
    }

    /// Returns the schema of a map with these parameters. If there is an `other` schema, each value
    /// may fit that one instead.
    fn schema_or(&self, other: Option<&Value>) -> Value {
        let parameters = self.parameters.iter();
        let properties: Map<String, Value> =
            parameters.map(|it| (it.name.clone(), it.schema_or(other))).collect();
        let required = self.parameters.iter().filter(|it| it.is_required).map(|it| &it.name);
        json!({
            "type": "object",
            "properties": properties,
            "required": required.collect::<Vec<_>>(),
            "additionalProperties": self.is_open,
        })
    }
}

impl Parameter {
    fn schema_or(&self, other: Option<&Value>) -> Value {
        let null = (!self.is_required).then(|| json!({"type": "null"}));
        let mut schema =
            any_of(self.ty.schemas(other).into_iter().chain(other.cloned()).chain(null));
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
    ///
    /// It takes every value that the type [accepts](Self::accept), and of a text it may take more.
    pub fn schema(&self) -> Value {
        any_of(self.schemas(None))
    }

    /// Returns schemas; a value of the type fits one of them. If there is an `other` schema, each
    /// value inside may fit that one instead.
    fn schemas(&self, other: Option<&Value>) -> Vec<Value> {
        let of_items = |ty: &Self| any_of(ty.schemas(other).into_iter().chain(other.cloned()));
        let schema = match self {
            Self::Text => json!({"type": "string"}),
            Self::Path => json!({"type": "string", "pattern": "^/"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Int { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
            Self::Mode => json!({"type": "string", "pattern": "^[0-7]{3,4}$"}),
            // It may begin with spaces.
            Self::Duration => json!({"type": "string", "pattern": "[0-9]"}),
            Self::Choice { words } => json!({"enum": words}),
            Self::List { of } => json!({"type": "array", "items": of_items(of)}),
            Self::Map { of } => json!({"type": "object", "additionalProperties": of_items(of)}),
            Self::Object { table } => table.schema_or(other),
            Self::Either { of } => return of.iter().flat_map(|ty| ty.schemas(other)).collect(),
            Self::Any => json!({}),
        };
        vec![schema]
    }
}

/// Returns the schema of what any of some schemas takes.
fn any_of(schemas: impl IntoIterator<Item = Value>) -> Value {
    let mut schemas: Vec<Value> = schemas.into_iter().collect();
    let takes_all = |schema: &Value| schema.as_object().is_some_and(Map::is_empty);
    match schemas.len() {
        1 => schemas.remove(0),
        _ if schemas.iter().any(takes_all) => json!({}),
        _ => json!({"anyOf": schemas}),
    }
}
