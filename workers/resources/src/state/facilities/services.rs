//! The services that the resources of a run share, such as a connection, each opened once.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::error::BoxError;

/// Something that the resources of a run share, such as a connection or a cache; see
/// [`Context::shared`](crate::Context::shared).
pub trait Shared: Send + Sync + Sized + 'static {
    /// Opens it; the key says which of them.
    ///
    /// # Errors
    ///
    /// When it cannot be opened. The next resource that asks for it tries again.
    ///
    /// # Cancel safety
    ///
    /// It must be cancel safe: the resource that asks may be told to stop.
    fn open(key: &str) -> impl Future<Output = Result<Self, BoxError>> + Send;

    /// Returns whether it is still of use. If it is not, such as a connection that was lost, it is
    /// opened again for the next resource that asks. By default it is.
    fn is_usable(&self) -> bool {
        true
    }
}

/// What was opened of one type under one key. Who opens it holds the lock.
type Slot = Arc<tokio::sync::Mutex<Option<Arc<dyn Any + Send + Sync>>>>;

/// What the resources of a run share.
#[derive(Default)]
pub(crate) struct Services(Mutex<HashMap<(TypeId, String), Slot>>);

impl Services {
    /// Returns a service. The first resource that asks for it opens it. Cancel safe.
    pub(crate) async fn get<T: Shared>(&self, key: &str) -> Result<Arc<T>, BoxError> {
        let slot = {
            let mut slots = self.0.lock();
            Arc::clone(slots.entry((TypeId::of::<T>(), key.to_owned())).or_default())
        };
        let mut slot = slot.lock().await;
        let opened = slot.clone().and_then(|any| any.downcast::<T>().ok());
        if let Some(opened) = opened.filter(|opened| opened.is_usable()) {
            return Ok(opened);
        }
        let opened = Arc::new(T::open(key).await?);
        *slot = Some(Arc::<T>::clone(&opened));
        Ok(opened)
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Services").field(&self.0.lock().len()).finish()
    }
}
