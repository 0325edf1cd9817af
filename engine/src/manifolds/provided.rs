//! The manifold for a value that is provided from outside.

use std::sync::Arc;

use tokio::task::AbortHandle;

use super::Manifold;
use crate::vocabulary::value::Kind;
use crate::worker::launch::{Blueprint, Declaration, Launch};

/// A manifold that only provides a value from outside.
struct Provided(Arc<dyn Blueprint>);

impl Blueprint for Provided {
    fn inputs(&self) -> &[Declaration] {
        self.0.inputs()
    }

    fn offers(&self) -> &[&'static Kind] {
        self.0.offers()
    }

    fn launch(self: Arc<Self>, launch: Launch) -> Option<AbortHandle> {
        Arc::clone(&self.0).launch(launch)
    }

    fn is_provided(&self) -> bool {
        true
    }
}

impl Manifold {
    /// Returns a manifold that provides a value from outside.
    pub(crate) fn provided<T: Clone + Send + Sync + 'static>(value: T) -> Self {
        let provider = Self::builder().offers::<(T,)>().run_with(value, |value, (), up| async {
            up.ready((value,)).wait().await;
            Ok(())
        });
        Self { blueprint: Arc::new(Provided(provider.blueprint)), settings: None }
    }
}
