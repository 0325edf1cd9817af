//! The input that follows all members of a family.

use super::{Declared, Given, Inputs};
use crate::machine::Need;
use crate::vocabulary::family::Family;
use crate::vocabulary::live_set::LiveSet;
use crate::vocabulary::value::Kind;
use crate::worker::launch::Declaration;

impl<T> Family<T> {
    /// Makes an input of the family: a [`LiveSet`](crate::LiveSet) of its members' values.
    ///
    /// Every name of the family that is installed must offer a `T`; otherwise the install is
    /// refused. Members may come and go: they never bounce the worker and never delay its start. At
    /// shutdown the worker stops before every member. The worker depends on all members, so one
    /// that would depend on the worker is refused as a cycle; also the worker itself, if its name
    /// belongs to the family.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Engine, Family, LiveSet, Manifold, Name};
    ///
    /// const TENANTS: Family<String> = Family::new("tenant-*");
    /// const WEB: Name<LiveSet<String>> = Name::new("web");
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let web = Manifold::builder().inputs(TENANTS.live()).offers::<(LiveSet<String>,)>().run(
    ///     |tenants, up| async move {
    ///         up.ready((tenants,)).wait().await;
    ///         Ok(())
    ///     },
    /// );
    /// let engine = Engine::builder().build()?;
    /// engine.install(WEB, web).await?;
    /// let mut tenants = engine.output(WEB).await?;
    /// assert!(tenants.is_empty());
    ///
    /// engine.provide(TENANTS.name("acme")?, "of Acme".to_owned()).await?;
    /// tenants.changed().await?;
    /// assert_eq!(tenants.get("acme").as_deref(), Some("of Acme"));
    /// engine.stop().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn live(&self) -> LiveSetInput<T> {
        LiveSetInput { family: self.clone() }
    }
}

/// An input that follows all members of a family; made by [`Family::live`].
#[derive(Debug, Clone)]
pub struct LiveSetInput<T> {
    family: Family<T>,
}

impl<T: Clone + Send + Sync + 'static> Inputs for LiveSetInput<T> {
    type Values = LiveSet<T>;
    type Owned = Self;

    fn declare(&self, declared: &mut Declared) {
        declared.inputs.push(Declaration {
            name: self.family.pattern().clone(),
            need: Need::Set,
            kind: Kind::of::<T>(),
            selection: None,
        });
    }

    fn take(&self, given: &mut Given) -> LiveSet<T> {
        LiveSet::new(given.set())
    }

    fn into_owned(self) -> Self {
        self
    }
}
