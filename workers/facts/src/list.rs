//! Lists whose items change one by one.

use std::fmt;

use serde_json::Value;

/// The usual number of items of a chunk. A chunk with twice as many is split.
const CHUNK: usize = 512;

/// A list that operations change.
pub(crate) trait Items {
    /// Returns the number of items.
    fn count(&self) -> usize;

    /// Puts an item before the one at a position, which is at most the number of items.
    fn insert(&mut self, at: usize, item: Value);

    /// Replaces the item at a position.
    fn replace(&mut self, at: usize, item: Value);

    /// Removes the item at a position.
    fn remove(&mut self, at: usize);
}

impl Items for Vec<Value> {
    fn count(&self) -> usize {
        self.len()
    }

    fn insert(&mut self, at: usize, item: Value) {
        self.insert(at, item);
    }

    fn replace(&mut self, at: usize, item: Value) {
        self[at] = item;
    }

    fn remove(&mut self, at: usize) {
        self.remove(at);
    }
}

/// A long list in chunks: a change moves the items of one chunk, and not all that follow.
#[derive(Default)]
pub(crate) struct Chunks(Vec<Vec<Value>>);

/// Shows how many chunks there are, and no values.
impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chunks").field(&self.0.len()).finish()
    }
}

impl Chunks {
    pub(crate) fn new(items: Vec<Value>) -> Self {
        let (mut chunks, mut items) = (Vec::new(), items.into_iter());
        loop {
            let chunk: Vec<_> = items.by_ref().take(CHUNK).collect();
            if chunk.is_empty() {
                return Self(chunks);
            }
            chunks.push(chunk);
        }
    }

    pub(crate) fn into_items(self) -> Vec<Value> {
        self.0.into_iter().flatten().collect()
    }

    /// Returns the item at a position; none if the list ends before it.
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Value> {
        let (index, at) = self.find(at);
        self.0.get_mut(index)?.get_mut(at)
    }

    /// Returns the chunk with a position, and the position in the chunk. The end of the list is in the last chunk.
    fn find(&self, mut at: usize) -> (usize, usize) {
        let last = self.0.len().saturating_sub(1);
        for (index, chunk) in self.0.iter().enumerate() {
            if at < chunk.len() || index == last {
                return (index, at);
            }
            at -= chunk.len();
        }
        (0, at)
    }
}

impl Items for Chunks {
    fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn insert(&mut self, at: usize, item: Value) {
        if self.0.is_empty() {
            self.0.push(Vec::new());
        }
        let (index, at) = self.find(at);
        let chunk = &mut self.0[index];
        chunk.insert(at, item);
        if chunk.len() >= 2 * CHUNK {
            let rest = chunk.split_off(CHUNK);
            self.0.insert(index + 1, rest);
        }
    }

    fn replace(&mut self, at: usize, item: Value) {
        let (index, at) = self.find(at);
        self.0[index][at] = item;
    }

    fn remove(&mut self, at: usize) {
        let (index, at) = self.find(at);
        self.0[index].remove(at);
        if self.0[index].is_empty() {
            self.0.remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{Chunks, Items};

    proptest! {
        #[test]
        fn chunks_are_as_a_plain_list(
            length in 0..3000_usize,
            edits in proptest::collection::vec((0..3_u8, any::<prop::sample::Index>()), 0..200),
            grown in 0..1500_usize,
        ) {
            let mut plain: Vec<Value> = (0..length).map(|at| json!(at)).collect();
            let mut chunks = Chunks::new(plain.clone());
            // All at one place, so that a chunk is split.
            let edits = (0..grown).map(|_| (0, None)).chain(edits.into_iter().map(|(what, at)| (what, Some(at))));
            for (number, (what, at)) in edits.enumerate() {
                let at = |count: usize| at.as_ref().map_or(0, |at| at.index(count));
                let item = json!(format!("new {number}"));
                match (what, plain.len()) {
                    (0, count) => {
                        let at = at(count + 1);
                        Items::insert(&mut plain, at, item.clone());
                        chunks.insert(at, item);
                    }
                    (_, 0) => {}
                    (1, count) => {
                        let at = at(count);
                        Items::replace(&mut plain, at, item.clone());
                        chunks.replace(at, item);
                    }
                    (_, count) => {
                        let at = at(count);
                        Items::remove(&mut plain, at);
                        chunks.remove(at);
                    }
                }
                prop_assert_eq!(chunks.count(), plain.len());
            }
            prop_assert_eq!(chunks.into_items(), plain);
        }
    }
}
