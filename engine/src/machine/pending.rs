//! The queue of nodes that the machine must look at. Its order is random, but suits the CPU's
//! cache.

use rand::RngExt;
use rand::rngs::SmallRng;

use super::node::NodeId;

/// Up to how many nodes each node is chosen at random by itself.
const SINGLE: usize = 512;
/// How many neighbouring nodes of a longer queue are taken as one run.
const RUN: usize = 256;

/// A queue that returns its nodes in random order, so that nobody can rely on an order among
/// independent workers.
///
/// From a long queue it takes a random run of neighbours, in a random direction. Nodes that were
/// queued one after the other lie side by side in memory. To jump among a hundred thousand nodes
/// costs half as much as to start them.
#[derive(Debug, Clone, Default)]
pub(super) struct RandomQueue {
    nodes: Vec<NodeId>,
    /// How many nodes of the present run are left. They are at the end of the queue.
    run: usize,
}

impl RandomQueue {
    pub(super) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(more);
    }

    pub(super) fn push(&mut self, id: NodeId) {
        // A node that is pushed during a run joins the run: it is likely to be in the cache.
        self.run += usize::from(self.run > 0);
        self.nodes.push(id);
    }

    pub(super) fn next(&mut self, random: &mut SmallRng) -> Option<NodeId> {
        if self.run == 0 && self.nodes.len() > SINGLE {
            self.begin_run(random);
        }
        if self.run > 0 {
            self.run -= 1;
            return self.nodes.pop();
        }
        match self.nodes.len() {
            0 => None,
            1 => self.nodes.pop(),
            len => Some(self.nodes.swap_remove(random.random_range(0..len))),
        }
    }

    /// Moves a random run to the end of the queue.
    fn begin_run(&mut self, random: &mut SmallRng) {
        let last = self.nodes.len() - RUN;
        let (rest, end) = self.nodes.split_at_mut(last);
        let first = random.random_range(0..=rest.len() - RUN);
        rest[first..first + RUN].swap_with_slice(end);
        if random.random() {
            end.reverse();
        }
        self.run = RUN;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    fn order(count: usize, seed: u64) -> Vec<usize> {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut pending = RandomQueue::default();
        (0..count).for_each(|index| pending.push(NodeId::from_index(index)));
        std::iter::from_fn(|| pending.next(&mut random)).map(NodeId::index).collect()
    }

    #[test]
    fn every_node_is_taken_once_however_many_there_are() {
        for count in [0, 1, 2, SINGLE, SINGLE + 1, 1_000, 100_000] {
            let order = order(count, 7);
            assert_eq!(order.len(), count);
            assert_eq!(order.into_iter().collect::<HashSet<_>>().len(), count);
        }
    }

    #[test]
    fn any_two_are_taken_in_either_order() {
        for count in [2, SINGLE, 2 * SINGLE] {
            for (one, other) in [(0, 1), (0, count - 1), (count / 2 - 1, count / 2)] {
                let comes_first = |seed| {
                    let order = order(count, seed);
                    let place = |node| order.iter().position(|id| *id == node);
                    place(one) < place(other)
                };
                let first = (0..200).filter(|seed| comes_first(*seed)).count();
                assert!((50..150).contains(&first), "{one} before {other} of {count}: {first}");
            }
        }
    }

    #[test]
    fn what_comes_during_a_run_is_taken_too() {
        let mut random = SmallRng::seed_from_u64(7);
        let mut pending = RandomQueue::default();
        (0..1_000).for_each(|index| pending.push(NodeId::from_index(index)));
        let mut taken = HashSet::new();
        for index in 1_000..2_000 {
            taken.extend(pending.next(&mut random));
            pending.push(NodeId::from_index(index));
        }
        taken.extend(std::iter::from_fn(|| pending.next(&mut random)));
        assert_eq!(taken.len(), 2_000);
    }
}
