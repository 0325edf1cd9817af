//! How many steps it takes at most to judge a config.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::graph::{Graph, Node, Part};

/// How many parts of a schema may be at work inside one another.
const DEEPEST: usize = 400;

/// How many counts are remembered, for a part of a schema and a place in a config.
const REMEMBERED: usize = 500_000;

static NAME: Value = Value::String(String::new());

/// Counts the steps of one config.
pub(super) struct Steps<'a> {
    graph: &'a Graph,
    /// By the part of the schema and the place of the value; none while it is counted.
    counted: HashMap<(usize, usize), Option<u64>>,
}

/// It takes more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl<'a> Steps<'a> {
    /// Returns how many steps a config takes; an error if they are more than `most`.
    pub(super) fn of(graph: &'a Graph, config: &Value, most: usize) -> Result<usize, TooMany> {
        let mut steps = Self { graph, counted: HashMap::new() };
        let count = steps.count(0, config, 0)?;
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or(TooMany)
    }

    fn count(&mut self, index: usize, value: &Value, depth: usize) -> Result<u64, TooMany> {
        let node = &self.graph.nodes[index];
        if node.parts.is_empty() {
            return Ok(Self::own(node, value));
        }
        let key = (index, std::ptr::from_ref(value).addr());
        match self.counted.get(&key) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err(TooMany),
            None if depth > DEEPEST || self.counted.len() >= REMEMBERED => return Err(TooMany),
            None => drop(self.counted.insert(key, None)),
        }
        let mut count = Self::own(node, value);
        for (part, index) in &node.parts {
            count = count.saturating_add(self.part((part, *index), value, depth + 1)?);
        }
        let again = if node.is_repeated { 2 } else { 1 };
        let count = count.saturating_mul(again);
        self.counted.insert(key, Some(count));
        Ok(count)
    }

    /// Returns what a part takes without those in it.
    fn own(node: &Node, value: &Value) -> u64 {
        let mut count = node.own;
        if let (Some(cost), Value::String(text)) = (node.pattern, value) {
            count = count.saturating_add(cost.of(text.len()));
        }
        if let Value::Object(members) = value {
            // A member is looked for also where it is not.
            count = count.saturating_add(node.looks);
            for cost in &node.name_patterns {
                let names = members.keys().map(|name| cost.of(name.len()));
                count = names.fold(count, u64::saturating_add);
            }
        }
        count
    }

    fn part(
        &mut self,
        (part, index): (&Part, usize),
        value: &Value,
        depth: usize,
    ) -> Result<u64, TooMany> {
        match (part, value) {
            (Part::Same, value) => self.count(index, value, depth),
            (Part::Member(name), Value::Object(members)) => {
                members.get(name).map_or(Ok(0), |value| self.count(index, value, depth))
            }
            (Part::Members, Value::Object(members)) => self.sum(index, members.values(), depth),
            (Part::Names, Value::Object(members)) => {
                let one = self.count(index, &NAME, depth)?;
                let text: usize = members.keys().map(String::len).sum();
                let cost = self.graph.nodes[index].pattern.map_or(0, |cost| cost.of(text));
                Ok(one.saturating_mul(members.len() as u64).saturating_add(cost))
            }
            (Part::Item(at), Value::Array(items)) => {
                items.get(*at).map_or(Ok(0), |value| self.count(index, value, depth))
            }
            (Part::Items, Value::Array(items)) => self.sum(index, items.iter(), depth),
            _ => Ok(0),
        }
    }

    fn sum<'v>(
        &mut self,
        index: usize,
        values: impl Iterator<Item = &'v Value>,
        depth: usize,
    ) -> Result<u64, TooMany> {
        let mut sum = 0_u64;
        for value in values {
            sum = sum.saturating_add(self.count(index, value, depth)?);
        }
        Ok(sum)
    }
}
