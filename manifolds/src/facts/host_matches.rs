//! Compares a host with its declaration in the facts.

use std::future::pending;
use std::time::Duration;

use crankcase_engine::{Health, Latest, Manifold, Name, Outcome, Stop, Worker};
use crankcase_facts::{Pointer, Snapshot, Tree, disagreements, effective};
use crankcase_manifest::Host;
use serde_json::Value;
use tokio::time::sleep;

/// How often the host is looked at.
const EVERY: Duration = Duration::from_secs(60);

/// The most disagreements that the health lists; it counts the rest.
const MOST: usize = 20;

/// Returns a manifold whose worker is degraded while the host differs from its declaration in the facts, for example
/// while a declared drive is missing. The health lists the differences.
///
/// The declaration is at `path`, with the layers of the host, in the shape of `host` in expressions. What is not
/// declared is not compared. The worker looks at the host once a minute, and when the declaration has changed.
pub fn host_matches(facts: &Name<Snapshot>, path: Pointer, host: Host) -> Manifold {
    let name = host.read()["name"].as_str().map(str::to_owned);
    let at = path.clone();
    let declared =
        facts.select(move |snapshot| effective(snapshot.facts(), name.as_deref()).at(&at));
    Manifold::builder()
        .inputs(declared.live().required())
        .start_with((path, host), |(path, host), declared, ctx| async move {
            Ok(Matching { path, host, declared, health: ctx.health() })
        })
        .build()
}

struct Matching {
    path: Pointer,
    host: Host,
    declared: Latest<Option<Tree>>,
    health: Health,
}

impl Worker for Matching {
    async fn run(mut self, stop: Stop) -> Outcome {
        loop {
            self.look(&stop).await;
            tokio::select! {
                biased;
                () = stop.wait() => return Ok(()),
                changed = self.declared.changed() => if changed.is_err() {
                    // The engine ends.
                    pending::<()>().await;
                },
                () = sleep(EVERY) => {}
            }
        }
    }
}

impl Matching {
    async fn look(&self, stop: &Stop) {
        let declared = self.declared.get().map_or(Value::Null, |tree| tree.to_value());
        if declared.is_null() {
            return self.health.good();
        }
        let host = self.host.clone();
        // The look has failed, so there is nothing to compare.
        let Ok(found) = stop.blocking(move || host.read()).await else { return };
        let all = disagreements(&declared, &found);
        if all.is_empty() {
            return self.health.good();
        }
        let told = all.iter().take(MOST).map(|it| {
            let path = it.path.below(&self.path);
            crankcase_facts::Disagreement { path, ..it.clone() }.to_string()
        });
        let told = told.collect::<Vec<_>>().join("; ");
        let more = match all.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        self.health.degraded(format!("the host is not as its facts say: {told}{more}"));
    }
}
