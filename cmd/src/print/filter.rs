//! Leaves resources out of a report.

use crankcase_resources::Tally;
use crankcase_resources::front::resource_name;
use crankcase_status::wire::{Detail, Subject};
use serde_json::json;

use super::summary::{self, Condition};
use crate::paths::{RESOURCES, TALLY};

/// Which resources of an agent are reported: all by default.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Filter {
    /// Only the resources that are so; may be given again
    #[arg(long, value_enum, value_name = "HOW", conflicts_with = "path")]
    state: Vec<Condition>,
    /// Only the resources of this type; may be given again
    #[arg(long, value_name = "TYPE", conflicts_with = "path")]
    kind: Vec<String>,
    /// Only the resources with this tag; may be given again
    #[arg(long, conflicts_with = "path")]
    tag: Vec<String>,
}

impl Filter {
    /// Leaves out what does not fit.
    pub(crate) fn apply(&self, subject: &mut Subject) {
        let Self { state, kind, tag } = self;
        if state.is_empty() && kind.is_empty() && tag.is_empty() {
            return;
        }
        let Subject::Engine(engine) = subject else { return };
        let mut tally = summary::tally(engine);
        if let Some(resources) = engine.workers.get_mut(RESOURCES)
            && let Some(Detail::Engine(resources)) = &mut resources.report
        {
            resources.workers.retain(|name, resource| {
                let known = tally.resources.get(&resource_name(name));
                let is_kind = || known.is_some_and(|known| kind.contains(&known.kind));
                let has_tag =
                    || known.is_some_and(|known| known.tags.iter().any(|it| tag.contains(it)));
                (state.is_empty() || state.contains(&Condition::of((name, resource), &tally)))
                    && (kind.is_empty() || is_kind())
                    && (tag.is_empty() || has_tag())
            });
            // Of what is not kept any more the type is known, and neither how it is nor its tags.
            tally.released.retain(|released| {
                state.is_empty() && tag.is_empty() && kind.contains(&released.kind)
            });
            let left: Vec<_> = resources.workers.keys().map(|name| resource_name(name)).collect();
            tally = reduced(tally, &left);
        }
        if let Some(worker) = engine.workers.get_mut(TALLY).filter(|worker| worker.report.is_some())
        {
            worker.report = Some(Detail::Value(json!(tally)));
        }
    }
}

/// Returns what a tally says of these resources.
fn reduced(mut tally: Tally, left: &[String]) -> Tally {
    let known = left.iter().filter_map(|name| tally.resources.remove_entry(name));
    let resources = known.collect();
    tally.resources = resources;
    tally
}
