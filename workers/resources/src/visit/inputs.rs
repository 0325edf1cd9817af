//! The inputs of a visit: what is known of the resources before it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crankcase_engine::Stop;

use crate::declare::declaration::{Declaration, DependencyState, is_fact_alias};
use crate::declare::order::Order;
use crate::kind::context::{Notice, Used};
use crate::kind::foresight::Foresight;
use crate::report::account::{Halt, Outcome};
use crate::state::Records;
use crate::visit::{Changes, Visit};

/// What is known before a resource is visited.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// The failed resource that is the reason to skip this one.
    pub(crate) blocked_by: Option<String>,
    /// The program that this resource needs, directly or not. Only `run` starts it.
    pub(crate) needs_run: Option<String>,
    /// The dependencies that change first, or may.
    pub(crate) unsure: Vec<String>,
    /// The dependencies whose state will not be known in this run, by alias.
    pub(crate) never: BTreeMap<String, String>,
    /// What is known of the dependencies.
    pub(crate) used: Vec<Used>,
    /// The notifications that are certain.
    pub(crate) notices: Vec<Notice>,
    /// The sources of the notifications that are on record.
    pub(crate) due: Vec<Arc<str>>,
    /// The sources of the notifications that may follow.
    pub(crate) perhaps_by: Vec<String>,
    /// Whether the load could not know how the resource is declared.
    pub(crate) is_unsure: bool,
    /// What a plan knows of things that are not there yet. Without it the visit acts.
    pub(crate) foresight: Option<Foresight>,
}

impl Inputs {
    /// Gathers what `node` finds after the visits of all that comes before it.
    pub(crate) fn gather(
        order: &Order,
        declarations: &[Declaration],
        (node, records): (usize, &Records),
        visits: &[Option<Visit>],
        foresight: Option<&Foresight>,
    ) -> Self {
        let visit = |node: usize| visits[node].as_ref().expect("what comes before was visited");
        let declaration = &declarations[node];
        let due = records.look(|loaded| loaded.sources(&declaration.name));
        let mut inputs = Self { due, is_unsure: declaration.is_unsure, ..Self::default() };
        let before = order.inputs(node);
        let by_name: BTreeMap<&str, &Visit> =
            before.iter().map(|node| (declarations[*node].name.as_str(), visit(*node))).collect();
        for (name, _) in declaration.needs() {
            inputs.need(by_name[name]);
        }
        inputs.foresight = foresight.map(|foresight| foresight.of(node));
        for dependency in &declaration.dependencies {
            inputs.add(&dependency.alias, by_name[dependency.resource.as_str()]);
        }
        for notifier in order.notifiers(node) {
            let visit = visit(*notifier);
            match visit.changes {
                Changes::Yes => inputs.notices.push(visit.notice()),
                Changes::Maybe => inputs.perhaps_by.push(visit.name.clone()),
                // What it may have changed in an earlier run is answered when it is as declared.
                Changes::No if !visit.end.is_good() => inputs.due.retain(|by| **by != *visit.name),
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

    /// Returns how a visit ends that needs the states of these dependencies, which are not known.
    pub(crate) fn unknown(&self, aliases: &[String]) -> Outcome {
        if let Some(because) = aliases.iter().find_map(|alias| self.never.get(alias)) {
            return Outcome::Skipped { because: because.clone() };
        }
        if self.foresight.is_some() {
            let because = self.used.iter().filter(|used| aliases.contains(&used.alias));
            let because = because.map(|used| used.resource.clone()).collect();
            return Outcome::MayChange {
                because,
                reason: "its config is known after apply".into(),
            };
        }
        Outcome::failed(match self.is_unsure {
            true => not_known_at_load(aliases),
            false => not_known(aliases),
        })
    }

    /// Returns how a visit ends that could not look at the resource. In a plan a resource before it
    /// may be the cause, if that one changes first. An error after a stop is most likely its doing.
    pub(crate) fn cannot_look(&self, stop: &Stop, error: String) -> Outcome {
        if stop.is_stopped() {
            return Outcome::Halted { at: None, by: Halt::Stop };
        }
        let Some(foresight) = &self.foresight else { return Outcome::failed(error) };
        let mut because = self.unsure.clone();
        because.extend(foresight.seen().into_iter().filter(|name| !self.unsure.contains(name)));
        if because.is_empty() {
            // What changes further away may be the cause as well.
            because.extend(foresight.changing());
        }
        if because.is_empty() {
            return Outcome::failed(error);
        }
        Outcome::MayChange { because, reason: format!("it cannot be looked at yet: {error}") }
    }

    fn need(&mut self, used: &Visit) {
        if self.blocked_by.is_none() {
            self.blocked_by = used.blocked_by().map(str::to_owned);
        }
        if self.needs_run.is_none() {
            self.needs_run = used.needs_run().map(str::to_owned);
        }
        if used.changes != Changes::No && !self.unsure.contains(&used.name) {
            self.unsure.push(used.name.clone());
        }
    }

    fn add(&mut self, alias: &str, used: &Visit) {
        if used.state.is_none() {
            self.never.insert(alias.to_owned(), used.name.clone());
        }
        let state = used.state.clone().unwrap_or(DependencyState::Unknown);
        let (alias, resource) = (alias.to_owned(), used.name.clone());
        self.used.push(Used { alias, resource, state, actions: Arc::clone(&used.actions) });
    }
}

/// Says that states are not known.
pub(crate) fn not_known(aliases: &[String]) -> String {
    format!("the states of {} are not known", aliases.join(", "))
}

/// Says that facts were not known when the manifest was loaded.
fn not_known_at_load(aliases: &[String]) -> String {
    let facts = aliases.iter().map(|alias| match is_fact_alias(alias) {
        true => format!("the {alias}"),
        false => format!("the fact of {alias}"),
    });
    let facts = facts.collect::<Vec<_>>().join(" and ");
    let were = if aliases.len() == 1 { "was" } else { "were" };
    format!("{facts} {were} not known when the manifest was loaded: apply again")
}
