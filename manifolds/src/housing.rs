//! Decorators for any manifold: when its workers may run, and what their errors mean.

use std::fmt;
use std::sync::Arc;

use crankcase_engine::{Exit, Manifold, Name, Outcome};
use crankcase_workers::{Flag, FortressState, Guest};

/// Maps a worker's error to what it means; see [`Manifold::filter`].
pub type Filter = Arc<dyn Fn(Exit) -> Outcome + Send + Sync>;

/// What is put around a manifold: flags that must be set, a fortress to occupy, a filter.
///
/// A housing adds the inputs it needs and leaves those of the manifold as they are, its outputs,
/// reporter and settings too. Housings nest in any order, and several may ask for the same flag or
/// fortress. A manifold that is decorated can still be installed as it was elsewhere.
///
/// - A worker whose flags are not all set, or whose fortress is locked, is *missing* them, which the
///   report says by name. It is started when they are.
/// - It is bounced when one of its flags changes, and when its fortress locks down: the lockdown is
///   over once the worker has ended. What must not be interrupted should not occupy a fortress for
///   its life, but visit it for each piece of work.
/// - It occupies the fortress from before its start until it is gone, its blocking work included.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Exit, Manifold, Name};
/// use crankcase_manifolds::{Housing, flag, fortress};
/// use crankcase_workers::{Flag, Guard, Guest, ValueHandle};
///
/// const UPGRADED: Name<Flag> = Name::new("upgraded");
/// const FORTRESS: Name<Guest> = Name::new("fortress");
/// const WEB: Name<()> = Name::new("web");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let web = Manifold::builder().run(|(), up| async move {
///     up.ready(()).wait().await;
///     Ok(())
/// });
/// let housing =
///     Housing::default().flags(vec![UPGRADED]).occupy(FORTRESS);
///
/// let engine = Engine::builder().build()?;
/// engine.install(UPGRADED, flag::manifold(Flag::UNSET)).await?;
/// engine.install(FORTRESS, fortress::manifold()).await?;
/// engine.install(WEB, housing.decorate(web)).await?;
/// engine.settled().await?;
/// let why = engine.why("web").await.map(|why| why.to_string());
/// assert_eq!(why.as_deref(), Some("/web misses something: flag \"upgraded\" is not set"));
///
/// let guard = engine.output(FORTRESS.output::<Guard>()).await?;
/// guard.unlock();
/// engine.output(UPGRADED.output::<ValueHandle<Flag>>()).await?.set(Flag::SET);
/// engine.running(WEB).await?;
///
/// guard.lockdown().await?; // alone: the worker has left
/// engine.stop().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Housing {
    /// The flags that must all be set while a worker runs. Default: none.
    pub flags: Vec<Name<Flag>>,
    /// The fortress that a worker occupies: what is installed there offers [`Guest`] and, as a
    /// changing output, [`FortressState`], as [`fortress`](crate::fortress) does. Default: none.
    pub occupy: Option<Name<Guest>>,
    /// What the worker's errors mean, after the manifold's own filters. Default: what they are.
    pub filter: Option<Filter>,
}

crankcase_engine::setters! {
    Housing {
        flags: Vec<Name<Flag>>,
    }
    optional {
        occupy: Name<Guest>,
        filter: Filter,
    }
}

impl Housing {
    /// Puts the housing around a manifold.
    #[must_use]
    pub fn decorate(&self, manifold: impl Into<Manifold>) -> Manifold {
        let manifold = manifold.into();
        // The fortress is innermost: it is occupied only by who runs for all the rest.
        let occupying = match &self.occupy {
            Some(fortress) => occupying(manifold, fortress),
            None => manifold,
        };
        let flagged =
            if self.flags.is_empty() { occupying } else { while_set(occupying, &self.flags) };
        match self.filter.clone() {
            Some(filter) => flagged.filter(move |exit| filter(exit)),
            None => flagged,
        }
    }
}

fn occupying(manifold: Manifold, fortress: &Name<Guest>) -> Manifold {
    let text = format!("fortress {:?} is locked", fortress.as_str());
    let inputs = (fortress, fortress.output::<FortressState>());
    manifold.admitted(inputs, move |(guest, _state), _ctx| {
        // The state is an input so that the worker is asked again when there is another one. Every
        // lockdown makes one, so that none is missed, however short.
        guest.try_visit().ok_or_else(|| Exit::missing(text.clone()))
    })
}

fn while_set(manifold: Manifold, flags: &[Name<Flag>]) -> Manifold {
    let names: Vec<_> = flags.iter().map(|flag| flag.as_str().to_owned()).collect();
    manifold.admitted(flags.to_vec(), move |flags, _ctx| {
        let flags = names.iter().zip(flags);
        let unset: Vec<_> =
            flags.filter(|(_, flag)| !flag.is_set()).map(|(name, _)| format!("{name:?}")).collect();
        match &*unset {
            [] => Ok(()),
            [one] => Err(Exit::missing(format!("flag {one} is not set"))),
            several => Err(Exit::missing(format!("flags {} are not set", several.join(", ")))),
        }
    })
}

impl fmt::Debug for Housing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Housing")
            .field("flags", &self.flags)
            .field("occupy", &self.occupy)
            .field("has_filter", &self.filter.is_some())
            .finish()
    }
}
