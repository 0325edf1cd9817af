//! Checks that the names in references exist.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::pointer::Pointer;
use crate::shapes::Shapes;
use crate::tree::{Node, Tree};
use crate::violation::{Sink, Violation, did_you_mean};

/// The names at the targets of references. Each target is collected once.
pub(crate) struct Names<'a> {
    facts: &'a Tree,
    known: HashMap<Pointer, BTreeSet<String>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(facts: &'a Tree) -> Self {
        Self { facts, known: HashMap::new() }
    }

    fn at(&mut self, pattern: &Pointer) -> &BTreeSet<String> {
        let facts = self.facts;
        self.known.entry(pattern.clone()).or_insert_with(|| {
            let mut names = BTreeSet::new();
            let segments: Vec<_> = pattern.segments().collect();
            collect(&facts.0, &segments, &mut names);
            names
        })
    }
}

fn collect(node: &Node, pattern: &[&str], names: &mut BTreeSet<String>) {
    let (Node::Map(members), Some((first, rest))) = (node, pattern.split_first()) else { return };
    match (*first, rest) {
        ("*", []) => names.extend(members.keys().map(ToString::to_string)),
        ("*", rest) => members.values().for_each(|node| collect(node, rest, names)),
        (name, rest) => {
            if let Some(node) = members.get(name) {
                collect(node, rest, names);
            }
        }
    }
}

/// Checks that each reference leads to an existing name.
pub(crate) struct References<'a, 'b> {
    pub(crate) shapes: &'a Shapes,
    pub(crate) names: &'a mut Names<'b>,
    pub(crate) sink: &'a mut Sink,
}

impl References<'_, '_> {
    pub(crate) fn check(&mut self, path: &Pointer, node: &Node, shapes: &[usize]) {
        if shapes.is_empty() {
            return;
        }
        let all = self.shapes;
        match node {
            Node::Map(members) => {
                let targets = self.targets(&all.names(shapes));
                for (name, node) in &**members {
                    let path = path.join(name);
                    targets.iter().for_each(|target| self.refer(&path, name, target));
                    self.check(&path, node, &all.member(shapes, name));
                }
            }
            Node::Leaf(value) => self.check_value(path, value, shapes),
        }
    }

    fn check_value(&mut self, path: &Pointer, value: &Value, shapes: &[usize]) {
        let all = self.shapes;
        for target in self.targets(shapes) {
            match value {
                Value::String(name) => self.refer(path, name, &target),
                Value::Number(number) => self.refer(path, &number.to_string(), &target),
                _ => {}
            }
        }
        match value {
            Value::Array(items) => {
                let shapes = all.item(shapes);
                for (index, item) in items.iter().enumerate() {
                    self.check_value(&path.join(&index.to_string()), item, &shapes);
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    self.check_value(&path.join(name), value, &all.member(shapes, name));
                }
            }
            _ => {}
        }
    }

    fn targets(&self, shapes: &[usize]) -> Vec<Pointer> {
        shapes.iter().filter_map(|it| self.shapes.get(*it).references.clone()).collect()
    }

    fn refer(&mut self, path: &Pointer, name: &str, target: &Pointer) {
        let names = self.names.at(target);
        if !names.contains(name) {
            self.sink.push(|| {
                let help = did_you_mean(name, names.iter().map(String::as_str));
                let message = format!("there is no {name:?} at {target}");
                Violation::of_fact(path, message).help(help)
            });
        }
    }
}
