//! The tools.

use std::collections::BTreeSet;
use std::sync::Arc;

use crankcase_status::wire::Act;
use rmcp::model::{JsonObject, Tool as Described, ToolAnnotations};
use serde_json::json;

/// What an assistant can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Trouble,
    Report,
    Why,
    Graph,
    Events,
    Changes,
    Boot,
    Plan,
    Change(Act),
}

impl Tool {
    /// Returns the tools, with the changes that are allowed.
    pub(super) fn all(allowed: &BTreeSet<Act>) -> impl Iterator<Item = Self> {
        let looks = [
            Self::Trouble,
            Self::Report,
            Self::Why,
            Self::Graph,
            Self::Events,
            Self::Changes,
            Self::Boot,
            Self::Plan,
        ];
        looks.into_iter().chain(allowed.iter().copied().map(Self::Change))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Report => "report",
            Self::Why => "why",
            Self::Graph => "graph",
            Self::Events => "events",
            Self::Changes => "changes",
            Self::Boot => "boot",
            Self::Plan => "plan",
            Self::Change(act) => act.as_str(),
        }
    }

    /// Returns what it is for, and its arguments: the name of each, its type and whether it is required.
    fn words(self) -> (&'static str, &'static [(&'static str, &'static str, bool)]) {
        const PATH: (&str, &str, bool) = ("path", "string", true);
        const REASON: (&str, &str, bool) = ("reason", "string", true);
        match self {
            Self::Trouble => (
                "What is degraded, failed or parked, with the chain to the root cause of the first 20; what is well is a number.",
                &[],
            ),
            Self::Report => (
                "All of one worker, such as resources/www: its state, inputs, starts, last error and last change. Without a path the workers of the agent itself, in short.",
                &[("path", "string", false)],
            ),
            Self::Why => ("The chain from a worker to the root cause.", &[PATH]),
            Self::Graph => (
                "What a worker needs, at any distance, and what needs it within `steps` edges (0 to 5, by default 1).",
                &[PATH, ("steps", "integer", false)],
            ),
            Self::Events => (
                "What has happened: the last `most` events (0 to 200, by default 50), or those from the number `since` on. Numbers are of one `life` of the agent: with it, those of another one are refused.",
                &[
                    ("since", "integer", false),
                    ("life", "string", false),
                    ("most", "integer", false),
                ],
            ),
            Self::Changes => (
                "What the agent has changed or repaired lately. With the path of a resource, its last event in full, with the diff.",
                &[("path", "string", false)],
            ),
            Self::Boot => (
                "How long it took until all that is essential was up, the critical path, and what is not up.",
                &[],
            ),
            Self::Plan => (
                "What is still to be done of the manifests that the agent runs: the resources that were not as declared when it looked last, with what differed, why it has not mended them, and when it tries again. Nothing is run for it.",
                &[],
            ),
            Self::Change(Act::Bounce) => (
                "Stop a worker and start it again, with what depends on it. The person is asked first.",
                &[PATH, REASON],
            ),
            Self::Change(Act::Park) => {
                ("Stop a worker and keep it stopped. The person is asked first.", &[PATH, REASON])
            }
            Self::Change(Act::Unpark) => {
                ("Let a parked worker start again. The person is asked first.", &[PATH, REASON])
            }
        }
    }

    pub(super) fn described(self) -> Described {
        let (description, arguments) = self.words();
        let properties: JsonObject = arguments
            .iter()
            .map(|(name, kind, _)| ((*name).to_owned(), json!({"type": kind})))
            .collect();
        let required: Vec<_> = arguments.iter().filter(|it| it.2).map(|it| it.0).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        let reads = !matches!(self, Self::Change(_));
        let stops = matches!(self, Self::Change(Act::Bounce | Act::Park));
        let annotations = ToolAnnotations::new()
            .read_only(reads)
            .destructive(stops)
            .idempotent(self != Self::Change(Act::Bounce))
            .open_world(false);
        Described::new(self.name(), description, Arc::new(schema)).with_annotations(annotations)
    }
}
