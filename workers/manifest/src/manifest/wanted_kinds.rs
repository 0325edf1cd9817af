//! The kinds that a manifest wants and that are not known yet.
//!
//! A load makes them only if it has found nothing wrong so far, because a source of kinds may start programs. It asks
//! for all of them at once, together with what the manifest offers to them.

use std::collections::HashMap;

use crankcase_resources::front::{KindRequest, Plug, RequestError, WantedKind};
use indexmap::IndexMap;

use crate::manifest::document::Written;
use crate::manifest::judging::Judging;
use crate::manifest::problem::{Hint, Problems};
use crate::manifest::resource::Draft;

/// Makes the kinds that are not known yet, and reports each problem at the resource or plug that is
/// at fault.
pub(crate) fn make_kinds(
    kinds: &mut impl Judging,
    drafts: &[Draft],
    (plugs, offered): (&IndexMap<String, Written>, Vec<Plug>),
    problems: &mut Problems,
) {
    let mut unknown: Vec<&Draft> = drafts.iter().collect();
    unknown.retain(|draft| kinds.kind(&draft.kind).is_none());
    // The offers are also for the types of resources that have left the manifest.
    if kinds.source().is_none() || unknown.is_empty() && offered.is_empty() {
        return;
    }
    let kinds_of = drafts.iter().flat_map(|draft| {
        // A resource of a `for_each` also goes by the name of the whole `for_each`.
        let all = draft.name.split('[').next().unwrap_or_default();
        [(draft.name.as_str(), &draft.kind), (all, &draft.kind)]
    });
    let kinds_of: HashMap<&str, &String> = kinds_of.collect();
    let wanted = |draft: &&Draft| {
        let mut wish = WantedKind::new(&draft.kind, &draft.name, draft.source.folder());
        let used = draft.dependencies.iter().filter_map(|(_, used)| {
            let kind = kinds_of.get(used.resource.as_str())?;
            Some((used.alias.clone(), (*kind).clone()))
        });
        wish.dependencies = used.collect();
        wish.timeout = draft.meta.timeout;
        wish
    };
    let request = KindRequest::new(unknown.iter().map(wanted).collect(), offered);
    for (culprit, message) in kinds.make(&request) {
        let (source, offset, value) = match culprit {
            RequestError::Resource(at) | RequestError::Machine(at) => {
                (&unknown[at].source, unknown[at].offset, &unknown[at].kind)
            }
            RequestError::Plug(at) => match plugs.get_index(at) {
                Some((name, written)) => (&written.source, written.key.start, name),
                None => continue,
            },
        };
        if matches!(culprit, RequestError::Machine(_)) {
            problems.of_machine(source, offset, message, Hint::of(value));
        } else {
            problems.with_hint(source, offset, message, Hint::of(value));
        }
    }
}
