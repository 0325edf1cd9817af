//! JSON into nodes: its own rules, with the places that `serde_json` does not keep.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::failure::{Failure, MAX_DEPTH, too_deep};
use super::plain::{duplicate, number, plain};
use crate::manifest::bounds::Bounds;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Problems, quoted};

/// Returns whether a source is read as JSON: by its name, or because it is a map in JSON.
pub(super) fn is_json(source: &Source) -> bool {
    let is_map = || source.text().trim_start().starts_with('{');
    source.is_named("json")
        || (is_map() && serde_json::from_str::<IgnoredAny>(source.text()).is_ok())
}

/// Parses the one value of a source; none if it is empty.
pub(super) fn parse(
    source: &Source,
    bounds: &mut Bounds,
    problems: &mut Problems,
) -> Result<Option<Node>, Failure> {
    let mut reader = Reader { source, place: 0, depth: 0, bounds, problems };
    reader.blank();
    if reader.rest().is_empty() {
        return Ok(None);
    }
    let node = reader.value()?;
    reader.blank();
    if reader.rest().is_empty() { Ok(Some(node)) } else { Err(reader.expected("the end")) }
}

struct Reader<'a> {
    source: &'a Source,
    /// The byte that is read next.
    place: usize,
    depth: usize,
    bounds: &'a mut Bounds,
    problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Node, Failure> {
        let start = self.place;
        let data = match self.next() {
            Some(b'{') => return self.nested(start, Self::map),
            Some(b'[') => return self.nested(start, Self::list),
            Some(b'"') => Data::String(self.text(1)?),
            _ => self.word()?,
        };
        Ok(Node { span: start..self.place, data })
    }

    fn nested(
        &mut self,
        start: usize,
        read: impl FnOnce(&mut Self) -> Result<Data, Failure>,
    ) -> Result<Node, Failure> {
        if self.depth >= MAX_DEPTH {
            return Err(too_deep(start));
        }
        self.spend(1, 0, start)?;
        self.depth += 1;
        self.place += 1;
        let data = read(self)?;
        self.depth -= 1;
        Ok(Node { span: start..start, data })
    }

    fn list(&mut self) -> Result<Data, Failure> {
        let mut items = Vec::new();
        self.blank();
        if self.take(b']') {
            return Ok(Data::List(items));
        }
        loop {
            self.blank();
            items.push(self.value()?);
            self.blank();
            if self.take(b']') {
                return Ok(Data::List(items));
            }
            self.demand(b',', "\",\" or \"]\"")?;
        }
    }

    fn map(&mut self) -> Result<Data, Failure> {
        let mut map = Map::new();
        self.blank();
        if self.take(b'}') {
            return Ok(Data::Map(map));
        }
        loop {
            self.blank();
            let start = self.place;
            if self.next() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            let name = self.text(0)?;
            let key = start..self.place;
            self.blank();
            self.demand(b':', "\":\"")?;
            self.blank();
            let value = self.value()?;
            match map.get(&name) {
                Some(Entry { key: first, .. }) => {
                    duplicate(self.source, (&name, start), first, self.problems);
                }
                None => {
                    map.insert(name, Entry { key, value });
                }
            }
            self.blank();
            if self.take(b'}') {
                return Ok(Data::Map(map));
            }
            self.demand(b',', "\",\" or \"}\"")?;
        }
    }

    /// Reads a text in quotes that counts as `count` values; `serde_json` reads its escapes.
    fn text(&mut self, count: usize) -> Result<String, Failure> {
        let (start, bytes) = (self.place, self.source.text().as_bytes());
        let mut end = start + 1;
        while let Some(byte) = bytes.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        let raw = self.source.text().get(start..=end);
        let raw = raw.ok_or_else(|| Failure::new(start, "not JSON: unclosed quote"))?;
        self.place = end + 1;
        let text: String = serde_json::from_str(raw).map_err(|err| {
            // Its place is one within the text.
            let said = err.to_string();
            let why = said.split(" at line ").next().unwrap_or_default();
            Failure::new(start, format!("not JSON: {why}"))
        })?;
        self.spend(count, text.len(), start)?;
        Ok(text)
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<Data, Failure> {
        let start = self.place;
        let is_end = |character: char| character.is_whitespace() || ",:[]{}\"".contains(character);
        let word = self.rest().split(is_end).next().unwrap_or_default();
        let span: Range<usize> = start..start + word.len();
        let before = self.problems.count();
        let data = match word {
            "true" | "false" | "null" => plain(self.source, word, &span, self.problems),
            _ if !word.starts_with(|first: char| first == '-' || first.is_ascii_digit()) => {
                return Err(self.expected("a value"));
            }
            _ => number(word).unwrap_or_else(|| plain(self.source, word, &span, self.problems)),
        };
        let is_number = matches!(data, Data::Number(_));
        if is_number && serde_json::from_str::<f64>(word).is_err() || {
            matches!(data, Data::String(_)) && self.problems.count() == before
        } {
            return Err(self.expected("a value"));
        }
        self.place = span.end;
        self.spend(1, word.len(), start)?;
        Ok(data)
    }

    fn spend(&mut self, count: usize, text: usize, offset: usize) -> Result<(), Failure> {
        self.bounds.nodes(count, text).map_err(|message| Failure::new(offset, message))
    }

    fn blank(&mut self) {
        let rest = self.rest();
        self.place += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.place += usize::from(is_next);
        is_next
    }

    fn demand(&mut self, byte: u8, what: &str) -> Result<(), Failure> {
        if self.take(byte) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn expected(&self, what: &str) -> Failure {
        let is_end = |character: char| character.is_whitespace() || ",:[]{}\"".contains(character);
        let rest = self.rest();
        let word = rest.split(is_end).next().filter(|word| !word.is_empty());
        let first = rest.chars().next();
        let found = word.map(quoted).or_else(|| first.map(|first| quoted(&first.to_string())));
        let found = found.unwrap_or_else(|| "the end of the file".to_owned());
        Failure::new(self.place, format!("not JSON: expected {what}, not {found}"))
    }

    fn next(&self) -> Option<u8> {
        self.source.text().as_bytes().get(self.place).copied()
    }

    fn rest(&self) -> &'a str {
        &self.source.text()[self.place..]
    }
}
