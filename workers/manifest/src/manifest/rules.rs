//! The rules of a manifest.

use std::any::Any;
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_resources::BoxError;
use crankcase_resources::report::EventKind;
use crankcase_resources::rules::{Cause, Handler, Rule, RuleParameters, RuleTools, Trigger};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::manifest::check;
use crate::manifest::document::{Written, map};
use crate::manifest::expression::{Budget, Names, from_json};
use crate::manifest::globals::{AllGlobals, UsedValues};
use crate::manifest::lines::Source;
use crate::manifest::loops::Wired;
use crate::manifest::node::{Data, Entry, Node};
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Decoder;
use crate::manifest::source::{bad_name, is_name};
use crate::manifest::text::{Texts, Trouble};
use crate::manifest::used::Used;
use crate::manifest::vars::KnownVars;

/// The keys of a rule.
const KEYS: &[&str] = &["on", "match", "do", "debounce", "attempts", "timeout", "enabled"];

/// The keys of "on".
const TRIGGERS: &[&str] = &["fact", "state", "event", "resource"];

/// The keys of a step.
const STEPS: &[&str] = &["set", "notify", "run"];

/// The events of a resource that a rule can wait for.
const EVENTS: [EventKind; 5] = [
    EventKind::Changed,
    EventKind::Repaired,
    EventKind::Refreshed,
    EventKind::Failed,
    EventKind::Released,
];

/// The longest debounce, and the longest timeout.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Decodes the rules, and checks their expressions. `resources` has the names of all resources.
/// Also returns the triggers and effects of the rules that may be in a loop, and the variables that
/// rules use.
pub(crate) fn decode(
    written: &IndexMap<String, Written>,
    resources: &HashSet<String>,
    (vars, globals): (&KnownVars<'_>, &AllGlobals),
    problems: &mut Problems,
) -> (Vec<Rule>, Vec<Wired>, Used) {
    let (mut rules, mut wired, mut of_rules) = (Vec::new(), Vec::new(), Used::default());
    for (name, Written { source, key, node }) in written {
        if !is_name(name) {
            let message = bad_name("name of a rule", name);
            problems.with_hint(source, key.start, message, Hint::of(name));
        }
        let what = format!("rule {}", quoted(name));
        let Some(map) = map(source, node.clone(), &what, problems) else { continue };
        let mut reading = Reading {
            decoder: Decoder { source, problems },
            resources,
            vars,
            place: what,
            used: Used::default(),
        };
        let (has_on, has_steps) = (map.contains_key("on"), map.contains_key("do"));
        let (mut on, mut parameters) = (None, RuleParameters::default());
        let (mut matches, mut does) = (None, Vec::new());
        for (key, entry) in map {
            match key.as_str() {
                "on" => on = reading.trigger(entry.value),
                "match" => {
                    reading.check(&entry.value);
                    matches = Some(entry.value);
                }
                "do" => does = reading.steps(entry.value),
                "debounce" => parameters.debounce = reading.duration(entry, &key),
                "timeout" => parameters.timeout = reading.duration(entry, &key),
                "attempts" => parameters.attempts = reading.attempts(&entry.value),
                "enabled" => parameters.is_enabled = reading.decoder.boolean(&entry.value, &key),
                _ => reading.decoder.unknown(&entry.key, &key, "a rule", KEYS),
            }
        }
        let Reading { decoder, place, used, .. } = reading;
        if !has_steps {
            decoder.problems.at(source, key.start, format!("{place} has nothing to \"do\""));
        }
        if !has_on {
            decoder.problems.at(
                source,
                key.start,
                format!("{place} has no \"on\", which says what it waits for"),
            );
        }
        // Without a valid "on", a problem was noted above.
        if let Some(on) = on {
            let (source, kept) = (Arc::clone(source), globals.used(&used));
            // The facts are those of the moment at which the rule acts.
            of_rules = of_rules.and(Used { facts: BTreeSet::new(), ..used.clone() });
            let does = Does { source, kept, matches, steps: does, used };
            if does.matches.is_none() && parameters.is_enabled {
                wired.push(does.wired(name, &on, key.start));
            }
            let mut rule = Rule::new(name, on, Arc::new(does));
            rule.parameters = parameters;
            rules.push(rule);
        }
    }
    (rules, wired, of_rules)
}

struct Reading<'a, 'b> {
    decoder: Decoder<'a>,
    resources: &'a HashSet<String>,
    vars: &'a KnownVars<'b>,
    place: String,
    /// The names that the expressions use.
    used: Used,
}

impl Reading<'_, '_> {
    fn trigger(&mut self, node: Node) -> Option<Trigger> {
        let span = node.span.clone();
        let map = map(self.decoder.source, node, "\"on\"", self.decoder.problems)?;
        let (mut fact, mut state, mut resource, mut event) = (None, None, None, None);
        for (key, entry) in map {
            match key.as_str() {
                "fact" => fact = self.pointer(entry.value),
                "state" => state = self.resource(entry.value),
                "resource" => resource = self.resource(entry.value),
                "event" => event = Some(self.event(entry.value)?),
                _ => self.decoder.unknown(&entry.key, &key, "\"on\"", TRIGGERS),
            }
        }
        match (fact, state, event) {
            (Some(path), None, None) if resource.is_none() => Some(Trigger::Fact(path)),
            (None, Some(name), None) if resource.is_none() => Some(Trigger::State(name)),
            (None, None, Some(event)) => Some(Trigger::Event { resource, event }),
            _ => {
                let message = "a rule waits for one thing: {fact: PATH}, {state: RESOURCE}, or {event: WORD} with \
                               or without {resource: NAME}";
                self.decoder.at(&span, message.to_owned());
                None
            }
        }
    }

    fn pointer(&mut self, node: Node) -> Option<String> {
        let span = node.span.clone();
        let path = self.decoder.text(node, "the path of a fact")?;
        if path.is_empty() || path.starts_with('/') {
            return Some(path);
        }
        let message = format!("{} is no path to a fact: it begins with \"/\"", quoted(&path));
        self.decoder.wrong(&span, message, &path);
        None
    }

    fn resource(&mut self, node: Node) -> Option<String> {
        let span = node.span.clone();
        let name = self.decoder.text(node, "the name of a resource")?;
        if self.resources.contains(&name) {
            return Some(name);
        }
        let problems = &mut *self.decoder.problems;
        let hint = problems.nearest(&name, self.resources.iter().map(String::as_str));
        problems.with_hint(
            self.decoder.source,
            span.start,
            format!("unknown resource {}", quoted(&name)),
            hint,
        );
        None
    }

    /// Reads the word for an event. For `any` the inner option is none.
    fn event(&mut self, node: Node) -> Option<Option<EventKind>> {
        let span = node.span.clone();
        let word = self.decoder.text(node, "an event")?;
        if word == "any" {
            return Some(None);
        }
        if let Some(event) = EVENTS.into_iter().find(|event| event.word() == word) {
            return Some(Some(event));
        }
        let words = || EVENTS.map(EventKind::word).into_iter().chain(["any"]);
        let problems = &mut *self.decoder.problems;
        let hint = problems.nearest(&word, words());
        let hint = hint.or(format!("there are {}", words().collect::<Vec<_>>().join(", ")));
        problems.with_hint(
            self.decoder.source,
            span.start,
            format!("there is no event {}", quoted(&word)),
            hint,
        );
        None
    }

    fn duration(&mut self, entry: Entry, key: &str) -> Duration {
        let span = entry.value.span.clone();
        let Some(text) = self.decoder.text(entry.value, &quoted(key)) else { return LONGEST };
        match humantime::parse_duration(&text) {
            Ok(duration) if duration <= LONGEST => duration,
            _ => {
                let message = format!(
                    "\"{key}\" is a duration of at most 1day, such as \"30s\", not {}",
                    quoted(&text)
                );
                self.decoder.wrong(&span, message, &text);
                LONGEST
            }
        }
    }

    fn attempts(&mut self, node: &Node) -> u32 {
        let count = match &node.data {
            Data::Number(number) => number.as_u64().and_then(|count| u32::try_from(count).ok()),
            _ => None,
        };
        count.filter(|count| (1..=1000).contains(count)).unwrap_or_else(|| {
            self.decoder.at(&node.span, "\"attempts\" is a whole number from 1 to 1000".to_owned());
            1
        })
    }

    fn steps(&mut self, node: Node) -> Vec<Step> {
        let description = node.description();
        let Data::List(items) = node.data else {
            self.decoder.at(&node.span, format!("\"do\" is a list of steps, not {description}"));
            return Vec::new();
        };
        if items.is_empty() {
            self.decoder.at(&node.span, "\"do\" has at least one step".to_owned());
        }
        items.into_iter().filter_map(|item| self.step(item)).collect()
    }

    fn step(&mut self, node: Node) -> Option<Step> {
        let span = node.span.clone();
        let map = map(self.decoder.source, node, "a step", self.decoder.problems)?;
        let mut entries = map.into_iter();
        let (Some((key, entry)), None) = (entries.next(), entries.next()) else {
            let message = format!("a step is one of {}", STEPS.join(", "));
            self.decoder.at(&span, message);
            return None;
        };
        match key.as_str() {
            "set" => self.set(entry.value),
            "notify" => self.resource(entry.value).map(Step::Notify),
            "run" => self.run(entry.value),
            _ => {
                self.decoder.unknown(&entry.key, &key, "a step", STEPS);
                None
            }
        }
    }

    fn set(&mut self, node: Node) -> Option<Step> {
        let span = node.span.clone();
        let mut map = map(self.decoder.source, node, "\"set\"", self.decoder.problems)?;
        let (path, value) = (map.shift_remove("path"), map.shift_remove("value"));
        for (key, entry) in &map {
            self.decoder.unknown(&entry.key, key, "\"set\"", &["path", "value"]);
        }
        let Some(path) = path else {
            self.decoder.at(&span, "\"set\" has no \"path\"".to_owned());
            return None;
        };
        self.check(&path.value);
        let value = value.map(|entry| entry.value);
        value.iter().for_each(|value| drop(self.check(value)));
        Some(Step::Set { path: path.value, value })
    }

    fn run(&mut self, node: Node) -> Option<Step> {
        let description = node.description();
        let used = self.check(&node);
        if let Some(secret) = used.secrets.first() {
            let message =
                format!("a command uses a secret, {secret}, and is seen by others on the machine");
            self.decoder.wrong(&node.span, message, secret);
        }
        match &node.data {
            Data::List(items) if !items.is_empty() => Some(Step::Run(node)),
            data => {
                let is_list = matches!(data, Data::List(_));
                let description = if is_list { "nothing" } else { description };
                let message =
                    format!("\"run\" is a program and its arguments as a list, not {description}");
                self.decoder.at(&node.span, message);
                None
            }
        }
    }

    /// Checks the expressions of a value.
    fn check(&mut self, node: &Node) -> Used {
        let usable = self.vars.usable(true, &self.place);
        let used = check::check(self.decoder.source, node, &usable, self.decoder.problems);
        self.used = std::mem::take(&mut self.used).and(used.clone());
        used
    }
}

/// The handler of a rule of a manifest.
struct Does {
    source: Arc<Source>,
    kept: Arc<UsedValues>,
    matches: Option<Node>,
    steps: Vec<Step>,
    /// The names that the expressions use.
    used: Used,
}

/// Shows no values and no text of the manifest, as some of them may be secrets.
impl fmt::Debug for Does {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Does").finish_non_exhaustive()
    }
}

#[derive(PartialEq)]
enum Step {
    Set { path: Node, value: Option<Node> },
    Notify(String),
    Run(Node),
}

impl Does {
    fn wired(&self, name: &str, on: &Trigger, offset: usize) -> Wired {
        let set = |step: &Step| match step {
            Step::Set { path: Node { data: Data::String(path), .. }, value: Some(value) }
                if !has_expression(path) && is_variable(value) =>
            {
                Some(path.clone())
            }
            _ => None,
        };
        let notified = |step: &Step| match step {
            Step::Notify(resource) => Some(resource.clone()),
            _ => None,
        };
        Wired {
            name: name.to_owned(),
            source: Arc::clone(&self.source),
            offset,
            on: on.clone(),
            sets: self.steps.iter().filter_map(set).collect(),
            notifies: self.steps.iter().filter_map(notified).collect(),
        }
    }

    /// Returns the names that expressions see: the cause is `item`, and the facts are as old as the cause.
    fn names(&self, cause: &Cause, tools: &RuleTools) -> Result<Names, BoxError> {
        let facts = match self.used.facts.is_empty() {
            true => None,
            false => tools.fact("")?,
        };
        Ok(Names {
            facts: from_json(&facts.unwrap_or_else(|| json!({}))),
            has_part_of_facts: false,
            item: Some(from_json(&serde_json::to_value(cause)?)),
            ..self.kept.globals.names()
        })
    }

    fn value(&self, node: &Node, names: &Names) -> Result<Value, BoxError> {
        let mut budget = Budget::new();
        let mut texts = Texts::new(names, &mut budget);
        let value = texts.node(node);
        match texts.finish().troubles.into_iter().next() {
            None => Ok(value),
            Some(Trouble { span, text, failure }) => {
                let offset = self.source.locate(&span, &text, failure.offset);
                let help = failure.hint.help.map_or_else(String::new, |help| format!("; {help}"));
                Err(format!("{}: {}{help}", self.source.place(offset), failure.message).into())
            }
        }
    }

    fn text(&self, node: &Node, names: &Names) -> Result<String, BoxError> {
        match self.value(node, names)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            other => {
                let place = self.source.place(node.span.start);
                Err(format!("{place}: it is a text, not {other}").into())
            }
        }
    }
}

fn has_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Returns whether a value has an expression.
fn is_variable(node: &Node) -> bool {
    match &node.data {
        Data::String(text) => has_expression(text),
        Data::List(items) => items.iter().any(is_variable),
        Data::Map(map) => {
            map.iter().any(|(key, entry)| has_expression(key) || is_variable(&entry.value))
        }
        Data::Null | Data::Bool(_) | Data::Number(_) => false,
    }
}

#[async_trait]
impl Handler for Does {
    fn matches(&self, cause: &Cause, tools: &RuleTools) -> Result<bool, BoxError> {
        let Some(node) = &self.matches else { return Ok(true) };
        match self.value(node, &self.names(cause, tools)?)? {
            Value::Bool(matches) => Ok(matches),
            other => {
                let place = self.source.place(node.span.start);
                Err(format!("{place}: \"match\" is true or false, not {other}").into())
            }
        }
    }

    async fn handle(&self, cause: &Cause, tools: &RuleTools) -> Result<(), BoxError> {
        let names = self.names(cause, tools)?;
        for step in &self.steps {
            match step {
                Step::Set { path, value } => {
                    let path = self.text(path, &names)?;
                    let value =
                        value.as_ref().map(|value| self.value(value, &names)).transpose()?;
                    tools.set_fact(&path, value).await?;
                }
                Step::Notify(resource) => tools.notify(resource).await?,
                Step::Run(command) => {
                    let Data::List(items) = &command.data else { continue };
                    let argv = items.iter().map(|item| self.text(item, &names));
                    tools.run(&argv.collect::<Result<Vec<_>, _>>()?, cause).await?;
                }
            }
        }
        Ok(())
    }

    fn is_equal(&self, other: &dyn Handler) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            self.matches == other.matches
                && self.steps == other.steps
                && self.used == other.used
                && self.kept.is_alike(&other.kept)
        })
    }
}
