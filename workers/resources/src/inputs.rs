//! What a visit of plan or apply begins with: what is known of the resources before it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::action::Action;
use crate::context::{Notice, Used};
use crate::declaration::{Declaration, DependencyState};
use crate::order::Order;
use crate::shape::Shape;
use crate::state::Records;

/// What a resource that was visited is to those that come after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// The state, as far as dependents may see it.
    pub(crate) state: SeenState,
    /// If dependents cannot go on: the resource that is the reason, this one or one before it.
    pub(crate) blocked_by: Option<String>,
    /// Whether the resource has changed or will.
    pub(crate) changes: Changes,
    /// A resource that comes before this one, at any distance, and has changed or will.
    pub(crate) changing_before: Option<usize>,
    /// This resource or one before it, at any distance, if it changes, or may, and may make files
    /// that it does not name. Only a plan asks for it.
    pub(crate) making: Option<usize>,
    /// The attributes in which it was not as declared.
    pub(crate) differing: Vec<String>,
    /// What was done to it, or would be.
    pub(crate) actions: Arc<[Action]>,
}

/// Whether dependents can know a state.
#[derive(Clone, Default)]
pub(crate) enum SeenState {
    /// Now.
    Known(Arc<Value>),
    /// In part: these attributes of the state after apply.
    Foreseen(Arc<Value>),
    /// After apply.
    Later,
    /// Not in this run.
    #[default]
    Never,
}

impl fmt::Debug for SeenState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(state) => f.debug_tuple("Known").field(&Shape::of(state)).finish(),
            Self::Foreseen(state) => f.debug_tuple("Foreseen").field(&Shape::of(state)).finish(),
            Self::Later => f.write_str("Later"),
            Self::Never => f.write_str("Never"),
        }
    }
}

/// Whether a resource has changed or will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Changes {
    #[default]
    No,
    Maybe,
    Yes,
}

/// What is known before a resource is visited.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The failed resource that is the reason to skip this one.
    pub(crate) blocked_by: Option<String>,
    /// The dependencies that change first, or may.
    pub(crate) unsure: Vec<String>,
    /// A resource at any distance that changes first, or may.
    pub(crate) changing: Option<usize>,
    /// Such a resource that may make files that it does not name.
    pub(crate) making: Option<usize>,
    /// The dependencies whose state will not be known in this run, by alias.
    pub(crate) never: BTreeMap<String, String>,
    /// What is known of the dependencies.
    pub(crate) used: Vec<Used>,
    /// Who notifies this resource for certain.
    pub(crate) notices: Vec<Notice>,
    /// Those who have notified it as the records say.
    pub(crate) due: Vec<Arc<str>>,
    /// Who perhaps does.
    pub(crate) perhaps_by: Vec<String>,
}

impl Inputs {
    /// Gathers what the visited resources are to `node`.
    pub(crate) fn gather<'a>(
        order: &Order,
        declarations: &[Declaration],
        (node, records): (usize, &Records),
        seen: impl Fn(usize) -> &'a Seen,
    ) -> Self {
        let due = records.look(|loaded| loaded.sources(&declarations[node].name));
        let mut inputs = Self { due, ..Self::default() };
        let before: BTreeMap<&str, usize> = order
            .inputs(node)
            .iter()
            .map(|node| (declarations[*node].name.as_str(), *node))
            .collect();
        for (name, _) in declarations[node].needs() {
            inputs.need(name, seen(before[name]));
        }
        inputs.changing = order.inputs(node).iter().find_map(|input| match seen(*input) {
            Seen { changes: Changes::No, changing_before, .. } => *changing_before,
            _ => Some(*input),
        });
        inputs.making = order.inputs(node).iter().find_map(|input| seen(*input).making);
        for dependency in &declarations[node].dependencies {
            let used = seen(before[dependency.resource.as_str()]);
            inputs.add(&dependency.alias, &dependency.resource, used);
        }
        for notifier in order.notifiers(node) {
            let (name, seen) = (&declarations[*notifier].name, seen(*notifier));
            match seen.changes {
                Changes::Yes => {
                    let (attributes, actions) = (seen.differing.clone(), Arc::clone(&seen.actions));
                    inputs.notices.push(Notice::new(name, attributes, actions));
                }
                Changes::Maybe => inputs.perhaps_by.push(name.clone()),
                // What it may have changed in an earlier run is answered when it is as declared.
                Changes::No if seen.blocked_by.is_some() => inputs.due.retain(|by| **by != **name),
                Changes::No => {}
            }
        }
        for by in &inputs.due {
            if inputs.notices.iter().all(|notice| *notice.by != **by) {
                inputs.notices.push(Notice::new(by, Vec::new(), Arc::default()));
            }
        }
        inputs
    }

    /// Returns whether nothing before the resource has changed or failed, and nothing notifies it.
    pub(crate) fn is_settled(&self) -> bool {
        self.blocked_by.is_none() && self.unsure.is_empty() && self.notices.is_empty()
    }

    /// Returns who notifies the resource for certain.
    pub(crate) fn notified_by(&self) -> Vec<String> {
        self.notices.iter().map(|notice| notice.by.clone()).collect()
    }

    fn need(&mut self, name: &str, used: &Seen) {
        if self.blocked_by.is_none() {
            self.blocked_by.clone_from(&used.blocked_by);
        }
        if used.changes != Changes::No && !self.unsure.iter().any(|unsure| unsure == name) {
            self.unsure.push(name.to_owned());
        }
    }

    fn add(&mut self, alias: &str, name: &str, used: &Seen) {
        let state = match &used.state {
            SeenState::Known(state) => DependencyState::Known(Arc::clone(state)),
            SeenState::Foreseen(state) => DependencyState::Foreseen(Arc::clone(state)),
            SeenState::Later => DependencyState::Unknown,
            SeenState::Never => {
                self.never.insert(alias.to_owned(), name.to_owned());
                DependencyState::Unknown
            }
        };
        let (alias, resource) = (alias.to_owned(), name.to_owned());
        self.used.push(Used { alias, resource, state, actions: Arc::clone(&used.actions) });
    }
}
