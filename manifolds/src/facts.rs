//! The manifold of facts, and what answers those who change them over the control socket.

#[cfg(feature = "manifest")]
use std::future::pending;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use crankcase_engine::input::Selected;
use crankcase_engine::{Manifold, Name, Outcome, Stop, Worker};
#[cfg(feature = "manifest")]
use crankcase_facts::effective;
use crankcase_facts::wire::{Answer, Refusal, Request};
use crankcase_facts::{Facts, FactsError, Pointer, Snapshot, Tree};
#[cfg(feature = "manifest")]
use crankcase_manifest::{SeenFacts, SiteFacts};
use crankcase_status::Extension;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The target on the control socket of those who change facts.
pub const TARGET: &str = "/v1/facts";

/// How large a request may be, in bytes: a document of 16 MiB, each byte of which may be escaped.
const MAX_REQUEST: usize = 32 * 1024 * 1024;

/// Returns a manifold that offers [`Facts`], and as a changing output their newest [`Snapshot`].
///
/// With [`at`] and [`typed`] an input is moved by one subtree alone.
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
        .start_with(facts, |facts, (), _ctx| async move { Ok(Offered { facts }) })
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

/// Returns an input of the facts at a path, which changes only when they do. None is there until something is.
pub fn at(facts: &Name<Snapshot>, path: Pointer) -> Selected<Option<Tree>> {
    facts.select(move |snapshot| snapshot.at(&path))
}

/// Returns an input of the facts at a path as a type, which changes only when they do. There is none where nothing
/// is at the path, and where what is there is not of the type: a schema keeps that from being stored.
pub fn typed<T>(facts: &Name<Snapshot>, path: Pointer) -> Selected<Option<T>>
where
    T: DeserializeOwned + Clone + PartialEq + Send + Sync + 'static,
{
    facts.select(move |snapshot| serde_json::from_value(snapshot.at(&path)?.to_value()).ok())
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

/// Returns what answers those who change facts over the control socket: a [`Request`] that is sent to [`TARGET`] is
/// answered with an [`Answer`].
pub fn answering(facts: Facts) -> Arc<dyn Extension> {
    Arc::new(Answering { facts })
}

#[derive(Debug)]
struct Answering {
    facts: Facts,
}

#[async_trait]
impl Extension for Answering {
    fn target(&self) -> &'static str {
        TARGET
    }

    fn max_body(&self) -> usize {
        MAX_REQUEST
    }

    async fn answer(&self, request: Value, user: u32) -> Result<Value, String> {
        let mut request: Request =
            serde_json::from_value(request).map_err(|error| error.to_string())?;
        request.who = format!("{} (uid {user})", request.who);
        let facts = self.facts.clone();
        let answered = tokio::task::spawn_blocking(move || answer(&facts, request)).await;
        let answer = answered.map_err(|error| error.to_string())?;
        serde_json::to_value(answer).map_err(|error| error.to_string())
    }
}

#[expect(clippy::disallowed_methods, reason = "the history has the time of the day")]
fn answer(facts: &Facts, request: Request) -> Answer {
    let outcome = request.submission().and_then(|it| facts.submit(&it, SystemTime::now()));
    match outcome {
        Ok(outcome) => Answer::Committed { revision: outcome.revision },
        Err(error) => {
            if let FactsError::Store(error) = &error {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "the facts cannot be changed"
                );
            }
            Answer::Refused(Box::new(Refusal::of(&error, facts.current().schemas())))
        }
    }
}

/// Returns what expressions of a site see as `facts`: those that a host sees, with its layers.
#[cfg(feature = "manifest")]
pub fn seen(facts: Facts, host: Option<String>) -> Arc<dyn SiteFacts> {
    Arc::new(OfHost { facts, host })
}

#[cfg(feature = "manifest")]
#[derive(Debug)]
struct OfHost {
    facts: Facts,
    host: Option<String>,
}

#[cfg(feature = "manifest")]
#[async_trait]
impl SiteFacts for OfHost {
    fn current(&self) -> SeenFacts {
        let current = self.facts.current();
        let facts = effective(current.facts(), self.host.as_deref());
        let secrets = current.schemas().secret_paths(&facts);
        let names = |path: Pointer| path.segments().map(str::to_owned).collect();
        SeenFacts {
            revision: current.revision(),
            value: Arc::new(facts.to_value()),
            secrets: secrets.into_iter().map(names).collect(),
        }
    }

    async fn changed(&self, revision: u64) {
        let mut facts = self.facts.follow();
        if facts.wait_for(|facts| facts.revision() != revision).await.is_err() {
            pending::<()>().await;
        }
    }
}
