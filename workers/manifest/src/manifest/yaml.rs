//! Text, YAML or JSON, into nodes: the only place that knows which parser is used.
//!
//! It works on the parser's events. A deserialiser would lose what later messages need: the place
//! of every value, whether a scalar was quoted, and the digits of a number.

mod failure;
mod json;
mod plain;

use std::collections::HashMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StrInput, Tag};

use crate::manifest::bounds::Bounds;
use crate::manifest::lines::Source;
use crate::manifest::node::{Data, Entry, Map, Node};
use crate::manifest::problem::{Hint, Problems, quoted};
use failure::{Failure, MAX_DEPTH, not_a_key, scan_failure, too_deep};
use plain::{duplicate, number, plain};

/// The types of YAML's core schema, by the names of their tags.
const CORE_TYPES: [&str; 7] = ["null", "bool", "int", "float", "str", "seq", "map"];

/// Parses the one document of a source, within the bounds of its manifest. Reports the problems,
/// and returns none if they leave no document.
pub(crate) fn parse(source: &Source, bounds: &mut Bounds, problems: &mut Problems) -> Option<Node> {
    let parsed = if json::is_json(source) {
        json::parse(source, bounds, problems)
    } else {
        Builder::new(source, bounds).run(problems)
    };
    match parsed {
        Ok(Some(node)) => Some(node),
        Ok(None) => {
            problems.at(source, 0, "the file is empty");
            None
        }
        Err(failure) => {
            problems.with_hint(source, failure.offset, failure.message, failure.hint);
            None
        }
    }
}

/// A node that aliases may stand for.
struct Anchored {
    node: Node,
    size: Size,
    depth: usize,
}

/// How many values there are, and how many bytes of text in them.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    count: usize,
    text: usize,
}

/// A collection whose end was not seen yet.
struct Open {
    node: Node,
    anchor: usize,
    /// The key that waits for its value.
    key: Option<Key>,
    /// The maps that `<<` merges into this one.
    merges: Vec<Node>,
    /// The size of the values before it.
    before: Size,
    /// How deep its deepest value nests.
    depth: usize,
}

struct Key {
    text: String,
    span: Range<usize>,
    is_merge: bool,
}

struct Builder<'a> {
    source: &'a Source,
    parser: Parser<'a, StrInput<'a>>,
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    size: Size,
    bounds: &'a mut Bounds,
    root: Option<Node>,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Source, bounds: &'a mut Bounds) -> Self {
        let mut options = granit_parser::options! {
            // The scanner reads ahead of the events, so it is bounded as well.
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
            disallow_directives: true,
        };
        options.set_emit_comments(false);
        Self {
            source,
            parser: Parser::new_from_str_with_options(source.text(), options),
            open: Vec::new(),
            anchors: HashMap::new(),
            size: Size::default(),
            bounds,
            root: None,
        }
    }

    fn run(&mut self, problems: &mut Problems) -> Result<Option<Node>, Failure> {
        let mut documents = 0;
        while let Some(next) = self.parser.next_event() {
            let (event, span) = next.map_err(|err| scan_failure(&err))?;
            let span = span.byte_range().unwrap_or_default();
            if matches!(event, Event::DocumentStart(..)) {
                documents += 1;
                if documents > 1 {
                    let message = "a second document begins here, and a file holds one";
                    return Err(Failure::new(span.start, message));
                }
            }
            self.on_event(event, span, problems)?;
        }
        Ok(self.root.take())
    }

    fn on_event(
        &mut self,
        event: Event<'a>,
        span: Range<usize>,
        problems: &mut Problems,
    ) -> Result<(), Failure> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let properties = (style, anchor, tag.as_deref());
                self.scalar(&text, properties, span, problems)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "seq", &span, problems);
                self.begin(Data::List(Vec::new()), anchor, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.check_tag(tag.as_deref(), "map", &span, problems);
                self.begin(Data::Map(Map::new()), anchor, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(problems),
            Event::Alias(anchor) => self.alias(anchor, span, problems),
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        (style, anchor, tag): (ScalarStyle, usize, Option<&Tag>),
        span: Range<usize>,
        problems: &mut Problems,
    ) -> Result<(), Failure> {
        let is_key = self.awaits_key();
        // A key counts with its value.
        let size = Size { count: usize::from(!is_key), text: text.len() };
        self.spend(size, span.start)?;
        let is_plain = style == ScalarStyle::Plain;
        if is_key {
            let is_merge = is_plain && text == "<<";
            if !is_merge || !tag.is_some_and(is_merge_tag) {
                self.check_tag(tag, "str", &span, problems);
            }
            if anchor != 0 {
                let node = Node { span: span.clone(), data: Data::String(text.to_owned()) };
                self.keep(anchor, &node, Size { count: 1, ..size }, 0)?;
            }
            let key = Key { text: text.to_owned(), span, is_merge };
            if let Some(open) = self.open.last_mut() {
                open.key = Some(key);
            }
            return Ok(());
        }
        let is_string = tag.is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
        let data = if is_plain && !is_string {
            let before = problems.count();
            let is_tagged = |name: &str| tag.is_some_and(|tag| tag.is_yaml_core_schema_tag(name));
            let is_number = is_tagged("float") || is_tagged("int");
            let tagged = is_number.then(|| number(text)).flatten();
            let data = tagged.unwrap_or_else(|| plain(self.source, text, &span, problems));
            if problems.count() == before {
                self.check_tag(tag, core_type(&data), &span, problems);
            }
            data
        } else {
            self.check_tag(tag, "str", &span, problems);
            Data::String(text.to_owned())
        };
        let node = Node { span, data };
        self.keep(anchor, &node, size, 0)?;
        self.value(node, 0, problems);
        Ok(())
    }

    fn begin(&mut self, data: Data, anchor: usize, span: Range<usize>) -> Result<(), Failure> {
        if self.awaits_key() {
            return Err(not_a_key(span.start));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(span.start));
        }
        let before = self.size;
        self.spend(Size { count: 1, text: 0 }, span.start)?;
        let node = Node { span: span.start..span.start, data };
        self.open.push(Open { node, anchor, key: None, merges: Vec::new(), before, depth: 0 });
        Ok(())
    }

    fn end(&mut self, problems: &mut Problems) -> Result<(), Failure> {
        let Some(mut open) = self.open.pop() else {
            return Ok(());
        };
        for merged in std::mem::take(&mut open.merges) {
            self.merge(&mut open.node, merged, problems);
        }
        let depth = open.depth + 1;
        let size = Size {
            count: self.size.count - open.before.count,
            text: self.size.text - open.before.text,
        };
        self.keep(open.anchor, &open.node, size, depth)?;
        self.value(open.node, depth, problems);
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn value(&mut self, node: Node, depth: usize, problems: &mut Problems) {
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        open.depth = open.depth.max(depth);
        let map = match (&mut open.node.data, open.key.take()) {
            (Data::List(items), _) => return items.push(node),
            (Data::Map(map), Some(key)) if !key.is_merge => (map, key),
            _ => return open.merges.push(node),
        };
        let (map, key) = map;
        if let Some(first) = map.get(&key.text) {
            let key = (key.text.as_str(), key.span.start);
            return duplicate(self.source, key, &first.key, problems);
        }
        map.insert(key.text, Entry { key: key.span, value: node });
    }

    fn alias(
        &mut self,
        anchor: usize,
        span: Range<usize>,
        problems: &mut Problems,
    ) -> Result<(), Failure> {
        if self.awaits_key() {
            return Err(not_a_key(span.start));
        }
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(Failure::new(span.start, "an alias inside the value that it stands for"));
        };
        let (size, depth) = (anchored.size, anchored.depth);
        if self.open.len() + depth > MAX_DEPTH {
            return Err(too_deep(span.start));
        }
        self.spend(size, span.start)?;
        let node = self.anchors.get(&anchor).map(|anchored| anchored.node.clone());
        if let Some(node) = node {
            self.value(node, depth, problems);
        }
        Ok(())
    }

    /// Keeps a copy of an anchored value for its aliases.
    fn keep(
        &mut self,
        anchor: usize,
        node: &Node,
        size: Size,
        depth: usize,
    ) -> Result<(), Failure> {
        if anchor != 0 {
            self.spend(size, node.span.start)?;
            self.anchors.insert(anchor, Anchored { node: node.clone(), size, depth });
        }
        Ok(())
    }

    /// Adds the keys of a `<<` that the map does not have itself.
    fn merge(&self, into: &mut Node, merged: Node, problems: &mut Problems) {
        let place = merged.span.start;
        let merged = match merged.data {
            Data::List(items) => items,
            _ => vec![merged],
        };
        for node in merged {
            match (&mut into.data, node.data) {
                (Data::Map(map), Data::Map(more)) => {
                    for (key, entry) in more {
                        map.entry(key).or_insert(entry);
                    }
                }
                _ => problems.at(self.source, place, "\"<<\" merges maps only"),
            }
        }
    }

    fn awaits_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| matches!(open.node.data, Data::Map(_)) && open.key.is_none())
    }

    fn spend(&mut self, size: Size, offset: usize) -> Result<(), Failure> {
        let taken = self.bounds.nodes(size.count, size.text);
        taken.map_err(|message| Failure::new(offset, message))?;
        self.size.count += size.count;
        self.size.text += size.text;
        Ok(())
    }

    fn check_tag(
        &self,
        tag: Option<&Tag>,
        expected: &str,
        span: &Range<usize>,
        problems: &mut Problems,
    ) {
        let Some(tag) = tag else { return };
        if !tag.is_yaml_core_schema_tag(expected) {
            let is_core = CORE_TYPES.iter().any(|name| tag.is_yaml_core_schema_tag(name));
            let why = if is_core { "is for another type" } else { "is not supported" };
            let message = format!("the tag {} {why}", quoted(&tag.original()));
            let hint = Hint::of(tag.original());
            problems.with_hint(self.source, span.start, message, hint);
        }
    }
}

/// Returns whether a tag is that of the key `<<`, `!!merge`.
fn is_merge_tag(tag: &Tag) -> bool {
    tag.suffix_in_namespace("tag:yaml.org,2002:").is_some_and(|name| name == "merge")
}

/// Returns the name of the tag that a value has without being given one.
fn core_type(data: &Data) -> &'static str {
    match data {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Number(number) if number.is_f64() => "float",
        Data::Number(_) => "int",
        Data::String(_) => "str",
        Data::List(_) => "seq",
        Data::Map(_) => "map",
    }
}
