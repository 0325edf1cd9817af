//! The attributes of configs that come of secrets.
//!
//! A secret reaches a config through variables, facts and the states of other resources. So the resources are looked at
//! in their order: the secrets in the state of a resource are known before its dependents are looked at. An attribute
//! that other users of the machine see takes a secret only if the resource asks for that secret by name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crankcase_resources::dynamic::Kind;
use crankcase_resources::front::Order;

use crate::manifest::alias::secrets_of;
use crate::manifest::judging::Judging;
use crate::manifest::kept_facts::VALUE;
use crate::manifest::links::Links;
use crate::manifest::node::Node;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Draft;

/// Finds the attributes that come of secrets, and refuses secrets on command lines that are not asked for there
/// by name.
pub(crate) fn hide(
    (drafts, links): (&mut [Draft], &mut [Links]),
    order: &Order,
    kinds: &impl Judging,
    problems: &mut Problems,
) {
    // A resource comes after those that it uses. A circle is refused anyway.
    let in_files: Vec<usize> = (0..drafts.len()).collect();
    let has_order = order.nodes().len() == drafts.len();
    let mut secrets_of: HashMap<String, Arc<[Vec<String>]>> = HashMap::new();
    // The first resource of a `for_each` stands for all.
    let mut told = HashSet::new();
    for node in if has_order { order.nodes() } else { &in_files } {
        let (draft, links) = (&mut drafts[*node], &mut links[*node]);
        links.note_secrets(&secrets_of);
        let kind = kinds.kind(&draft.kind);
        let mut ignored = Problems::default();
        let is_first = told.insert((Arc::as_ptr(&draft.source), draft.offset));
        let problems = if is_first { &mut *problems } else { &mut ignored };
        draft.hidden = hidden(draft, links, kind, problems).into();
        let secrets = kind.map(|kind| kind.state_secrets(&draft.hidden)).unwrap_or_default();
        if !secrets.is_empty() {
            secrets_of.insert(draft.name.clone(), secrets.into());
        }
        if holds_secrets(draft, kind) {
            // Only its kind knows into which part a secret goes.
            let of_part: Arc<[Vec<String>]> = [vec![VALUE.to_owned()]].into();
            let parts = links.parts.keys();
            secrets_of.extend(parts.map(|part| (part.clone(), Arc::clone(&of_part))));
            links.note_secrets(&secrets_of);
        }
    }
}

/// Returns whether a config has secrets.
fn holds_secrets(draft: &Draft, kind: Option<&dyn Kind>) -> bool {
    let is_sensitive = |attribute: &String| {
        kind.and_then(|kind| kind.table().get(attribute)).is_some_and(|it| it.is_sensitive)
    };
    !draft.hidden.is_empty() || draft.config.keys().any(is_sensitive)
}

/// Returns the attributes of a config that come of secrets, and reports those that must not.
fn hidden(
    draft: &Draft,
    links: &Links,
    kind: Option<&dyn Kind>,
    problems: &mut Problems,
) -> BTreeSet<String> {
    let (mut hidden, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (attribute, used) in &*draft.uses {
        let mut secrets = secrets_of(&links.aliases, used);
        secrets.extend(used.secrets.iter().cloned().chain(links.secret_facts(used)));
        if secrets.is_empty() {
            continue;
        }
        hidden.insert(attribute.clone());
        let parameter = kind.and_then(|kind| kind.table().get(attribute));
        let entry = draft.config.get(attribute);
        if let Some(entry) = entry.filter(|_| parameter.is_some_and(|it| it.is_exposed)) {
            check_exposed(draft, &entry.value, &secrets, problems);
        }
        all.extend(secrets);
    }
    for (offset, name) in draft.exposes.iter().filter(|(_, name)| !all.contains(name)) {
        let message = format!("the config uses no secret {}", quoted(name));
        let hint = problems.nearest(name, all.iter().map(String::as_str));
        problems.with_hint(&draft.source, *offset, message, hint);
    }
    hidden
}

/// Refuses secrets on a command line that are not asked for there by name.
fn check_exposed(draft: &Draft, value: &Node, secrets: &BTreeSet<String>, problems: &mut Problems) {
    let is_asked_for = |name: &String| draft.exposes.iter().any(|(_, exposed)| exposed == name);
    for name in secrets.iter().filter(|name| !is_asked_for(name)) {
        let message =
            format!("the secret {name} would be on a command line, which all users can read");
        let help = format!(
            "hand it over in \"env\" or in a file, or ask for it: meta: {{exposes: [{name}]}}"
        );
        let hint = Hint::of(name).or(help);
        problems.with_hint(&draft.source, value.span.start, message, hint);
    }
}
