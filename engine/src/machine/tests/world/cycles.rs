//! Cycles, found naively, and the machine's own answer judged by that.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Arrow, Checked, Event, World, ensure};
use crate::machine::cycles::{CycleSearch, Found};
use crate::machine::{Edge, Machine, NodeId};

/// Names with the inputs that they are to have.
pub(in super::super) type Change = (usize, Arc<[Arrow]>);

impl World {
    /// Returns who uses whom once the queued installs and then the changes are made.
    fn wiring(&self, queue: &VecDeque<Event>, changes: &[Change]) -> Vec<Vec<usize>> {
        let arrows = |arrows: &[Arrow]| arrows.iter().map(|arrow| arrow.to).collect();
        let now = self.seats.iter().map(|seat| arrows(seat.arrows.as_deref().unwrap_or_default()));
        let mut wiring: Vec<Vec<usize>> = now.collect();
        for event in queue {
            if let Event::Install(place, new) = event {
                wiring[*place] = arrows(new);
            }
        }
        for (place, new) in changes {
            wiring[*place] = arrows(new);
        }
        wiring
    }

    pub(in super::super) fn is_cyclic_with(
        &self,
        queue: &VecDeque<Event>,
        changes: &[Change],
    ) -> bool {
        is_cyclic(&self.wiring(queue, changes))
    }

    /// Asks the machine whether the changes would make a cycle.
    pub(super) fn check_cycle(&mut self, changes: &[Change]) -> Checked {
        let new: Vec<_> =
            changes.iter().map(|(place, arrows)| (self.id(*place), self.edges(arrows))).collect();
        let found = find_cycle(&self.machine, &new);
        let wiring = self.wiring(&VecDeque::new(), changes);
        let Some(cycle) = found else {
            ensure!(!is_cyclic(&wiring), "P8: a cycle is missed in {changes:?}");
            return Ok(());
        };
        self.tally.cycles += 1;
        let cycle: Vec<_> = cycle.iter().map(|id| self.places[id.index()]).collect();
        let next = cycle.iter().skip(1).chain(cycle.first());
        for (user, used) in cycle.iter().zip(next) {
            ensure!(wiring[*user].contains(used), "P8: {cycle:?} is no cycle");
        }
        ensure!(!cycle.is_empty(), "P8: a cycle without a path");
        Ok(())
    }
}

/// Asks the machine for a cycle that these inputs of these nodes would make, as the driver does.
pub(in super::super) fn find_cycle(
    machine: &Machine,
    rewirings: &[(NodeId, Vec<Edge>)],
) -> Option<Vec<NodeId>> {
    if let [(id, edges)] = rewirings
        && !machine.may_reach(*id, edges)
    {
        return None;
    }
    let mut search = CycleSearch::new(rewirings.len());
    rewirings.iter().for_each(|(id, edges)| search.add(*id, edges));
    loop {
        match search.step(machine) {
            Found::Nothing => {}
            Found::None => return None,
            Found::Cycle(cycle) => return Some(cycle),
        }
    }
}

/// Takes away names that use nothing more until none is left, or only cycles are.
fn is_cyclic(wiring: &[Vec<usize>]) -> bool {
    let mut is_left = vec![true; wiring.len()];
    let mut has_moved = true;
    while has_moved {
        has_moved = false;
        for place in 0..wiring.len() {
            if is_left[place] && wiring[place].iter().all(|used| !is_left[*used]) {
                is_left[place] = false;
                has_moved = true;
            }
        }
    }
    is_left.contains(&true)
}
