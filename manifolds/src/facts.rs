//! Manifolds around facts, and the extension of the control socket that changes facts.

use crankcase_engine::input::Selected;
use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
use crankcase_facts::{Facts, Pointer, Snapshot, Tree};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::spawn_blocking;

pub use self::answering::{Judge, TARGET, answering};
#[cfg(feature = "manifest")]
pub use self::host_matches::host_matches;
pub use self::last_good::{LastGood, last_good};
#[cfg(feature = "resources")]
pub use self::register::register;
#[cfg(feature = "manifest")]
pub use self::seen::{judge, seen};
#[cfg(feature = "resources")]
pub use self::world::world;

mod answering;
#[cfg(feature = "manifest")]
mod host_matches;
mod last_good;
#[cfg(feature = "resources")]
mod register;
#[cfg(feature = "manifest")]
mod seen;
#[cfg(feature = "resources")]
mod world;

/// Returns a manifold that offers the [`Facts`], and their newest [`Snapshot`] as a changing output.
///
/// An input of [`at`] or [`typed`] changes only when its own subtree changes.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Engine, Manifold, Name};
/// use crankcase_facts::{Change, Facts, Operation, Snapshot, Sqlite, Submission, Update};
/// use crankcase_manifolds::facts;
///
/// const FACTS: Name<Snapshot> = Name::new("facts");
/// const POOL: Name<u64> = Name::new("pool");
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let store = Facts::open(Box::new(Sqlite::open(&folder.path().join("facts.db"))?))?;
/// let pool = Manifold::builder()
///     .inputs(facts::typed::<u64>(&FACTS, "/mero/globals/pw".parse()?))
///     .offers::<(u64,)>()
///     .run(|width, up| async move { up.ready((width.unwrap_or(1),)).wait().await; Ok(()) });
///
/// let engine = Engine::builder().build()?;
/// engine.install(FACTS, facts::manifold(store.clone())).await?;
/// engine.install(POOL, pool).await?;
/// assert_eq!(engine.output(POOL).await?, 1);
///
/// let update = Operation::Set("/mero".parse()?, serde_json::json!({"globals": {"pw": 80}}));
/// let change = Change::Update(Update::of(vec![update]));
/// store.submit(&Submission::new(change, "ada"), std::time::SystemTime::UNIX_EPOCH)?;
/// while engine.output(POOL).await? != 80 {
///     tokio::task::yield_now().await;
/// }
/// engine.stop().await?;
/// # Ok(())
/// # }
/// ```
pub fn manifold(facts: Facts) -> Manifold {
    Manifold::builder()
        .start_with(facts, |facts, (), _ctx| async move {
            // Another process may have changed the facts since they were opened.
            let refreshed = facts.clone();
            spawn_blocking(move || refreshed.refresh()).await??;
            Ok(Offered { facts })
        })
        .output(|offered| offered.facts.clone())
        .changing(|offered| offered.facts.follow())
        .report(|offered| {
            let facts = offered.facts.follow();
            move || {
                let current = facts.borrow().clone();
                let (version, revision) = (current.version(), current.revision());
                std::future::ready(json!({"version": version, "revision": revision}))
            }
        })
        .build()
}

/// Returns an input of the facts at a path, as the host of the facts sees them. It changes only when these facts change.
/// The input is none while there are none.
///
/// [`Facts::seen_by`] sets the host. Without a host, layers count for nothing.
pub fn at(facts: &Name<Snapshot>, path: Pointer) -> Selected<Option<Tree>> {
    facts.select(move |snapshot| snapshot.seen(&path))
}

/// Returns an input of the facts at a path, as [`at`] does, read as a `T`. It changes only when these facts change.
///
/// The input is none if there are no facts at the path, or if they cannot be read as a `T`; the latter is logged as a
/// warning. [`try_typed`] tells the two apart. A schema at the path keeps such facts from being stored.
pub fn typed<T>(facts: &Name<Snapshot>, path: Pointer) -> Selected<Option<T>>
where
    T: DeserializeOwned + Clone + PartialEq + Send + Sync + 'static,
{
    facts.select(move |snapshot| {
        read_typed(snapshot, &path).unwrap_or_else(|why| {
            tracing::warn!(why, "facts cannot be read by a worker");
            None
        })
    })
}

/// Returns an input of the facts at a path, as [`at`] does, read as a `T`. It changes only when these facts change.
///
/// The input is `Ok(None)` if there are no facts at the path. If they cannot be read as a `T`, it is the reason, which
/// names the path and shows no value.
pub fn try_typed<T>(facts: &Name<Snapshot>, path: Pointer) -> Selected<Result<Option<T>, String>>
where
    T: DeserializeOwned + Clone + PartialEq + Send + Sync + 'static,
{
    facts.select(move |snapshot| read_typed(snapshot, &path))
}

fn read_typed<T: DeserializeOwned>(
    snapshot: &Snapshot,
    path: &Pointer,
) -> Result<Option<T>, String> {
    let Some(found) = snapshot.seen(path) else { return Ok(None) };
    let is_secret = snapshot.schemas().has_sensitive();
    T::deserialize(found.to_value()).map(Some).map_err(|error| match is_secret {
        // The error may quote the value.
        true => format!("{path}: the facts are not of the type that the worker expects"),
        false => format!("{path}: {error}"),
    })
}

struct Offered {
    facts: Facts,
}

impl Worker for Offered {
    async fn run(self, stop: Stop) -> Outcome {
        stop.wait().await;
        Ok(())
    }
}
