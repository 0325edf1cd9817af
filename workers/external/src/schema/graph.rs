//! A schema as a graph: which of its parts judge which parts of a config.
//!
//! Where the exact graph is hard to tell, this one is larger: a reference leads to all that it may mean, and each
//! alternative is followed. So the work that follows from it is an upper bound.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::schema::maps::maps;
use crate::schema::pattern::{Cost, Patterns};

/// How many parts a schema has at most; each takes about a KiB once it is read.
const MOST: usize = 16 * 1024;

/// The most edges: from a part to a part in it, or to a part that it may refer to.
const MOST_WAYS: usize = 64 * 1024;

/// How many parts may have an id of their own: a reference may mean something in each of them.
const MOST_IDS: usize = 1_000;

/// How many parts may be inside one another, those of references included.
const DEEPEST: usize = 1_000;

/// The part of a value that a part of a schema judges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// The same value.
    Same,
    /// The member with this name.
    Member(String),
    /// Each member.
    Members,
    /// The name of each member.
    Names,
    /// The item at this place.
    Item(usize),
    /// Each item.
    Items,
}

/// A part of a schema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The number of steps that compare a value.
    pub(super) own: u64,
    /// The number of steps that look up members by their names.
    pub(super) looks: u64,
    /// The costs of its regular expressions: for a text, and for the name of each member.
    pub(super) pattern: Option<Cost>,
    pub(super) name_patterns: Vec<Cost>,
    /// Whether it looks again at the values that its parts have judged.
    pub(super) is_repeated: bool,
    pub(super) parts: Vec<(Part, usize)>,
}

/// All parts that can be reached from the schema itself. The schema is the first.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
}

impl Graph {
    /// Returns the graph of a schema.
    ///
    /// # Errors
    ///
    /// When it is too large or too deep, refers to itself without end, or to something that is not in it.
    pub(super) fn of(schema: &Value, patterns: &Patterns) -> Result<Self, String> {
        let places = Places::of(schema);
        if places.resources.len() > MOST_IDS {
            return Err(format!("more than {MOST_IDS} parts of it have an id"));
        }
        let mut ways = 0;
        let (mut values, mut indices) = (vec![schema], HashMap::from([(address(schema), 0)]));
        let mut nodes = Vec::new();
        while let Some(value) = values.get(nodes.len()).copied() {
            let mut node = Node { own: 1, ..Node::default() };
            if let Value::Object(map) = value {
                node.read(map, patterns);
                for (part, value) in parts(map, &places)? {
                    let next = indices.len();
                    let index = *indices.entry(address(value)).or_insert(next);
                    if index == next {
                        values.push(value);
                    }
                    node.parts.push((part, index));
                }
            }
            ways += node.parts.len();
            nodes.push(node);
            if values.len() > MOST {
                return Err(format!("it has more than {MOST} parts"));
            }
            if ways > MOST_WAYS {
                return Err(format!("its references may mean more than {MOST_WAYS} parts"));
            }
        }
        let graph = Self { nodes };
        graph.require()?;
        Ok(graph)
    }

    fn require(&self) -> Result<(), String> {
        let (_, _, circle) = self.depth(|part| *part == Part::Same);
        if circle > 0 {
            return Err("a part of it refers to itself without end".to_owned());
        }
        let (above, below, within) = self.depth(|_| true);
        if above + below + within > DEEPEST {
            return Err(format!("its parts and references are more than {DEEPEST} levels deep"));
        }
        Ok(())
    }

    /// Returns the length of the longest path above all circles, that of the longest path below them, and the number of
    /// parts in circles or between them. No path is longer than the sum.
    fn depth(&self, is_followed: impl Fn(&Part) -> bool) -> (usize, usize, usize) {
        let followed = |node: &Node| -> Vec<usize> {
            let parts = node.parts.iter().filter(|(part, _)| is_followed(part));
            parts.map(|(_, index)| *index).collect()
        };
        let edges: Vec<Vec<usize>> = self.nodes.iter().map(followed).collect();
        let mut reversed = vec![Vec::new(); edges.len()];
        for (from, all) in edges.iter().enumerate() {
            all.iter().for_each(|to| reversed[*to].push(from));
        }
        let mut is_left = vec![true; edges.len()];
        let above = peel(&edges, &reversed, &mut is_left);
        let below = peel(&reversed, &edges, &mut is_left);
        (above, below, is_left.into_iter().filter(|is_left| *is_left).count())
    }
}

/// Removes the parts to which no other part leads, until every part left has one that leads to it. Returns the length
/// of the longest path of removed parts.
fn peel(edges: &[Vec<usize>], reversed: &[Vec<usize>], is_left: &mut [bool]) -> usize {
    let counted = |before: &Vec<usize>| before.iter().filter(|from| is_left[**from]).count();
    let mut before: Vec<usize> = reversed.iter().map(counted).collect();
    let mut free: Vec<usize> =
        (0..edges.len()).filter(|index| is_left[*index] && before[*index] == 0).collect();
    let (mut longest, mut length) = (0, vec![1; edges.len()]);
    while let Some(index) = free.pop() {
        is_left[index] = false;
        longest = longest.max(length[index]);
        for next in edges[index].iter().filter(|next| is_left[**next]) {
            length[*next] = length[*next].max(length[index] + 1);
            before[*next] -= 1;
            if before[*next] == 0 {
                free.push(*next);
            }
        }
    }
    longest
}

impl Node {
    fn read(&mut self, map: &Map<String, Value>, patterns: &Patterns) {
        if let Some(Value::Array(items)) = map.get("enum") {
            self.own += items.len() as u64;
        }
        let named = ["properties", "required", "dependencies", "dependentRequired"];
        let named = named.iter().filter_map(|keyword| map.get(*keyword)).map(|names| match names {
            Value::Object(names) => names.len(),
            Value::Array(names) => names.len(),
            _ => 0,
        });
        // Several members are looked up in the time of one step.
        self.looks = named.sum::<usize>() as u64 / 4;
        if map.get("format").is_some_and(|format| format == "regex") {
            self.own += Cost::OF_A_REGEX;
        }
        self.pattern = map.get("pattern").and_then(Value::as_str).map(|it| patterns.cost(it));
        if let Some(Value::Object(members)) = map.get("patternProperties") {
            self.name_patterns = members.keys().map(|pattern| patterns.cost(pattern)).collect();
        }
        let again = ["unevaluatedProperties", "unevaluatedItems"];
        self.is_repeated = again.iter().any(|keyword| map.contains_key(*keyword));
    }
}

/// Returns the parts of a schema that judge something, in any draft.
fn parts<'s>(
    map: &'s Map<String, Value>,
    places: &Places<'s>,
) -> Result<Vec<(Part, &'s Value)>, String> {
    let mut parts = Vec::new();
    for (keyword, value) in map {
        match (&**keyword, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                let targets = places.targets(reference)?;
                parts.extend(targets.into_iter().map(|target| (Part::Same, target)));
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(items)) => {
                parts.extend(items.iter().map(|item| (Part::Same, item)));
            }
            ("not" | "if" | "then" | "else" | "contentSchema", value) => {
                parts.push((Part::Same, value));
            }
            ("dependentSchemas" | "dependencies", Value::Object(members)) => {
                let schemas = members.values().filter(|value| !value.is_array());
                parts.extend(schemas.map(|value| (Part::Same, value)));
            }
            ("properties", Value::Object(members)) => {
                let named = members.iter();
                parts.extend(named.map(|(name, value)| (Part::Member(name.clone()), value)));
            }
            ("patternProperties", Value::Object(members)) => {
                parts.extend(members.values().map(|value| (Part::Members, value)));
            }
            ("additionalProperties" | "unevaluatedProperties", value) => {
                parts.push((Part::Members, value));
            }
            ("propertyNames", value) => parts.push((Part::Names, value)),
            ("items" | "prefixItems", Value::Array(items)) => {
                parts.extend(items.iter().enumerate().map(|(at, item)| (Part::Item(at), item)));
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", value) => {
                parts.push((Part::Items, value));
            }
            _ => {}
        }
    }
    Ok(parts)
}

/// The parts that references can mean.
struct Places<'s> {
    /// The schema, and all its parts that have an id of their own.
    resources: Vec<&'s Value>,
    /// The parts that have an anchor, by its name.
    anchors: HashMap<&'s str, Vec<&'s Value>>,
}

impl<'s> Places<'s> {
    fn of(schema: &'s Value) -> Self {
        let mut places = Self { resources: vec![schema], anchors: HashMap::new() };
        for (value, map) in maps(schema) {
            for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                let Some(name) = map.get(keyword).and_then(Value::as_str) else { continue };
                match (name.strip_prefix('#'), keyword) {
                    (Some(name), _) => places.anchors.entry(name).or_default().push(value),
                    (None, "$id" | "id") => places.resources.push(value),
                    (None, _) => places.anchors.entry(name).or_default().push(value),
                }
            }
        }
        places
    }

    fn targets(&self, reference: &str) -> Result<Vec<&'s Value>, String> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        // The schemas of schemas come with the library, so they need no bound.
        if base.contains("//json-schema.org/") {
            return Ok(Vec::new());
        }
        let fragment = decoded(fragment);
        let targets: Vec<_> = match fragment.strip_prefix('/') {
            _ if fragment.is_empty() => self.resources.clone(),
            Some(_) => {
                let found = self.resources.iter().filter_map(|it| it.pointer(&fragment));
                found.collect()
            }
            None => self.anchors.get(&*fragment).cloned().unwrap_or_default(),
        };
        match targets.is_empty() {
            true => Err(format!("\"{reference}\" refers to nothing that is in it")),
            false => Ok(targets),
        }
    }
}

/// Decodes the percent-encoding of a fragment. The escapes of a pointer (`~0` and `~1`) stay as they are.
fn decoded(fragment: &str) -> String {
    let mut bytes = Vec::new();
    let mut left = fragment.as_bytes();
    while let [first, rest @ ..] = left {
        let escaped = rest.get(..2).filter(|_| *first == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        left = if escaped.is_some() { &rest[2..] } else { rest };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}
