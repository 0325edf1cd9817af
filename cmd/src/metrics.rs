//! The metrics of the resources that an agent keeps.

use std::time::UNIX_EPOCH;

use clap::ValueEnum;
use crankcase_resources::front::resource_name;
use crankcase_resources::report::ResourceTally;
use crankcase_status::MetricFamily;
use crankcase_status::wire::EngineReport;

use crate::print::summary::{self, Condition};

/// A counter of each resource.
struct Counter {
    name: &'static str,
    help: &'static str,
    count: fn(&ResourceTally) -> u64,
}

/// The counters of each resource since the agent keeps it.
const COUNTERS: [Counter; 5] = [
    Counter {
        name: "crankcase_resource_changes_total",
        help: "Changes of a resource; repairs and refreshes are some of them.",
        count: |fared| fared.changes,
    },
    Counter {
        name: "crankcase_resource_repairs_total",
        help: "Repairs of a resource that something else had changed.",
        count: |fared| fared.repairs,
    },
    Counter {
        name: "crankcase_resource_failures_total",
        help: "Failed looks and actions of a resource, and ends of its program by itself.",
        count: |fared| fared.failures,
    },
    Counter {
        name: "crankcase_resource_restarts_total",
        help: "Starts of a resource's program after its first one.",
        count: |fared| fared.restarts,
    },
    Counter {
        name: "crankcase_resource_looks_total",
        help: "Looks at a resource.",
        count: |fared| fared.looks,
    },
];

/// Returns the metrics of the resources that an agent keeps, by its report. Those that are not as
/// declared come first: of very many only the first have metrics of their own.
pub(crate) fn of_resources(report: &EngineReport) -> Vec<MetricFamily> {
    let Some(resources) = summary::resources(report) else { return Vec::new() };
    let tally = summary::tally(report);
    let workers = resources.workers.iter();
    let mut kept: Vec<_> = workers
        .map(|(name, worker)| (Condition::of((name, worker), &tally), resource_name(name)))
        .collect();
    kept.sort_by_key(|(condition, _)| *condition == Condition::AsDeclared);
    let mut as_declared = MetricFamily::gauge(
        "crankcase_resource_as_declared",
        "Whether a resource is as declared: 1 or 0.",
    );
    let mut changed_at = MetricFamily::gauge(
        "crankcase_resource_last_change_time_seconds",
        "When a resource was changed last, in seconds since 1970.",
    );
    let mut counters = COUNTERS.map(|Counter { name, help, .. }| MetricFamily::counter(name, help));
    for (condition, name) in &kept {
        let fared = tally.resources.get(name);
        let labels = [("resource", &**name), ("type", fared.map_or("", |fared| &*fared.kind))];
        as_declared.add(&labels, f64::from(*condition == Condition::AsDeclared));
        let Some(fared) = fared else { continue };
        for (counter, family) in COUNTERS.iter().zip(&mut counters) {
            family.add(&labels, (counter.count)(fared) as f64);
        }
        if let Some(seconds) = fared.last_change.as_deref().and_then(seconds) {
            changed_at.add(&labels, seconds);
        }
    }
    let families = [by_condition(&kept), as_declared, changed_at];
    families.into_iter().chain(counters).collect()
}

/// Returns how many resources there are of each condition.
fn by_condition(kept: &[(Condition, String)]) -> MetricFamily {
    let mut family = MetricFamily::gauge("crankcase_resources", "Resources, by how they are.");
    for condition in Condition::value_variants() {
        let count = kept.iter().filter(|(one, _)| one == condition).count();
        let condition = condition.words().replace(' ', "_");
        family.add(&[("condition", &*condition)], count as f64);
    }
    family
}

/// Returns an instant in RFC 3339 as seconds since 1970.
fn seconds(at: &str) -> Option<f64> {
    let at = humantime::parse_rfc3339(at).ok()?;
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64())
}
