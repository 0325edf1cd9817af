//! Resources that do as a test says.

use std::sync::Arc;

use crankcase_kinds::builtin;
use crankcase_resources::{AttributeError, Config, Kind, Kinds, Resource};

/// Returns the built-in kinds, and `double`, of which all resources are this one.
pub(crate) fn with_double(resource: impl Resource + 'static) -> Kinds {
    builtin().with(Arc::new(Double(Arc::new(resource))))
}

#[derive(Debug)]
struct Double(Arc<dyn Resource>);

impl Kind for Double {
    fn name(&self) -> &'static str {
        "double"
    }

    fn summary(&self) -> &'static str {
        "does as a test says"
    }

    fn validate(&self, _: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        Ok(Arc::clone(&self.0))
    }
}
