//! The boot of an agent, from the first starts in its report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::wire::{Detail, EngineReport, StartReport, WaitedFor, WorkerReport};

/// The boot is over when everything that was installed is up, and nothing more is installed for so long.
const QUIET: Duration = Duration::from_secs(1);

/// The boot of an agent: how each worker came up for the first time.
///
/// All times are measured by the engine, in seconds since the first worker was installed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Boot {
    /// The path of the agent's engine.
    pub path: String,
    /// When the last essential worker was up; `None` while one is not, or if there is none.
    pub up_after: Option<f64>,
    /// The critical path, last worker first: each step waited for the next one. It leads to the essential worker
    /// that was up last.
    pub critical: Vec<BootStep>,
    /// The workers that have come up in the boot, in the order in which they were up.
    pub workers: Vec<BootStep>,
    /// The workers that are not up and never were.
    pub not_up: Vec<NotUp>,
}

/// The first start of one worker.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BootStep {
    /// The worker's path.
    pub path: String,
    /// Whether the engine's health depends on it.
    pub is_essential: bool,
    /// Which of its starts was the first to come up.
    pub generation: u32,
    /// When it was installed.
    pub installed: f64,
    /// When nothing held back its start any more.
    pub ready: f64,
    /// When the engine began its start.
    pub begun: f64,
    /// When it was up.
    pub up: f64,
    /// How many attempts of its own had failed by then.
    pub failed_attempts: u32,
    /// What it waited for last.
    pub waited_for: WaitedFor,
    /// The path of the worker that it waited for last: an input, or the worker whose engine it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl BootStep {
    /// Returns how long its start took.
    pub fn took(&self) -> Duration {
        Duration::from_secs_f64((self.up - self.begun).max(0.0))
    }
}

/// A worker that was never up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct NotUp {
    /// The chain to the root cause in words; none if the agent was not asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The worker's path.
    pub path: String,
    /// What it is doing, as a word.
    pub state: String,
    /// Whether the engine's health depends on it.
    pub is_essential: bool,
    /// Why it is degraded, or its last error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One worker of a report that was started or is to be started, with its times.
struct Timed<'a> {
    worker: &'a WorkerReport,
    /// The worker whose engine it is in.
    outer: Option<&'a str>,
    installed: SystemTime,
    start: Option<(&'a StartReport, [SystemTime; 3])>,
}

impl Boot {
    /// Finds the boot in a report of a whole agent.
    ///
    /// A worker that was installed after the boot, by hand or by a reload, is not in it: the boot is over when
    /// everything that was installed until then is up, except what has failed and what waits for that, and nothing
    /// more is installed for a second. What was started by hand later, and what waited for that, is in `workers`, and
    /// not on the critical path.
    pub fn of(report: &EngineReport) -> Self {
        let mut all = Vec::new();
        collect(report, None, &mut all);
        all.sort_by_key(Timed::ready);
        let began = all.iter().map(|timed| timed.installed).min().unwrap_or(SystemTime::UNIX_EPOCH);
        let mut end = began;
        let is_after = |at: SystemTime, end| at.duration_since(end).is_ok_and(|gap| gap > QUIET);
        let mut by_hand = BTreeSet::new();
        let (mut workers, mut not_up) = (Vec::new(), Vec::new());
        for timed in all.iter().filter(|timed| timed.start.is_some()) {
            let Some((start, [ready, _, up])) = &timed.start else { continue };
            // A worker that has failed may be mended much later: the boot does not wait for it.
            let is_plain = start.generation == 1 && start.failed_attempts == 0;
            if is_plain && !is_after(*ready, end) {
                end = end.max(*up);
            }
            if is_after(timed.installed, end) {
                continue;
            }
            let Some(step) = timed.step(began) else { continue };
            let was_called =
                start.waited_for == WaitedFor::Call && is_after(*ready, timed.installed);
            let after = step.after.as_ref();
            if was_called || after.is_some_and(|after| by_hand.contains(after)) {
                by_hand.insert(step.path.clone());
            }
            workers.push(step);
        }
        for timed in all.iter().filter(|timed| timed.start.is_none()) {
            if !is_after(timed.installed, end) {
                not_up.push(timed.not_up());
            }
        }
        workers.sort_by(|a, b| a.up.total_cmp(&b.up));
        let in_time = || workers.iter().rev().filter(|step| !by_hand.contains(&step.path));
        let last = in_time().find(|step| step.is_essential);
        let critical = last.or(in_time().next()).map_or_else(Vec::new, |it| chain(&workers, it));
        let is_up = !not_up.iter().any(|worker| worker.is_essential);
        let up_after = last.map(|last| last.up).filter(|_| is_up);
        Self { path: report.path.clone(), up_after, critical, workers, not_up }
    }

    /// Says in words when all that is essential was up.
    pub fn summary(&self) -> String {
        let essential = self.workers.iter().filter(|step| step.is_essential).count();
        let is_any = essential > 0 || self.not_up.iter().any(|worker| worker.is_essential);
        match self.up_after {
            Some(after) => {
                let after = seconds(after);
                format!("all that is essential was up after {after}: {essential} workers")
            }
            None if is_any => "not all that is essential is up".to_owned(),
            None => "no worker is essential".to_owned(),
        }
    }

    /// Returns the chain of one worker: each step waited for the next one. Empty if the worker has not come up in
    /// the boot.
    pub fn chain(&self, path: &str) -> Vec<BootStep> {
        let found = self.workers.iter().find(|step| step.path == path);
        found.map_or_else(Vec::new, |step| chain(&self.workers, step))
    }
}

/// Returns a time in seconds, or in milliseconds if it is below a second.
pub fn seconds(seconds: f64) -> String {
    match Duration::from_secs_f64(seconds.max(0.0)) {
        long if long >= Duration::from_secs(1) => format!("{:.3}s", long.as_secs_f64()),
        short => format!("{:.1}ms", short.as_secs_f64() * 1000.0),
    }
}

/// Returns the steps from a worker to the one that came up without waiting for another.
fn chain(workers: &[BootStep], last: &BootStep) -> Vec<BootStep> {
    let by_path: BTreeMap<&str, &BootStep> =
        workers.iter().map(|step| (step.path.as_str(), step)).collect();
    let mut steps = vec![last.clone()];
    while let Some(step) = steps.last()
        && let Some(after) = step.after.as_deref().and_then(|after| by_path.get(after))
        // A worker that is on the way already would lead in a circle.
        && !steps.iter().any(|step| step.path == after.path)
    {
        steps.push((*after).clone());
    }
    steps
}

/// Collects the workers of an engine and of those in it.
fn collect<'a>(engine: &'a EngineReport, outer: Option<&'a str>, all: &mut Vec<Timed<'a>>) {
    for worker in engine.workers.values() {
        let installed = worker.installed.as_deref().and_then(read);
        let start = worker.first_start.as_ref().or(worker.last_start.as_ref());
        let start = start.and_then(|start| {
            let up = start.up.as_deref()?;
            Some((start, [read(&start.ready)?, read(&start.begun)?, read(up)?]))
        });
        if let Some(installed) = installed {
            all.push(Timed { worker, outer, installed, start });
        }
        if let Some(Detail::Engine(nested)) = &worker.report {
            collect(nested, Some(&worker.path), all);
        }
    }
}

fn read(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}

impl Timed<'_> {
    /// Returns when nothing held back its start; of one that was never up, when it was installed.
    fn ready(&self) -> SystemTime {
        self.start.map_or(self.installed, |(_, [ready, ..])| ready)
    }

    fn step(&self, began: SystemTime) -> Option<BootStep> {
        let (start, [ready, begun, up]) = &self.start?;
        let since = |at: &SystemTime| {
            at.duration_since(began).map_or(0.0, |since: Duration| since.as_secs_f64())
        };
        let path = &self.worker.path;
        let after = match &start.waited_for {
            WaitedFor::Input(name) => path.rsplit_once('/').map(|(of, _)| format!("{of}/{name}")),
            // It was installed when its engine was there.
            WaitedFor::Call => self.outer.map(str::to_owned),
            _ => None,
        };
        Some(BootStep {
            path: path.clone(),
            is_essential: self.worker.is_essential,
            generation: start.generation,
            installed: since(&self.installed),
            ready: since(ready),
            begun: since(begun),
            up: since(up),
            failed_attempts: start.failed_attempts,
            waited_for: start.waited_for.clone(),
            after,
        })
    }

    fn not_up(&self) -> NotUp {
        let WorkerReport { path, state, is_essential, degraded, error, .. } = self.worker;
        let error = error.as_ref().map(|error| error.text.clone());
        NotUp {
            why: None,
            path: path.clone(),
            state: state.to_string(),
            is_essential: *is_essential,
            error: degraded.clone().or(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Boot;
    use crate::wire::EngineReport;

    /// Returns a worker that was installed, ready, begun and up at these seconds.
    fn worker(path: &str, waited_for: Value, [installed, ready, begun, up]: [f64; 4]) -> Value {
        let at = |seconds: f64| format!("2026-01-01T00:00:{seconds:09.6}Z");
        json!({
            "path": path, "state": "running", "generation": 1, "starts": 1, "failures": 0,
            "is_essential": true, "installed": at(installed),
            "last_start": {"generation": 1, "ready": at(ready), "waited_for": waited_for,
                           "begun": at(begun), "up": at(up)},
        })
    }

    fn boot(workers: Value) -> Result<Boot, serde_json::Error> {
        let report = json!({"path": "/a", "state": "running", "is_healthy": true, "at": "",
                            "workers": workers});
        Ok(Boot::of(&serde_json::from_value::<EngineReport>(report)?))
    }

    #[test]
    fn the_critical_path_leads_to_what_was_up_last() -> Result<(), Box<dyn std::error::Error>> {
        let mut site = worker("/a/site", json!({"input": "config"}), [0.0, 2.0, 2.0, 2.5]);
        site["report"] = json!({"path": "/a/site", "state": "running", "is_healthy": true, "at": "",
            "workers": {"page": worker("/a/site/page", json!("call"), [2.5, 2.5, 2.6, 4.0])}});
        let mut mended = worker("/a/mended", json!("call"), [0.0, 0.0, 0.0, 30.0]);
        (mended["is_essential"], mended["last_start"]["failed_attempts"]) =
            (json!(false), json!(3));
        let boot = boot(json!({
            "config": worker("/a/config", json!("call"), [0.0, 0.0, 0.5, 2.0]),
            "quick": worker("/a/quick", json!("call"), [0.0, 0.0, 0.0, 0.1]),
            "site": site,
            "reloaded": worker("/a/reloaded", json!("call"), [9.0, 9.0, 9.0, 9.5]),
            "mended": mended,
        }))?;

        assert_eq!(boot.up_after, Some(4.0));
        let critical: Vec<_> = boot.critical.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(critical, ["/a/site/page", "/a/site", "/a/config"]);
        assert_eq!(boot.critical[2].took().as_millis(), 1_500);
        assert_eq!(boot.workers.len(), 5, "what came later is not of the boot");
        let chain: Vec<_> = boot.chain("/a/site").into_iter().map(|step| step.path).collect();
        assert_eq!(chain, ["/a/site", "/a/config"]);
        Ok(())
    }

    #[test]
    fn what_is_not_up_is_named_and_ends_no_boot() -> Result<(), Box<dyn std::error::Error>> {
        let mut down = worker("/a/down", json!("call"), [0.0, 0.0, 0.0, 0.0]);
        down["last_start"]["up"] = Value::Null;
        (down["state"], down["degraded"]) = (json!("starting"), json!("no disk"));

        let boot = boot(json!({"down": down, "up": worker("/a/up", json!("call"), [0.0; 4])}))?;

        assert_eq!((boot.up_after, boot.not_up.len()), (None, 1));
        assert_eq!(boot.not_up[0].error.as_deref(), Some("no disk"));
        Ok(())
    }

    #[test]
    fn what_is_started_by_hand_or_mended_later_is_not_the_boot()
    -> Result<(), Box<dyn std::error::Error>> {
        let mut license = worker("/a/license", json!("call"), [0.0, 0.0, 0.0, 40.0]);
        (license["is_essential"], license["last_start"]["failed_attempts"]) =
            (json!(false), json!(5));
        let mut banner = worker("/a/banner", json!({"input": "license"}), [0.0, 40.0, 40.0, 41.0]);
        banner["is_essential"] = json!(false);
        let boot = boot(json!({
            "config": worker("/a/config", json!("call"), [0.0, 0.0, 0.0, 2.0]),
            "license": license,
            "banner": banner,
            "unparked": worker("/a/unparked", json!("call"), [0.0, 50.0, 50.0, 51.0]),
            "its_user": worker("/a/its_user", json!({"input": "unparked"}), [0.0, 51.0, 51.0, 52.0]),
            // While the license was missing.
            "reloaded": worker("/a/reloaded", json!("call"), [20.0, 20.0, 20.0, 20.5]),
        }))?;

        assert_eq!(boot.up_after, Some(2.0));
        assert_eq!(boot.critical.len(), 1);
        let paths: Vec<_> = boot.workers.iter().map(|step| step.path.as_str()).collect();
        assert_eq!(paths, ["/a/config", "/a/license", "/a/banner", "/a/unparked", "/a/its_user"]);
        Ok(())
    }

    #[test]
    fn without_an_essential_worker_none_is_up() -> Result<(), Box<dyn std::error::Error>> {
        let mut only = worker("/a/only", json!("call"), [0.0, 0.0, 0.0, 1.0]);
        only["is_essential"] = json!(false);

        let boot = boot(json!({"only": only}))?;

        assert_eq!((boot.up_after, boot.critical.len()), (None, 1));
        Ok(())
    }

    #[test]
    fn an_agent_without_workers_has_an_empty_boot() -> Result<(), Box<dyn std::error::Error>> {
        let boot = boot(json!({}))?;

        assert_eq!((boot.up_after, boot.critical.len(), boot.workers.len()), (None, 0, 0));
        Ok(())
    }
}
