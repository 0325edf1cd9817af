//! Metrics of an engine, as text in the format of Prometheus.

use std::fmt;
use std::time::UNIX_EPOCH;

use crankcase_engine::Engine;
use crankcase_workers::one_line;

use crate::wire::{Counts, EngineReport};

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How many samples of one family are written: whoever collects them pays for each.
const MAX_SAMPLES: usize = 1_000;

/// Makes families of metrics from a report, for what the engine does not know of its workers.
pub type MoreMetrics = fn(&EngineReport) -> Vec<MetricFamily>;

/// All samples of one metric. They differ in their labels.
///
/// A name has the prefix of its program and its unit at the end, and a counter `_total` after it.
/// Only the first 1,000 samples are kept. How many more there were is a metric of its own,
/// `crankcase_samples_left_out`.
///
/// # Examples
///
/// ```
/// use crankcase_status::MetricFamily;
///
/// let mut changes = MetricFamily::counter("site_changes_total", "Changes of a page.");
/// changes.add(&[("page", "say \"hi\"")], 3.0);
///
/// let expected = [
///     "# HELP site_changes_total Changes of a page.\n",
///     "# TYPE site_changes_total counter\n",
///     "site_changes_total{page=\"say \\\"hi\\\"\"} 3\n",
/// ];
/// assert_eq!(changes.to_string(), expected.concat());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricFamily {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
    count: usize,
}

impl MetricFamily {
    /// Returns a family of counters: they only grow until the agent is started again. `help` is
    /// one line.
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: "counter", help, samples: String::new(), count: 0 }
    }

    /// Returns a family of gauges: they go up and down. `help` is one line.
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { kind: "gauge", ..Self::counter(name, help) }
    }

    /// Adds a sample with its labels, as names with their values. What is unprintable in a value is
    /// escaped.
    pub fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.count += 1;
        if self.count > MAX_SAMPLES {
            return;
        }
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        self.samples.push_str(&format!("{}{labels} {value}\n", self.name));
    }

    /// Returns how many samples are not written.
    fn left_out(&self) -> usize {
        self.count.saturating_sub(MAX_SAMPLES)
    }
}

/// Writes the family. One without samples is nothing.
impl fmt::Display for MetricFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, help, samples, .. } = self;
        if samples.is_empty() {
            return Ok(());
        }
        write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
    }
}

/// Returns the value of a label as it is written.
fn escaped(value: &str) -> String {
    one_line(value).replace('\\', "\\\\").replace('"', "\\\"")
}

/// Returns the metrics of an engine, and more of what its report says.
pub(crate) async fn text(engine: &Engine, more: MoreMetrics) -> String {
    let report = EngineReport::from(engine.report().await);
    let mut families = of_engine(&report);
    let mut began = MetricFamily::gauge(
        "crankcase_start_time_seconds",
        "When the agent was started, in seconds since 1970.",
    );
    if let Ok(since) = engine.began().0.duration_since(UNIX_EPOCH) {
        began.add(&[], since.as_secs_f64());
    }
    families.push(began);
    families.extend(more(&report));
    text_of(families)
}

/// Returns families as one text, with how many samples it lacks.
fn text_of(mut families: Vec<MetricFamily>) -> String {
    let mut left_out = MetricFamily::gauge(
        "crankcase_samples_left_out",
        "Samples of a metric that are not written, because there are too many.",
    );
    for family in families.iter().filter(|family| family.left_out() > 0) {
        left_out.add(&[("metric", family.name)], family.left_out() as f64);
    }
    families.push(left_out);
    families.iter().map(ToString::to_string).collect()
}

/// Returns the metrics of an engine and of the engines in it. Only its own workers have metrics of
/// their own: an engine in it may have many thousands.
fn of_engine(report: &EngineReport) -> Vec<MetricFamily> {
    let mut families = [
        MetricFamily::gauge(
            "crankcase_engine_healthy",
            "Whether all essential workers of an engine run in good health: 1 or 0.",
        ),
        MetricFamily::gauge("crankcase_workers", "Workers of an engine, by their state."),
        MetricFamily::gauge(
            "crankcase_workers_in_trouble",
            "Workers of an engine that are degraded, failed or parked.",
        ),
    ];
    count(&Counts::of(report), &mut families);
    let mut starts =
        MetricFamily::counter("crankcase_worker_starts_total", "Starts of a worker of the agent.");
    let mut failures = MetricFamily::gauge(
        "crankcase_worker_failures_in_a_row",
        "Failures in a row of a worker of the agent.",
    );
    for worker in report.workers.values() {
        let labels = [("worker", &*worker.path)];
        starts.add(&labels, f64::from(worker.starts));
        failures.add(&labels, f64::from(worker.failures));
    }
    families.into_iter().chain([starts, failures]).collect()
}

/// Adds the counts of an engine, and of the engines in it.
fn count(counts: &Counts, families: &mut [MetricFamily; 3]) {
    let [healthy, workers, trouble] = &mut *families;
    let engine = ("engine", &*counts.path);
    healthy.add(&[engine], f64::from(counts.is_healthy));
    for (state, count) in &counts.states {
        workers.add(&[engine, ("state", state.as_str())], *count as f64);
    }
    trouble.add(&[engine], counts.trouble as f64);
    counts.engines.iter().for_each(|nested| count(nested, families));
}

#[cfg(test)]
mod tests {
    use super::{MAX_SAMPLES, MetricFamily, text_of};

    #[test]
    fn labels_are_escaped_and_stay_on_their_line() {
        let mut family = MetricFamily::gauge("a", "Help.");
        family.add(&[("x", "a\\b\"c\nd\u{202e}"), ("y", "")], 0.5);
        family.add(&[], 2.0);

        let expected =
            "# HELP a Help.\n# TYPE a gauge\na{x=\"a\\\\b\\\"c d\\\\u{202e}\",y=\"\"} 0.5\na 2\n";
        assert_eq!(family.to_string(), expected);
    }

    #[test]
    fn samples_beyond_the_bound_are_counted_and_no_family_is_empty() {
        let mut many = MetricFamily::counter("many_total", "Help.");
        for number in 0..MAX_SAMPLES + 7 {
            many.add(&[("number", number.to_string().as_str())], 1.0);
        }

        let text = text_of(vec![many, MetricFamily::gauge("none", "Help.")]);

        assert_eq!(text.matches("many_total{number=").count(), MAX_SAMPLES);
        assert!(text.ends_with("crankcase_samples_left_out{metric=\"many_total\"} 7\n"), "{text}");
        assert!(!text.contains("none"), "{text}");
    }
}
