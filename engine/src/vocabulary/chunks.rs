//! A vector that never moves more than one chunk of its items when it grows. So no install waits
//! until a hundred thousand other items are copied.

use std::iter;
use std::ops::{Index, IndexMut};

/// How many items are allocated at once. A power of two, so that a shift finds an item.
const CHUNK: usize = 512;

/// All chunks but the last are full.
#[derive(Debug, Clone)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunks<T> {
    /// Adds an item, and makes it in its place.
    pub(crate) fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            // A small engine does not pay for a whole chunk.
            let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.extend(iter::once_with(make));
        }
    }

    /// Reserves room for `more` items, but for no more than the last chunk can hold.
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.chunks.is_empty() {
            self.chunks.push(Vec::new());
        }
        if let Some(last) = self.chunks.last_mut() {
            last.reserve_exact(more.min(CHUNK - last.len()));
        }
    }

    pub(crate) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK + last
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Chunks};

    #[test]
    fn items_stand_where_they_were_pushed() {
        let mut chunks = Chunks::default();
        for count in 0..3 * CHUNK + 1 {
            assert_eq!(chunks.len(), count);
            chunks.reserve(count % 3);
            chunks.push_with(|| count);
        }

        chunks[CHUNK] = 7;

        let expected = (0..3 * CHUNK + 1).map(|index| if index == CHUNK { 7 } else { index });
        assert!(chunks.iter_mut().map(|item| *item).eq(expected));
        assert_eq!((chunks[0], chunks[CHUNK - 1], chunks[3 * CHUNK]), (0, CHUNK - 1, 3 * CHUNK));
    }
}
