//! The settings in the `meta` of a resource.

use std::time::Duration;

use crankcase_resources::Meta;

use crate::manifest::node::{Entry, Map, Node};
use crate::manifest::problem::{Problems, quoted};
use crate::manifest::resource::decoder::Decoder;
use crate::manifest::resource::{MetaOfFacts, Unsure};

/// The keys of `meta`.
const KEYS: &[&str] = &["noop", "poll", "timeout", "automatic_edges", "reverse", "exposes"];

/// The settings of a resource, and the secrets that may be on a command line.
type Settings = (Meta, Vec<(usize, String)>);

/// Takes the settings of a resource. What is wrong with those that follow from facts is deferred, and returned.
pub(super) fn decode(
    decoder: &mut Decoder<'_>,
    node: Node,
    of_facts: &MetaOfFacts,
) -> (Settings, Option<Unsure>) {
    let MetaOfFacts { is_whole, keys, wrong } = of_facts;
    let (mut settings, mut deferred) = (Settings::default(), Problems::default());
    let place = decoder.source.place(node.span.start);
    let mut deferring = Decoder { source: decoder.source, problems: &mut deferred };
    let map = if *is_whole {
        deferring.map_or_nothing(node, "meta")
    } else {
        decoder.map_or_nothing(node, "meta")
    };
    let (following, others): (Map, Map) =
        map.into_iter().partition(|(key, _)| *is_whole || keys.contains(key));
    decoder.settings(others, &mut settings);
    deferring.settings(following, &mut settings);
    let of_values = || deferred.first().map(|it| Unsure::of(it, || place));
    let wrong = wrong.clone().or_else(of_values);
    (settings, wrong)
}

impl Decoder<'_> {
    fn settings(&mut self, map: Map, (meta, exposes): &mut Settings) {
        for (key, entry) in map {
            match key.as_str() {
                "noop" => meta.noop = self.boolean(&entry.value, "noop"),
                "poll" => meta.poll = self.duration(entry, "poll"),
                "timeout" => meta.timeout = self.duration(entry, "timeout"),
                "automatic_edges" => meta.automatic_edges = self.boolean(&entry.value, &key),
                "exposes" => {
                    let what = ("\"exposes\" is a list of secrets", "the name of a secret");
                    *exposes = self.names(entry.value, what);
                }
                "reverse" => meta.reverse = self.boolean(&entry.value, &key),
                _ => self.unknown(&entry.key, &key, "\"meta\"", KEYS),
            }
        }
    }

    fn duration(&mut self, entry: Entry, key: &str) -> Option<Duration> {
        let span = entry.value.span.clone();
        let text = self.text(entry.value, &quoted(key))?;
        match humantime::parse_duration(&text) {
            Ok(duration) if Meta::TIMES.contains(&duration) => return Some(duration),
            Ok(_) => {
                let message = format!("\"{key}\" is from 1s to 1day, not {}", quoted(&text));
                self.wrong(&span, message, &text);
            }
            Err(_) => {
                let message = format!("{} is not a duration; write one as \"30s\"", quoted(&text));
                self.wrong(&span, message, &text);
            }
        }
        None
    }
}
