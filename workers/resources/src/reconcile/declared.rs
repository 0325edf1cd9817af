//! The declaration of a resource that is kept, as it is now.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::declaration::Declaration;

/// The declaration of a resource, as it is now. Cheap to clone; clones are the same.
///
/// Nobody waits here for another declaration: the [`Board`](crate::Board) has a resource visited that
/// was handed one. So it takes a seventh of the memory of a channel.
#[derive(Debug, Clone)]
pub struct CurrentDeclaration(Arc<Mutex<Declaration>>);

impl CurrentDeclaration {
    /// Returns the place of a resource's declaration.
    pub fn new(declaration: Declaration) -> Self {
        Self(Arc::new(Mutex::new(declaration)))
    }

    /// Returns the declaration.
    pub fn get(&self) -> Declaration {
        self.0.lock().clone()
    }

    /// Declares the resource in another way. The other declaration has the same name, kind and
    /// dependencies.
    pub fn replace(&self, declaration: Declaration) {
        // Dropped after the lock.
        let _before = std::mem::replace(&mut *self.0.lock(), declaration);
    }
}
