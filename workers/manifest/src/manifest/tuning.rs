//! How resources are kept, as far as the facts say.
//!
//! If the facts are wrong, each resource is kept as the manifest says. That is a warning, and refuses no manifest.

use std::collections::HashSet;

use crankcase_resources::{Declaration, Tunings};

use crate::facts::SeenFacts;
use crate::manifest::problem::quoted;

/// Where facts say how resources are kept.
pub(crate) const TUNINGS: [&str; 2] = ["agent", "resources"];

/// How many unknown names are told.
const TOLD: usize = 10;

/// Sets how resources are kept, as far as the facts say. Returns what they say wrongly, which then counts for nothing.
pub(crate) fn tune(
    declarations: &mut [Declaration],
    written: &HashSet<String>,
    facts: &SeenFacts,
) -> Vec<String> {
    let said = TUNINGS.iter().try_fold(&*facts.value, |value, name| value.get(name));
    let at = TUNINGS.join("/");
    match said.map_or_else(|| Ok(Tunings::default()), Tunings::read) {
        Ok(tunings) => {
            let names = declarations.iter().map(|it| &it.name).chain(written).map(String::as_str);
            let unknown = tunings.unknown(&names.collect());
            let names: Vec<_> = unknown.iter().take(TOLD).map(|name| quoted(name)).collect();
            let warnings = match unknown.len() {
                0 => Vec::new(),
                count => {
                    let more = count - names.len();
                    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                    let names = names.join(", ");
                    vec![format!("the facts at /{at}/by_name: there is no resource {names}{more}")]
                }
            };
            declarations.iter_mut().for_each(|it| tunings.tune(it));
            warnings
        }
        Err(error) => {
            let effect = "resources are kept as the manifest says";
            vec![format!("the facts at /{at} are wrong: {error}; {effect}")]
        }
    }
}
