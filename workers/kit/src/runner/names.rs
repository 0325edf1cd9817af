//! The names of a runner, and what each has.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::stay::Stay;

/// For how many names room is kept in any case.
const KEPT: usize = 1024;

/// Makes digests of names. It is keyed anew for each runner, and its key cannot be learned: names may
/// come from outside.
#[derive(Default)]
pub(super) struct Digester(RandomState);

/// Tells most names apart without a look at them, also when the table that they are in grows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest(u32);

/// The names in use.
#[derive(Default)]
pub(super) struct Names {
    slots: HashTable<Slot>,
    /// How many names have come; from 2^32 on it is counted anew.
    came: u32,
}

/// What a name has.
pub(super) struct Slot {
    digest: Digest,
    /// Which name it was to come.
    nth: u32,
    pub(super) present: Arc<Stay>,
    /// What comes when the present one has left.
    pub(super) next: Option<Arc<Stay>>,
}

impl Digester {
    pub(super) fn digest(&self, name: &str) -> Digest {
        let hash = self.0.hash_one(name);
        Digest(u32::try_from(hash >> 32).expect("half of 64 bits"))
    }
}

impl Digest {
    /// Spreads it over the bits that the table uses.
    fn hash(self) -> u64 {
        // The odd number next to 2^64 over the golden ratio (Knuth, volume 3, section 6.4).
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

impl Names {
    /// Makes a stay the present one of its name; if the name is in use, returns what it has instead.
    pub(super) fn claim(&mut self, stay: &Arc<Stay>) -> Option<&mut Slot> {
        let digest = stay.digest();
        let is_it = |slot: &Slot| slot.digest == digest && slot.present.name() == stay.name();
        match self.slots.entry(digest.hash(), is_it, |slot| slot.digest.hash()) {
            Entry::Occupied(occupied) => Some(occupied.into_mut()),
            Entry::Vacant(vacant) => {
                let nth = self.came;
                self.came = nth.wrapping_add(1);
                vacant.insert(Slot { digest, nth, present: Arc::clone(stay), next: None });
                None
            }
        }
    }

    pub(super) fn find(&self, digest: Digest, name: &str) -> Option<&Slot> {
        let is_it = |slot: &Slot| slot.digest == digest && slot.present.name() == name;
        self.slots.find(digest.hash(), is_it)
    }

    pub(super) fn find_mut(&mut self, digest: Digest, name: &str) -> Option<&mut Slot> {
        let is_it = |slot: &Slot| slot.digest == digest && slot.present.name() == name;
        self.slots.find_mut(digest.hash(), is_it)
    }

    /// Has a stay, which is the present one of its name, make way for the next, which is returned,
    /// or frees the name.
    pub(super) fn succeed(&mut self, stay: &Arc<Stay>) -> Option<Arc<Stay>> {
        let is_it = |slot: &Slot| Arc::ptr_eq(&slot.present, stay);
        let mut found = self.slots.find_entry(stay.digest().hash(), is_it).ok()?;
        let slot = found.get_mut();
        let Some(next) = slot.next.take() else {
            found.remove();
            self.shrink();
            return None;
        };
        slot.present = Arc::clone(&next);
        Some(next)
    }

    /// Lets go of room that a burst of names has left: each time most of it, so that little is moved.
    fn shrink(&mut self) {
        let (used, room) = (self.slots.len(), self.slots.capacity());
        if room > KEPT && used < room / 8 {
            self.slots.shrink_to((2 * used).max(KEPT), |slot| slot.digest.hash());
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Returns the slots in the order in which their names came. So most lie in memory: in the table's
    /// order, each would miss the cache several times.
    pub(super) fn oldest_first(&mut self) -> Vec<&mut Slot> {
        let mut slots: Vec<_> = self.slots.iter_mut().map(|slot| (slot.nth, slot)).collect();
        slots.sort_unstable_by_key(|(nth, _)| *nth);
        slots.into_iter().map(|(_, slot)| slot).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crankcase_engine::{Name, Policy, Stop};

    use super::{Digest, Names};
    use crate::runner::stay::Stay;
    use crate::runner::{ChildSpec, Restart};

    fn stay(name: &str, digest: Digest) -> Result<Arc<Stay>, crankcase_engine::NameError> {
        let spec = ChildSpec::new(Restart::Permanent, |_ctx| async { Ok(Waits) });
        let policy = Arc::new(Policy::default());
        Ok(Arc::new(Stay::new(Name::parse(name)?, digest, spec, policy)))
    }

    struct Waits;

    impl crankcase_engine::Worker for Waits {
        async fn run(self, stop: Stop) -> crankcase_engine::Outcome {
            stop.wait().await;
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_room_of_many_names_is_let_go() -> Result<(), crankcase_engine::NameError> {
        let mut names = Names::default();
        let digester = super::Digester::default();
        let stays = (0..8 * super::KEPT).map(|number| {
            let name = format!("worker-{number}");
            stay(&name, digester.digest(&name))
        });
        let stays = stays.collect::<Result<Vec<_>, _>>()?;
        assert!(stays.iter().all(|stay| names.claim(stay).is_none()));

        let (gone, left) = stays.split_at(stays.len() - 100);
        assert!(gone.iter().all(|stay| names.succeed(stay).is_none()));

        let room = names.slots.capacity();
        assert!((super::KEPT..=2 * super::KEPT).contains(&room), "{room}");
        assert!(left.iter().all(|stay| names.find(stay.digest(), stay.name()).is_some()));
        Ok(())
    }

    #[tokio::test]
    async fn names_of_one_digest_are_told_apart() -> Result<(), crankcase_engine::NameError> {
        let same = Digest(7);
        let (ada, bob) = (stay("ada", same)?, stay("bob", same)?);
        let mut names = Names::default();

        assert!(names.claim(&ada).is_none() && names.claim(&bob).is_none());
        assert!(names.claim(&stay("bob", same)?).is_some());
        assert!(names.succeed(&ada).is_none());

        assert!(names.find(same, "ada").is_none() && names.find_mut(same, "ada").is_none());
        assert!(names.find(same, "bob").is_some_and(|slot| Arc::ptr_eq(&slot.present, &bob)));
        Ok(())
    }
}
