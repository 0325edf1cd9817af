//! The sources of secrets, and the values that become secrets because they use one.

use std::env;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::manifest::document::listed;
use crate::manifest::expression::{Parsed, Use, is_template, uses};
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::sensitive::Sensitive;
use crate::manifest::source;

/// The variable with the folder of the credentials that systemd gives to a service.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Where a secret can come from.
const SOURCES: &[&str] = &["file", "env", "credential"];

impl Sensitive {
    /// Returns whether a text uses a secret.
    fn is_used_by(&self, text: &str) -> bool {
        let used = Parsed::new(text).and_then(|parsed| uses(&parsed)).unwrap_or_default();
        used.iter().any(|used| matches!(used, Use::Name { path, .. } if self.used(path).is_some()))
    }

    /// Adds the values of a variable that are written as secrets.
    pub(crate) fn add_written(&mut self, name: &str, node: &Node) {
        self.add_literals(node);
        self.walk(&mut vec![name.to_owned()], node, &|_, node| Form::of(node).is_some());
    }

    /// Adds the texts that are written out as secrets: errors must not show them, whatever else is wrong.
    fn add_literals(&self, node: &Node) {
        if let Some(Form::Here(Node { data: Data::String(text), .. })) = Form::of(node) {
            self.secrets.add(text);
        }
        match &node.data {
            Data::List(items) => items.iter().for_each(|item| self.add_literals(item)),
            Data::Map(map) => map.values().for_each(|entry| self.add_literals(&entry.value)),
            _ => {}
        }
    }

    /// Adds the values of a variable that become secrets because they use one.
    pub(crate) fn add_derived(&mut self, name: &str, node: &Node) {
        if self.is_empty() {
            return;
        }
        let uses_secret = |this: &Self, node: &Node| match &node.data {
            Data::String(text) => is_template(text) && this.is_used_by(text),
            _ => false,
        };
        self.walk(&mut vec![name.to_owned()], node, &uses_secret);
    }

    /// Adds the paths of the nodes that are secrets.
    fn walk(
        &mut self,
        path: &mut Vec<String>,
        node: &Node,
        is_secret: &impl Fn(&Self, &Node) -> bool,
    ) {
        if is_secret(self, node) {
            self.paths.insert(path.clone());
            return;
        }
        match &node.data {
            Data::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push(index.to_string());
                    self.walk(path, item, is_secret);
                    path.pop();
                }
            }
            Data::Map(map) => {
                for (key, entry) in map {
                    path.push(key.clone());
                    self.walk(path, &entry.value, is_secret);
                    path.pop();
                }
            }
            _ => {}
        }
    }
}

/// The written form of a secret.
enum Form<'a> {
    /// `{sensitive: VALUE}`
    Here(&'a Node),
    /// `{secret: {file|env|credential: ...}}`
    Elsewhere(&'a Map),
}

impl<'a> Form<'a> {
    fn of(node: &'a Node) -> Option<Self> {
        let Data::Map(map) = &node.data else { return None };
        let (key, entry) = map.first().filter(|_| map.len() == 1)?;
        match (key.as_str(), &entry.value.data) {
            ("sensitive", _) => Some(Self::Here(&entry.value)),
            ("secret", Data::Map(from)) => Some(Self::Elsewhere(from)),
            _ => None,
        }
    }
}

/// Returns whether a map was most likely meant to be a secret.
fn is_misspelt(map: &Map) -> bool {
    let has_source = |data: &Data| match data {
        Data::Map(from) => SOURCES.iter().any(|source| from.contains_key(*source)),
        _ => map.len() == 1,
    };
    map.contains_key("sensitive") || map.get("secret").is_some_and(|it| has_source(&it.value.data))
}

/// Puts the secrets into the value of a variable.
pub(crate) struct Filling<'a> {
    pub(crate) source: &'a Source,
    pub(crate) problems: &'a mut Problems,
    /// The files that were read.
    pub(crate) files: &'a mut Vec<PathBuf>,
}

impl Filling<'_> {
    /// Returns the value, with each secret in place of the map that stands for it.
    pub(crate) fn fill(&mut self, node: &Node, value: Value) -> Value {
        match (Form::of(node), &node.data, value) {
            (Some(Form::Here(inner)), _, Value::Object(mut map)) => {
                let value = map.shift_remove("sensitive").unwrap_or_default();
                self.fill(inner, value)
            }
            (Some(Form::Elsewhere(from)), _, Value::Object(mut map)) => {
                let value = map.shift_remove("secret").unwrap_or_default();
                self.read(node, (from, &value)).map_or(Value::Null, Value::String)
            }
            (None, Data::Map(map), value) if is_misspelt(map) => {
                let message = "a secret is a map with the only key \"secret\", which is a map with one \
                               source, or \"sensitive\"";
                let hint = Hint::default().or(listed(SOURCES));
                self.problems.with_hint(self.source, node.span.start, message, hint);
                value
            }
            (None, Data::List(items), Value::Array(values)) => {
                items.iter().zip(values).map(|(item, value)| self.fill(item, value)).collect()
            }
            (None, Data::Map(entries), Value::Object(values)) => {
                let filled = values.into_iter().map(|(key, value)| match entries.get(&key) {
                    Some(entry) => (key, self.fill(&entry.value, value)),
                    None => (key, value),
                });
                filled.collect()
            }
            (_, _, value) => value,
        }
    }

    fn read(&mut self, node: &Node, (from, value): (&Map, &Value)) -> Option<String> {
        let (key, entry) = match from.first() {
            Some(first) if from.len() == 1 => first,
            _ => {
                let message = "a \"secret\" has one source";
                self.problems.with_hint(
                    self.source,
                    node.span.start,
                    message,
                    Hint::default().or(listed(SOURCES)),
                );
                return None;
            }
        };
        if !SOURCES.contains(&key.as_str()) {
            let hint = self.problems.nearest(key, SOURCES.iter().copied()).or(listed(SOURCES));
            let message = format!("unknown source {} of a secret", quoted(key));
            self.problems.with_hint(self.source, entry.key.start, message, hint);
            return None;
        }
        let place = entry.value.span.start;
        let Some(name) = value.get(key).and_then(Value::as_str) else {
            let message = format!("\"{key}\" is a string, not {}", entry.value.description());
            self.problems.at(self.source, place, message);
            return None;
        };
        let read = match key.as_str() {
            "env" => of_environment(name),
            "credential" => credential(name).and_then(|path| self.file(&path)),
            _ => self.file(&self.source.folder().join(name)),
        };
        let usable =
            read.and_then(
                |text| {
                    if text.is_empty() { Err("it is empty".to_owned()) } else { Ok(text) }
                },
            );
        let message =
            |error| format!("cannot read the secret from {key} {}: {error}", quoted(name));
        usable
            .map_err(|error| {
                self.problems.with_hint(self.source, place, message(error), Hint::of(name));
            })
            .ok()
    }

    /// Reads a file, without the end of its last line.
    fn file(&mut self, path: &Path) -> Result<String, String> {
        self.files.push(path.to_owned());
        let text = source::read_bytes(path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned()));
        let text = text.inspect_err(|_| self.problems.blame_file(path.to_owned()))?;
        let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        Ok(line.unwrap_or(&text).to_owned())
    }
}

fn of_environment(name: &str) -> Result<String, String> {
    match env::var(name) {
        Ok(text) => Ok(text),
        Err(env::VarError::NotPresent) => Err("there is no such variable".to_owned()),
        Err(env::VarError::NotUnicode(_)) => Err("it is not UTF-8".to_owned()),
    }
}

fn credential(name: &str) -> Result<PathBuf, String> {
    let mut components = Path::new(name).components();
    let is_name =
        matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    if !is_name {
        return Err("it is not the name of a credential".to_owned());
    }
    let folder = env::var_os(CREDENTIALS).ok_or_else(|| {
        format!("{CREDENTIALS} is not set; systemd sets it for a service with LoadCredential=")
    })?;
    Ok(Path::new(&folder).join(name))
}
