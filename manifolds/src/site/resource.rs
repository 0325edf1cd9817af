//! The manifold of one resource, and the policy that all resources share.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use crankcase_engine::input::LatestInput;
use crankcase_engine::manifold::Up;
use crankcase_engine::{Backoff, Changing, Latest, Live, Manifold, Name, NameError, Policy};
use crankcase_resources::front::worker_name;
use crankcase_resources::run::{
    Claims, CurrentDeclaration, Links, Program, Reconcile, Schedule, State, reconcile,
};
use crankcase_workers::Watches;
use serde_json::{Value, json};

/// How long a resource may take until it is as declared for the first time: as long as it needs.
/// Meanwhile it says why it is not.
const START_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// How long a resource may take to end: longer than the longest grace of a command.
const GRACE: Duration = Duration::from_secs(6 * 60);

/// What one resource's manifold is made of.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) declaration: CurrentDeclaration,
    /// The setting of all resources of a site.
    pub(super) setting: Arc<Reconcile>,
    pub(super) watches: Live<Watches>,
    pub(super) schedule: Schedule,
    pub(super) claims: Claims,
    pub(super) program: Program,
}

/// Returns the policy of the engine whose workers are resources. It is one for all of them, as each
/// manifold with a setting of its own takes several hundred bytes.
pub(super) fn policy(backoff: Backoff) -> Policy {
    Policy::default().backoff(backoff).start_timeout(START_TIMEOUT).grace(GRACE)
}

/// Returns the manifold of one resource; it is up when the resource has a state for others to see.
///
/// The dependencies are inputs for the order and for what is said of it. Their states come by way of
/// the schedule, with the notifications that belong to them.
pub(super) fn manifold(resource: Resource) -> Result<Manifold, NameError> {
    let declaration = resource.declaration.get();
    // An automatic edge may be beside a declared one.
    let needs: BTreeSet<&str> = declaration.needs().map(|(name, _)| name).collect();
    let states = needs
        .into_iter()
        .map(|name| Ok(Name::<State>::parse(&worker_name(name))?.live().required()))
        .collect::<Result<Vec<LatestInput<State>>, NameError>>()?;
    let builder = Manifold::builder().inputs(states).offers::<(Changing<State>,)>();
    // Not an `async` block, which would hold all that it passes on once more.
    let manifold = builder.run_with(
        resource,
        |resource, _: Vec<Latest<State>>, up: Up<(Changing<State>,)>| {
            let Resource { declaration, setting, watches, schedule, claims, program } = resource;
            let (health, journal) = (up.context().health(), up.context().journal());
            let stop = up.context().stop().clone();
            let reported = program.clone();
            let (declared, events) = (declaration.get(), schedule.clone());
            let kind = setting.kinds.get(&declared.kind).cloned();
            let is_program = kind.is_ok_and(|kind| kind.is_supervised());
            let name = declared.name.clone();
            // A resource that is not as declared yet has a last event too.
            up.context().report(move || {
                // A program of another kind was started when it is up.
                let has_program = is_program || reported.status().is_some();
                let program = has_program.then(|| ("program", json!(reported.status())));
                let event = events.last_event(&name).map(|event| ("last_event", event));
                let known = program.into_iter().chain(event);
                ready(known.map(|(name, value)| (name.to_owned(), value)).collect::<Value>())
            });
            let asked_by = up.context().asked_by().cloned();
            let offer = move |state| drop(up.ready((Changing::new(state),)));
            let links = Links {
                declaration,
                watches,
                schedule,
                claims,
                program,
                health,
                journal,
                asked_by,
            };
            reconcile(setting, links, offer, stop)
        },
    );
    Ok(manifold.essential())
}
