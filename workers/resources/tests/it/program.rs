//! A kind that only `run` would start.

use std::sync::Arc;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Config, Found, Kind, Unit};
use crankcase_resources::{AttributeError, BoxError, Context};
use crankcase_workers::ProcessConfig;
use serde_json::json;

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
