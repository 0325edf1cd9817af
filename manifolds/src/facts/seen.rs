//! The facts that the expressions of a site see on a host.

use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_facts::{Degraded, Facts, Layer, Pointer, Snapshot, effective, explain};
use crankcase_manifest::{SeenFacts, SeenLayer, SiteFacts, SiteJudge};

use crate::facts::answering::Judge;

/// Returns the `facts` of the expressions of a site: the facts that a host sees, with its layers.
pub fn seen(facts: Facts, host: Option<String>) -> Arc<dyn SiteFacts> {
    Arc::new(OfHost { facts, host })
}

/// Returns what says which resources of a site facts degrade, on a host.
pub fn judge(site: SiteJudge, host: Option<String>) -> Judge {
    Arc::new(move |before, after| {
        let seen = |facts: &Snapshot| seen_in(facts, host.as_deref());
        let wrong = site.wrong_after(|| seen(before), &seen(after));
        wrong.into_iter().map(|it| Degraded { name: it.resource, message: it.problem }).collect()
    })
}

/// Returns what expressions see of facts on a host.
fn seen_in(snapshot: &Snapshot, host: Option<&str>) -> SeenFacts {
    let facts = effective(snapshot.facts(), host);
    let secrets = snapshot.schemas().secret_paths(&facts);
    // The first ones are the facts of the site, below all layers.
    let layers = explain(snapshot.facts(), host, &Pointer::root()).into_iter().skip(1);
    let names = |path: Pointer| path.segments().map(str::to_owned).collect();
    SeenFacts {
        revision: snapshot.revision(),
        value: Arc::new(facts.to_value()),
        secrets: secrets.into_iter().map(names).collect(),
        layers: layers.map(seen_layer).collect(),
    }
}

fn seen_layer(layer: Layer) -> SeenLayer {
    let facts = layer.facts.unwrap_or_default();
    SeenLayer { pointer: layer.at.to_string(), facts: Arc::new(facts.to_value()) }
}

#[derive(Debug)]
struct OfHost {
    facts: Facts,
    host: Option<String>,
}

#[async_trait]
impl SiteFacts for OfHost {
    fn current(&self) -> SeenFacts {
        seen_in(&self.facts.current(), self.host.as_deref())
    }

    async fn changed(&self, revision: u64) {
        let mut facts = self.facts.follow();
        if facts.wait_for(|facts| facts.revision() != revision).await.is_err() {
            pending::<()>().await;
        }
    }
}
