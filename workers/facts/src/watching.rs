//! The watchers of facts.

use std::collections::BTreeMap;
use std::ops::Bound;

use tokio::sync::watch;

use crate::difference::Difference;
use crate::pointer::Pointer;
use crate::tree::Tree;

/// The smallest number of watched paths at which unused paths are removed.
const FEW: usize = 64;

/// The watched paths, each with its channel.
#[derive(Debug)]
pub(crate) struct Watches {
    /// Sorted, so that the paths in a subtree directly follow the path of the subtree.
    paths: BTreeMap<Pointer, watch::Sender<Option<Tree>>>,
    /// The number of watched paths at which unused paths are removed next.
    tidy_at: usize,
}

impl Default for Watches {
    fn default() -> Self {
        Self { paths: BTreeMap::new(), tidy_at: FEW }
    }
}

impl Watches {
    /// Returns a channel with the facts at a path.
    pub(crate) fn follow(&mut self, path: &Pointer, facts: &Tree) -> watch::Receiver<Option<Tree>> {
        if self.paths.len() >= self.tidy_at {
            self.paths.retain(|_, sender| sender.receiver_count() > 0);
            self.tidy_at = (self.paths.len() * 2).max(FEW);
        }
        let sender = self.paths.entry(path.clone());
        sender.or_insert_with(|| watch::Sender::new(facts.at(path))).subscribe()
    }

    /// Notifies the watchers of changed facts, and no others.
    pub(crate) fn tell(&self, facts: &Tree, differences: &[Difference]) {
        for Difference { path, .. } in differences {
            let mut above = Pointer::root();
            self.tell_one(&above, facts);
            for segment in path.segments() {
                above = above.join(segment);
                self.tell_one(&above, facts);
            }
            let below = self.paths.range((Bound::Excluded(path.clone()), Bound::Unbounded));
            for (at, sender) in below.take_while(|(at, _)| at.is_within(path)) {
                send(sender, facts.at(at));
            }
        }
    }

    fn tell_one(&self, path: &Pointer, facts: &Tree) {
        if let Some(sender) = self.paths.get(path) {
            send(sender, facts.at(path));
        }
    }
}

fn send(sender: &watch::Sender<Option<Tree>>, facts: Option<Tree>) {
    sender.send_if_modified(|before| {
        let is_other = *before != facts;
        *before = facts;
        is_other
    });
}
