use std::time::Duration;

use crankcase_resources::Meta;

use crate::manifest::node::{Entry, Node};
use crate::manifest::problem::quoted;
use crate::manifest::resource::decoder::Decoder;

/// The keys of `meta`.
const KEYS: &[&str] = &["noop", "poll", "timeout", "automatic_edges", "reverse", "exposes"];

impl Decoder<'_> {
    /// Takes the settings of a resource, and the secrets that may be on a command line.
    pub(super) fn meta(&mut self, node: Node) -> (Meta, Vec<(usize, String)>) {
        let (mut meta, mut exposes) = (Meta::default(), Vec::new());
        for (key, entry) in self.map_or_nothing(node, "meta") {
            match key.as_str() {
                "noop" => meta.noop = self.boolean(&entry.value, "noop"),
                "poll" => meta.poll = self.duration(entry, "poll"),
                "timeout" => meta.timeout = self.duration(entry, "timeout"),
                "automatic_edges" => meta.automatic_edges = self.boolean(&entry.value, &key),
                "exposes" => {
                    let what = ("\"exposes\" is a list of secrets", "the name of a secret");
                    exposes = self.names(entry.value, what);
                }
                "reverse" => meta.reverse = self.boolean(&entry.value, &key),
                _ => self.unknown(&entry.key, &key, "\"meta\"", KEYS),
            }
        }
        (meta, exposes)
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
