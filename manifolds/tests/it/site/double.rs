//! Resources that do as a test says.

use std::sync::Arc;

use crankcase_kinds::builtin;
use crankcase_resources::dynamic::{Config, ConfigReport, Kind, KnownConfig, Unit};
use crankcase_resources::{AttributeError, Claimed, Kinds};

/// Returns the built-in kinds, and the kind `double`. Each resource of `double` is this unit.
pub(crate) fn with_double(unit: impl Unit + 'static) -> Kinds {
    with_kind("double", unit)
}

/// Returns the built-in kinds, and a kind with this name. Each resource of it is this unit.
pub(crate) fn with_kind(name: &'static str, unit: impl Unit + 'static) -> Kinds {
    with_kinds([(name, Arc::new(unit))])
}

/// Returns the built-in kinds, and a kind with each of these names. Each resource of it is the
/// unit beside its name.
pub(crate) fn with_kinds<const N: usize>(units: [(&'static str, Arc<dyn Unit>); N]) -> Kinds {
    let doubles = units.into_iter().map(|(name, unit)| Double { name, unit });
    doubles.fold(builtin(), Kinds::with)
}

#[derive(Debug)]
struct Double {
    name: &'static str,
    unit: Arc<dyn Unit>,
}

impl Kind for Double {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        "does as a test says"
    }

    fn is_grouping(&self) -> bool {
        true
    }

    fn can_reverse(&self) -> bool {
        true
    }

    fn judge(&self, _: &KnownConfig<'_>) -> ConfigReport {
        ConfigReport { claimed: Claimed::default(), ..ConfigReport::default() }
    }

    fn make(&self, _: &Config) -> Result<Arc<dyn Unit>, Vec<AttributeError>> {
        Ok(Arc::clone(&self.unit))
    }
}
