//! The decoder of values that have to have a type, such as a text or a list of names.

use std::collections::HashSet;
use std::ops::Range;

use crate::manifest::document::{listed, map_or_nothing};
use crate::manifest::expression::is_template;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};

/// Takes values of the right types, and reports the places of all others.
pub(crate) struct Decoder<'a> {
    pub(crate) source: &'a Source,
    pub(crate) problems: &'a mut Problems,
}

impl Decoder<'_> {
    pub(crate) fn at(&mut self, span: &Range<usize>, message: String) {
        self.problems.at(self.source, span.start, message);
    }

    pub(crate) fn wrong(&mut self, span: &Range<usize>, message: String, value: &str) {
        self.problems.with_hint(self.source, span.start, message, Hint::of(value));
    }

    pub(crate) fn unknown(&mut self, span: &Range<usize>, key: &str, of: &str, keys: &[&str]) {
        let hint = self.problems.nearest(key, keys.iter().copied()).or(listed(keys));
        let message = format!("unknown key {} in {of}", quoted(key));
        self.problems.with_hint(self.source, span.start, message, hint);
    }

    /// Returns whether a text is an expression that could not be evaluated. That was reported.
    pub(crate) fn is_unevaluated(&self, text: &str) -> bool {
        is_template(text) && self.problems.count() > 0
    }

    pub(crate) fn map_or_nothing(&mut self, node: Node, key: &str) -> Map {
        map_or_nothing(self.source, node, key, self.problems).unwrap_or_default()
    }

    pub(crate) fn text(&mut self, node: Node, what: &str) -> Option<String> {
        let description = node.description();
        match node.data {
            Data::String(text) => Some(text),
            _ => {
                self.at(&node.span, format!("{what} is a string, not {description}"));
                None
            }
        }
    }

    /// Takes a list of texts without a double; `what` says what the list is, and what each item is.
    pub(crate) fn names(&mut self, node: Node, (what, each): (&str, &str)) -> Vec<(usize, String)> {
        let description = node.description();
        let mut names: Vec<(usize, String)> = Vec::new();
        let items = match node.data {
            Data::Null => Vec::new(),
            Data::List(items) => items,
            _ => {
                self.at(&node.span, format!("{what}, not {description}"));
                Vec::new()
            }
        };
        let mut seen = HashSet::new();
        for item in items {
            let span = item.span.clone();
            let Some(name) = self.text(item, each) else { continue };
            if !seen.insert(name.clone()) {
                self.wrong(&span, format!("{} is there twice", quoted(&name)), &name);
                continue;
            }
            names.push((span.start, name));
        }
        names
    }

    pub(crate) fn boolean(&mut self, node: &Node, key: &str) -> bool {
        if let Data::Bool(value) = node.data {
            return value;
        }
        let description = node.description();
        self.at(&node.span, format!("\"{key}\" is true or false, not {description}"));
        false
    }
}
