//! The actions of an apply that come before all others.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kind::foresight::Foresight;
use crate::modes::pass::Pass;
use crate::modes::pass::visit::{LeftOpen, PassVisit};
use crate::report::account::Outcome;
use crate::report::progress::Progress;
use crate::visit::Visit;
use crate::visit::announcement::Announcement;
use crate::visit::opened::Opened;

/// Runs the shutdown-first actions of the configs that are known before the first action, one
/// after another and dependents first. Returns the visits that have begun so, by their nodes.
///
/// What a resource uses is not shut down if the resource could not be.
pub(super) async fn shut_down(pass: &Pass<'_>, progress: &Progress) -> BTreeMap<usize, Visit> {
    let Pass { order, declarations, setting, gatekeeper, .. } = pass;
    let mut priors = BTreeMap::new();
    let is_needed = declarations.iter().any(|declaration| {
        let kind = setting.kinds.get(&declaration.kind);
        declaration.stops_first || kind.is_ok_and(|kind| kind.stops_first())
    });
    if !is_needed {
        return priors;
    }
    let open = Arc::new(LeftOpen::default());
    let (setting, gatekeeper) = (setting.clone(), Arc::clone(gatekeeper));
    let foresight = Some(Foresight::new(order, declarations));
    let plan = Pass { setting, gatekeeper, foresight, ..*pass };
    let look = |pass_visit: PassVisit| {
        let left_open = Some(Arc::clone(&open));
        PassVisit { left_open, ..pass_visit }.run()
    };
    let looks = plan.run(look).await;
    // One resource at a time, backwards, needs no schedule. The visits of a schedule have to own
    // all that they use.
    let mut held_by: Vec<Option<String>> = vec![None; declarations.len()];
    for node in order.nodes().iter().rev() {
        let held = order.dependents(*node).iter().find_map(|after| held_by[*after].clone());
        let opened = open.lock().remove(node);
        let Some(opened) = opened else {
            held_by[*node] = held;
            continue;
        };
        let (declaration, look) = (&declarations[*node], &looks[*node]);
        let mut prior = Visit::new(declaration, Vec::new());
        prior.change.actions.extend(look.change.shutdown.clone());
        let ended = if let Some(because) = held {
            Err(Outcome::Skipped { because })
        } else {
            let announcement = Announcement::new(pass.targets(*node), None);
            let work = stop(pass, (&opened, look), &mut prior, &announcement);
            progress.at_work_on(&declaration.name, work).await
        };
        let closed = opened.close().await.map_err(Outcome::failed);
        if let Err(end) = ended.and(closed) {
            pass.gatekeeper.note_end(&end);
            prior.end = end;
            held_by[*node] = prior.blocked_by().map(str::to_owned);
        }
        priors.insert(*node, prior);
    }
    priors
}

/// Does a shutdown-first action, if the change of its resource is approved.
async fn stop(
    pass: &Pass<'_>,
    (opened, look): (&Opened, &Visit),
    prior: &mut Visit,
    announcement: &Announcement,
) -> Result<(), Outcome> {
    pass.gatekeeper.approve_change(opened, &look.change, look.after.as_deref()).await?;
    pass.gatekeeper.run(opened, prior, announcement).await
}
