//! Workers that wait for each other.
//!
//! Two workers that wait for each other in their starts would wait until their start timeouts. So
//! the engine looks for such a circle whenever a name begins to wait: when a worker asks for an
//! output, when a manifold is installed, and when a worker ends. It refuses a wait of the circle.

use super::registry::Registry;
use super::waits::{Wait, What};
use crate::change::ChangeError;
use crate::machine::{Need, NodeId, Phase, Status};
use crate::vocabulary::hash::Set;
use crate::vocabulary::value::Kind;
use crate::vocabulary::wake::wake;

/// Of the things that one worker waits for, so many are named.
const MOST_NAMED: usize = 3;

impl Registry {
    /// Adds what a worker waits for, unless the worker has ended.
    pub(super) fn add_wait(&mut self, asker: NodeId, wait: Wait) {
        let view = self.machine.view(asker);
        let is_active = matches!(view.phase, Phase::Starting | Phase::Running);
        if is_active && view.generation == wait.generation {
            self.waits.entry(asker).or_default().push(wait);
            self.refuse_circles_through(asker);
        }
    }

    pub(super) fn end_wait(&mut self, asker: NodeId, id: u64) {
        if let Some(waits) = self.waits.get_mut(&asker) {
            waits.retain(|wait| wait.id != id);
            if waits.is_empty() {
                self.waits.remove(&asker);
            }
        }
    }

    /// Refuses the waits that close a circle through a name.
    pub(super) fn refuse_circles_through(&mut self, node: NodeId) {
        if self.waits.is_empty() {
            return;
        }
        while let Some(circle) = self.circle_through(node) {
            let next = circle.iter().skip(1).chain(&circle);
            let steps: Vec<_> = circle.iter().copied().zip(next.copied()).collect();
            let refused = steps.iter().position(|(asker, on)| {
                self.awaited_outputs(*asker).any(|(output, _)| output == *on)
            });
            let Some(at) = refused else { return };
            let path = steps.iter().cycle().skip(at).take(steps.len());
            let path = path.map(|(node, _)| self.name(*node)).collect();
            let (asker, on) = steps[at];
            let is_it =
                |wait: &mut Wait| matches!(wait.what, What::Output(output, ..) if output == on);
            let waits = self.waits.get_mut(&asker);
            let refused = waits.and_then(|waits| waits.extract_if(.., is_it).next());
            if let Some(Wait { what: What::Output(_, _, refuse), .. }) = refused {
                wake(|| drop(refuse.send(ChangeError::WaitCycle { path })));
            }
        }
    }

    /// Returns the circle in which a name waits for itself: each waits for the next, and the last
    /// for the first.
    fn circle_through(&self, asker: NodeId) -> Option<Vec<NodeId>> {
        let mut seen = Set::default();
        let mut path: Vec<(NodeId, Vec<NodeId>)> = vec![(asker, self.awaited_by(asker))];
        while let Some((_, rest)) = path.last_mut() {
            match rest.pop() {
                Some(next) if next == asker => {
                    return Some(path.iter().map(|(id, _)| *id).collect());
                }
                Some(next) if seen.insert(next) => path.push((next, self.awaited_by(next))),
                Some(_) => {}
                None => drop(path.pop()),
            }
        }
        None
    }

    /// Returns the names without which a name does not come up.
    pub(super) fn awaited_by(&self, node: NodeId) -> Vec<NodeId> {
        let view = self.machine.view(node);
        let is_up = |node: &NodeId| self.machine.view(*node).status == Status::Up;
        match view.phase {
            Phase::Starting if !view.is_marked => {
                let outputs = self.awaited_outputs(node).map(|(output, _)| output);
                outputs.filter(|output| !is_up(output)).collect()
            }
            Phase::Idle | Phase::Lingering if view.is_installed && !view.is_parked => {
                let inputs = self.machine.inputs(node).map(|(edge, _)| edge);
                let awaited = inputs.filter(|edge| {
                    let status = self.machine.view(edge.target).status;
                    edge.need.gates() && status != Status::Up
                        || edge.need == Need::Optional && status == Status::Coming
                });
                awaited.map(|edge| edge.target).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns what a worker says that it waits for, as a text.
    pub(super) fn awaits(&self, node: NodeId) -> Option<String> {
        let waits = self.waits.get(&node)?;
        let texts = waits.iter().take(MOST_NAMED).map(|wait| match &wait.what {
            What::Output(on, ..) => self.path(*on),
            What::Other(text) => text.clone(),
        });
        let mut text = texts.collect::<Vec<_>>().join(", ");
        if waits.len() > MOST_NAMED {
            text.push_str(&format!(" and {} more", waits.len() - MOST_NAMED));
        }
        Some(text)
    }

    /// Returns the outputs that a worker waits for.
    pub(super) fn awaited_outputs(
        &self,
        node: NodeId,
    ) -> impl Iterator<Item = (NodeId, &'static Kind)> {
        let waits = self.waits.get(&node).into_iter().flatten();
        waits.filter_map(|wait| match wait.what {
            What::Output(on, kind, _) => Some((on, kind)),
            What::Other(_) => None,
        })
    }
}
