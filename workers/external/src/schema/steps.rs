//! How many steps it takes at most to judge a config.

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::graph::{Graph, Node, Part};

/// The most parts of a schema that may judge inside one another.
const DEEPEST: usize = 400;

/// The most counts that are remembered, each for a part of a schema and a place in a config.
const REMEMBERED: usize = 500_000;

static NAME: Value = Value::String(String::new());

/// Counts the steps of one config.
pub(super) struct Steps<'a> {
    graph: &'a Graph,
    /// The number of steps that are left. Each look at a part and a place takes at least one, so the count ends early
    /// if a config takes too many.
    left: u64,
    /// By the part of the schema and the place of the value; none while it is counted.
    counted: HashMap<(usize, usize), Option<u64>>,
}

/// The config takes more steps than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl<'a> Steps<'a> {
    /// Returns how many steps a config takes; an error if they are more than `most`.
    pub(super) fn of(graph: &'a Graph, config: &Value, most: usize) -> Result<usize, TooMany> {
        let count = Self::new(graph, most).count(0, config, 0)?;
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or(TooMany)
    }

    fn new(graph: &'a Graph, most: usize) -> Self {
        Self { graph, left: most as u64, counted: HashMap::new() }
    }

    fn count(&mut self, index: usize, value: &Value, depth: usize) -> Result<u64, TooMany> {
        let node = &self.graph.nodes[index];
        let key = (index, std::ptr::from_ref(value).addr());
        if let Some(counted) = self.counted.get(&key).copied() {
            self.take(1)?;
            return counted.ok_or(TooMany);
        }
        let mut count = Self::own(node, value);
        self.take(count)?;
        if node.parts.is_empty() {
            return Ok(count);
        }
        if depth > DEEPEST || self.counted.len() >= REMEMBERED {
            return Err(TooMany);
        }
        self.counted.insert(key, None);
        for (part, index) in &node.parts {
            count = count.saturating_add(self.part((part, *index), value, depth + 1)?);
        }
        let again = if node.is_repeated { 2 } else { 1 };
        let count = count.saturating_mul(again);
        self.counted.insert(key, Some(count));
        Ok(count)
    }

    fn take(&mut self, steps: u64) -> Result<(), TooMany> {
        self.left = self.left.checked_sub(steps).ok_or(TooMany)?;
        Ok(())
    }

    /// Returns the steps of a part, without those of the parts in it.
    fn own(node: &Node, value: &Value) -> u64 {
        // To go through many parts takes time, whatever they judge.
        let mut count = node.own.saturating_add(node.parts.len() as u64 / 16);
        if let (Some(cost), Value::String(text)) = (node.pattern, value) {
            count = count.saturating_add(cost.of(text.len()));
        }
        if let Value::Object(members) = value {
            // A member that is not there is looked for as well.
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
            (Part::Names, Value::Object(members)) if !members.is_empty() => {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Steps, TooMany};
    use crate::schema::graph::Graph;
    use crate::schema::pattern::Patterns;

    #[test]
    fn what_takes_too_many_steps_is_not_counted_to_its_end() -> Result<(), String> {
        let names = (0..1_000).map(|number| (format!("p{number}"), json!(true)));
        let schema = json!({"items": {"properties": Value::Object(names.collect())}});
        let graph = Graph::of(&schema, &Patterns::of(&schema)?)?;
        let config = json!(vec![json!({}); 20_000]);
        let mut steps = Steps::new(&graph, 100_000);

        let counted = steps.count(0, &config, 0);

        assert_eq!(counted, Err(TooMany));
        // Each item takes 313 steps.
        assert_eq!(steps.counted.len(), 1 + 100_000 / 313);
        Ok(())
    }
}
