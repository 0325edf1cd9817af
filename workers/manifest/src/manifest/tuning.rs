//! How resources are kept, as far as the facts say.
//!
//! If the facts are wrong, each resource is kept as the manifest says. That is a warning, and refuses no manifest.

use std::collections::HashSet;

use crankcase_resources::Declaration;
use crankcase_resources::front::Tunings;
use crankcase_workers::name_first;

use crate::facts::SeenFacts;
use crate::manifest::problem::quoted;
use crate::manifest::vars::Outside;

/// The path of the facts that say how resources are kept.
pub(crate) const TUNINGS: [&str; 2] = ["agent", "resources"];

/// The most unknown names that a warning lists.
const TOLD: usize = 10;

/// Sets how resources are kept, by the settings from outside and by the facts. Returns the faults
/// of these facts; wrong facts set nothing.
pub(crate) fn tune(
    declarations: &mut [Declaration],
    written: &HashSet<String>,
    Outside { overrides, facts, .. }: &Outside<'_>,
) -> Vec<String> {
    let warnings = tune_by(facts, declarations, written);
    declarations.iter_mut().for_each(|declared| declared.noop |= overrides.noop);
    warnings
}

/// Sets how resources are kept, by the facts.
fn tune_by(
    facts: &SeenFacts,
    declarations: &mut [Declaration],
    written: &HashSet<String>,
) -> Vec<String> {
    let said = TUNINGS.iter().try_fold(&*facts.value, |value, name| value.get(name));
    let at = TUNINGS.join("/");
    match said.map_or_else(|| Ok(Tunings::default()), Tunings::read) {
        Ok(tunings) => {
            let names = declarations.iter().map(|it| &it.name).chain(written).map(String::as_str);
            let unknown = tunings.unknown(&names.collect());
            let warning = (!unknown.is_empty()).then(|| {
                let names = name_first(TOLD, unknown.iter().map(|name| quoted(name)));
                format!("the facts at /{at}/by_name: there is no resource {names}")
            });
            declarations.iter_mut().for_each(|it| tunings.tune(it));
            warning.into_iter().collect()
        }
        Err(error) => {
            let effect = "resources are kept as the manifest says";
            vec![format!("the facts at /{at} are wrong: {error}; {effect}")]
        }
    }
}
