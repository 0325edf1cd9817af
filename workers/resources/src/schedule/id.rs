//! The numbers of resources, and tables by these numbers.

use std::ops::{Index, IndexMut};

/// The number of a resource, or of a rule that notifies one.
///
/// The driver gives the numbers, and gives small ones first: tables are as long as the largest
/// number of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) usize);

/// A value for each number below its length.
#[derive(Debug, Clone, Default)]
pub(super) struct Table<T>(Vec<T>);

impl<T: Default> Table<T> {
    pub(super) fn new(len: usize) -> Self {
        let mut table = Self(Vec::new());
        table.resize(len);
        table
    }

    /// Cuts the table, or appends default values.
    pub(super) fn resize(&mut self, len: usize) {
        self.0.resize_with(len, T::default);
    }
}

impl<T> Table<T> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, id: Id) -> Option<&T> {
        self.0.get(id.0)
    }

    pub(super) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        self.0.get_mut(id.0)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<Id> for Table<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        &self.0[id.0]
    }
}

impl<T> IndexMut<Id> for Table<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        &mut self.0[id.0]
    }
}
