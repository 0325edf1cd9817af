//! A kind that only `run` would start, and the end of a program that was left behind.

use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, Found, Kind, Unit};
use crankcase_resources::state::{Keep, Record, Records};
use crankcase_resources::{AttributeError, BoxError, Context, Site};
use crankcase_workers::{Fate, Leftover, ProcessConfig};
use serde_json::json;

use crate::probe::probes;
use crate::support::TestResult;

/// The kind `program`, which only `run` would start.
#[derive(Debug)]
pub(crate) struct Program;

impl Kind for Program {
    fn name(&self) -> &'static str {
        "program"
    }

    fn summary(&self) -> &'static str {
        "keeps a program running"
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::new(Runs(ProcessConfig::new("program", vec!["true".into()]))))
    }

    fn is_supervised(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct Runs(ProcessConfig);

#[async_trait]
impl Unit for Runs {
    async fn check(&self, _: &Context) -> Result<Found, BoxError> {
        Ok(Found::Valid(json!({})))
    }

    fn program(&self) -> Option<&ProcessConfig> {
        Some(&self.0)
    }
}

#[test]
fn a_program_that_was_left_behind_has_an_event_also_if_its_resource_has_left() -> TestResult {
    let kinds = probes().0.with(Program);
    let site = Site::new(Vec::new(), kinds, String::new())?;
    let kept = [("web", "program"), ("page", "probe"), ("old", "unknown")];
    let records = Records::default();
    records.push(kept.map(|(resource, kind)| {
        let keep = Keep { kind: kind.to_owned(), thing: resource.to_owned() };
        Record::Kept { resource: resource.into(), keep }
    }));
    let ended = |name: &str| {
        let leftover = Leftover { name: name.to_owned(), pid: Some(7), fate: Fate::Ended };
        site.left_behind(&leftover, &records)
    };

    let event = ended("web").ok_or("it has no event")?;

    assert_eq!((&*event.resource, &*event.kind, event.pid), ("web", "program", Some(7)));
    // What is left of another resource is a command.
    for name in ["page", "old", "never"] {
        assert_eq!(ended(name), None, "{name}");
    }
    Ok(())
}
