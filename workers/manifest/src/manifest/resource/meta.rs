use std::time::Duration;

use crate::manifest::node::{Entry, Node};
use crate::manifest::problem::quoted;
use crate::manifest::resource::decoder::Decoder;

/// The keys of `meta`.
const KEYS: &[&str] = &["noop", "poll", "timeout", "automatic_edges", "reverse"];
/// How short and how long a `poll` and a `timeout` may be.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// How a resource is treated, whatever its kind is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub(crate) noop: bool,
    pub(crate) poll: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    /// Whether it comes after the resources that make what it needs.
    pub(crate) automatic_edges: bool,
    /// Whether it is put back as it was when it leaves.
    pub(crate) reverse: bool,
}

impl Default for Meta {
    fn default() -> Self {
        Self { noop: false, poll: None, timeout: None, automatic_edges: true, reverse: false }
    }
}

impl Decoder<'_> {
    pub(super) fn meta(&mut self, node: Node) -> Meta {
        let mut meta = Meta::default();
        for (key, entry) in self.map_or_nothing(node, "meta") {
            match key.as_str() {
                "noop" => meta.noop = self.boolean(&entry.value, "noop"),
                "poll" => meta.poll = self.duration(entry, "poll"),
                "timeout" => meta.timeout = self.duration(entry, "timeout"),
                "automatic_edges" => meta.automatic_edges = self.boolean(&entry.value, &key),
                "reverse" => meta.reverse = self.boolean(&entry.value, &key),
                _ => self.unknown(&entry.key, &key, "\"meta\"", KEYS),
            }
        }
        meta
    }

    fn duration(&mut self, entry: Entry, key: &str) -> Option<Duration> {
        let span = entry.value.span.clone();
        let text = self.text(entry.value, &quoted(key))?;
        match humantime::parse_duration(&text) {
            Ok(duration) if (SHORTEST..=LONGEST).contains(&duration) => return Some(duration),
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
