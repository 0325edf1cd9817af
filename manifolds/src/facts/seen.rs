use std::future::pending;
use std::sync::Arc;

use async_trait::async_trait;
use crankcase_facts::{Facts, Pointer, effective};
use crankcase_manifest::{SeenFacts, SiteFacts};

/// Returns the `facts` of the expressions of a site: the facts that a host sees, with its layers.
pub fn seen(facts: Facts, host: Option<String>) -> Arc<dyn SiteFacts> {
    Arc::new(OfHost { facts, host })
}

#[derive(Debug)]
struct OfHost {
    facts: Facts,
    host: Option<String>,
}

#[async_trait]
impl SiteFacts for OfHost {
    fn current(&self) -> SeenFacts {
        let current = self.facts.current();
        let facts = effective(current.facts(), self.host.as_deref());
        let secrets = current.schemas().secret_paths(&facts);
        let names = |path: Pointer| path.segments().map(str::to_owned).collect();
        SeenFacts {
            revision: current.revision(),
            value: Arc::new(facts.to_value()),
            secrets: secrets.into_iter().map(names).collect(),
        }
    }

    async fn changed(&self, revision: u64) {
        let mut facts = self.facts.follow();
        if facts.wait_for(|facts| facts.revision() != revision).await.is_err() {
            pending::<()>().await;
        }
    }
}
