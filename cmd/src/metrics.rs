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

/// Returns the metrics of the resources that an agent keeps, by its report. Of very many only the
/// first have metrics of their own. In a gauge, those that are not as declared come first.
pub(crate) fn of_resources(report: &EngineReport) -> Vec<MetricFamily> {
    let Some(resources) = summary::resources(report) else { return Vec::new() };
    let tally = summary::tally(report);
    let workers = resources.workers.iter();
    let mut kept: Vec<_> = workers
        .map(|(name, worker)| (Condition::of((name, worker), &tally), resource_name(name)))
        .collect();
    let mut changed_at = MetricFamily::gauge(
        "crankcase_resource_last_change_time_seconds",
        "When a resource was changed last, in seconds since 1970.",
    );
    let mut counters = COUNTERS.map(|Counter { name, help, .. }| MetricFamily::counter(name, help));
    // By name: counters that came and went with the condition of a resource would have no rate.
    for (_, name) in &kept {
        let Some(fared) = tally.resources.get(name) else { continue };
        let labels = [("resource", &**name), ("type", &*fared.kind)];
        for (counter, family) in COUNTERS.iter().zip(&mut counters) {
            family.add(&labels, (counter.count)(fared) as f64);
        }
        if let Some(seconds) = fared.last_change.as_deref().and_then(seconds) {
            changed_at.add(&labels, seconds);
        }
    }
    kept.sort_by_key(|(condition, _)| *condition == Condition::AsDeclared);
    let mut as_declared = MetricFamily::gauge(
        "crankcase_resource_as_declared",
        "Whether a resource is as declared: 1 or 0.",
    );
    for (condition, name) in &kept {
        let kind = tally.resources.get(name).map_or("", |fared| &*fared.kind);
        let labels = [("resource", &**name), ("type", kind)];
        as_declared.add(&labels, f64::from(*condition == Condition::AsDeclared));
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use serde_json::{Map, Value, json};

    use super::of_resources;

    fn worker(path: &str, report: Value) -> Value {
        json!({"path": path, "state": "running", "generation": 1, "starts": 1, "failures": 0,
            "is_essential": true, "report": report})
    }

    fn engine(path: &str, workers: Map<String, Value>) -> Value {
        json!({"path": path, "state": "running", "is_healthy": true, "at": "then",
            "workers": workers})
    }

    /// Returns the metrics of 1,001 resources. The last one may be degraded.
    fn metrics_of_many(degraded: Option<&str>) -> Result<String, serde_json::Error> {
        let (mut resources, mut tally) = (Map::new(), Map::new());
        for number in 0..=1_000 {
            let name = format!("r{number:04}");
            resources.insert(name.clone(), worker(&name, Value::Null));
            tally.insert(name, json!({"type": "file"}));
        }
        resources["r1000"]["degraded"] = degraded.into();
        let resources = worker("/agent/resources", engine("/agent/resources", resources));
        let tally = worker("/agent/tally", json!({"resources": tally}));
        let mut workers = Map::new();
        workers.insert("resources".to_owned(), resources);
        workers.insert("tally".to_owned(), tally);
        let report = serde_json::from_value(engine("/agent", workers))?;
        Ok(of_resources(&report).iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_counters_of_a_large_site_stay_when_the_condition_of_a_resource_changes()
    -> Result<(), Box<dyn Error>> {
        let (well, degraded) = (metrics_of_many(None)?, metrics_of_many(Some("it is late"))?);

        let as_declared = "crankcase_resource_as_declared{resource=\"r1000\"";
        assert_eq!([&well, &degraded].map(|text| text.contains(as_declared)), [false, true]);
        let [before, after] = [&well, &degraded].map(|text| {
            let lines = text.lines();
            lines.filter(|line| line.contains("_changes_total{")).collect::<Vec<_>>()
        });
        assert_eq!(before.len(), 1_000);
        assert_eq!(before, after);
        Ok(())
    }
}
