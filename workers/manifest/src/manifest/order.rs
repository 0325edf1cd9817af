//! The order of the resources that are declared, with their parts and with automatic edges.
//!
//! Automatic edges come of claims, so these are settled first. A resource whose claim is in conflict because of facts
//! goes back to what it claimed in the site before. That may be in conflict too, so all are looked at again. It comes
//! to an end, because no resource goes back twice.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::Declaration;
use crankcase_resources::front::connect as connect_automatically;
use crankcase_resources::front::{Dependency, Order, OrderError, circle};

use crate::manifest::before::IfFactsAreWrong;
use crate::manifest::fact_circle::FactCircle;
use crate::manifest::kept;
use crate::manifest::placed::Placed;
use crate::manifest::problem::{Hint, Problems, quoted};
use crate::manifest::resource::Unsure;

/// Orders the resources. Reports resources that keep the same thing or have the same name.
pub(crate) fn in_order(
    (declarations, placed): (&mut [Declaration], &mut [Placed]),
    (connects, if_wrong, state): (bool, IfFactsAreWrong<'_>, Option<&Path>),
    problems: &mut Problems,
) -> Order {
    loop {
        let site = (&*declarations, &*placed);
        let wrong = kept::check_kept(site, (state, if_wrong), problems);
        if wrong.is_empty() {
            break;
        }
        // A wrong resource takes its earlier claims again, and another resource may claim the same
        // now.
        for (node, why) in wrong {
            make_unsure(&mut declarations[node], &mut placed[node], why, if_wrong);
        }
    }
    if connects {
        connect_automatically(declarations);
    }
    Order::new(declarations).unwrap_or_else(|error| {
        tell(&error, declarations, placed, problems);
        Order::default()
    })
}

/// Reports why there is no order, unless that was reported when the resources were linked.
fn tell(
    error: &OrderError,
    declarations: &[Declaration],
    placed: &[Placed],
    problems: &mut Problems,
) {
    let last = |name: &String| declarations.iter().rposition(|it| it.name == *name);
    match error {
        OrderError::Duplicate { name } => {
            if let Some(second) = last(name) {
                tell_twice(name, &placed[second], problems);
            }
        }
        // All written names were looked up, but a part may be kept as it was in the site before.
        OrderError::Unknown { name, .. } if problems.count() == 0 => {
            if let Some(Placed { template, offset, .. }) = last(name).map(|user| &placed[user]) {
                problems.with_hint(&template.source, *offset, error, Hint::of(name));
            }
        }
        OrderError::Cycle { path } => {
            let nodes: Vec<usize> = path.iter().filter_map(last).collect();
            let templates = nodes.iter().map(|node| Arc::as_ptr(&placed[*node].template));
            // A circle of several resources was found when they were linked.
            if templates.collect::<HashSet<_>>().len() == 1 || problems.count() == 0 {
                tell_circle(&nodes, declarations, placed, problems);
            }
        }
        _ => {}
    }
}

/// Reports a circle of parts of one resource, which come after each other by way of a fact.
fn tell_circle(
    nodes: &[usize],
    declarations: &[Declaration],
    placed: &[Placed],
    problems: &mut Problems,
) {
    let by_fact = nodes.windows(2).find_map(|pair| {
        let (user, keeper) = (&declarations[pair[0]], &declarations[pair[1]].name);
        let mut used = user.dependencies.iter().filter(|used| used.resource == *keeper);
        Some((user, used.find_map(Dependency::fact)?))
    });
    let path: Vec<&str> = nodes.iter().map(|node| declarations[*node].name.as_str()).collect();
    let Placed { template, offset, .. } = &placed[nodes[0]];
    let (source, offset) = (&template.source, *offset);
    match by_fact {
        Some((user, pointer)) => {
            let (user, used_at) = (&user.name, user.place.clone());
            FactCircle { path, pointer, user, used_at, source, offset }.tell(problems);
        }
        None => problems.at(source, offset, format!("circular dependency: {}", circle(&path))),
    }
}

/// Makes a resource keep what it kept in the site before, because its present claims are not known.
fn make_unsure(
    declaration: &mut Declaration,
    placed: &mut Placed,
    why: Unsure,
    if_wrong: IfFactsAreWrong<'_>,
) {
    placed.template = Arc::new(placed.template.but_unsure(why));
    declaration.config = Arc::clone(&placed.template) as _;
    declaration.claims.clear();
    // The things that it has kept are neither released nor put back.
    declaration.is_unsure = true;
    declaration.is_claimed = false;
    if let Some(before) = if_wrong.before() {
        before.keep(declaration, placed);
    }
}

/// Reports that a part has the name of another resource.
fn tell_twice(name: &str, second: &Placed, problems: &mut Problems) {
    let message = format!("{} is also the name of a part of a resource", quoted(name));
    problems.with_hint(&second.template.source, second.offset, message, Hint::of(name));
}
