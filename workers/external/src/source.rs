//! Makes kinds of the external types of a manifest, and asks each type how it works.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crankcase_resources::dynamic::Kind;
use crankcase_resources::front::{KindRequest, KindSource, MadeKinds, RequestError, WantedKind};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::cache::Kept;
use crate::calls::Calls;
use crate::external_type::ExternalType;
use crate::kind::ExternalKind;
use crate::known::{Asking, Known, Shared};
use crate::plugs::Plugs;
use crate::settings::Settings;
use crate::type_name::Runner;
use crate::unknown::Unknown;

/// Makes kinds of programs and containers.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use crankcase_external::{External, Settings};
/// use crankcase_manifest::SiteFiles;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use std::os::unix::fs::PermissionsExt;
/// # let folder = tempfile::tempdir()?;
/// # let program = folder.path().join("always");
/// # std::fs::write(&program, "#!/bin/sh\necho '{\"state_action\": {\"args\": [\"state\"]}}'\n")?;
/// # std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
/// let manifest = folder.path().join("site.yaml");
/// std::fs::write(&manifest, "resources:\n  it: {type: \"program:./always\"}\n")?;
/// let external = Arc::new(External::new(Settings::default()));
/// let kinds = crankcase_kinds::builtin().from_source(external);
/// let site = SiteFiles::new(vec![manifest], kinds).load()?;
/// assert!(site.declarations()[0].kind.ends_with("/always"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct External {
    settings: Arc<Settings>,
    calls: Calls,
    kept: Arc<Kept>,
}

impl External {
    /// Returns a source of kinds with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), calls: Calls::default(), kept: Arc::default() }
    }

    /// Sets the object that notes the calls while they are under way, and can end them all. By default only the caller
    /// of a call ends it.
    #[must_use]
    pub fn with_calls(self, calls: Calls) -> Self {
        Self { calls, ..self }
    }
}

impl KindSource for External {
    fn name(&self, kind: &str, folder: &Path) -> Result<Option<String>, String> {
        let runner = Runner::parse(kind, folder, &self.settings)?;
        Ok(runner.map(|runner| match runner {
            Runner::Program(path) => format!("program:{}", path.display()),
            Runner::Container { .. } => kind.to_owned(),
        }))
    }

    fn make(&self, wanted: &KindRequest) -> MadeKinds {
        let (plugs, errors) = Plugs::read(&wanted.plugs, self.settings.state.as_deref());
        if !errors.is_empty() {
            return MadeKinds::new(Vec::new(), errors);
        }
        let shared = Arc::new(Shared::new(
            Arc::clone(&self.settings),
            (self.calls.clone(), Arc::clone(&self.kept)),
            plugs,
        ));
        let mut kinds: BTreeMap<&str, Arc<ExternalType>> = BTreeMap::new();
        let mut errors = Vec::new();
        for (at, WantedKind { kind, folder, .. }) in wanted.resources.iter().enumerate() {
            if kinds.contains_key(kind.as_str()) {
                continue;
            }
            match Runner::parse(kind, folder, &self.settings) {
                Ok(Some(runner)) => {
                    kinds.insert(
                        kind,
                        Arc::new(ExternalType::new(kind, runner, Arc::clone(&shared))),
                    );
                }
                Ok(None) => {
                    errors.push((RequestError::Resource(at), "it names no program".to_owned()));
                }
                Err(wrong) => errors.push((RequestError::Resource(at), wrong)),
            }
        }
        // A runtime and a thread of its own, as a load may come from within another runtime.
        let asked = std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().build();
                runtime.map(|runtime| runtime.block_on(ask_all(&shared, &kinds, wanted)))
            });
            asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let asked = asked.unwrap_or_else(|error| {
            vec![(0, Err(Unknown::Machine(format!("cannot ask external types: {error}"))))]
        });
        for (at, answer) in asked {
            let WantedKind { kind, resource, .. } = &wanted.resources[at];
            match answer {
                Ok(known) => drop(kinds[kind.as_str()].learn(resource, known)),
                Err(wrong) if self.settings.is_lenient => {
                    let error = wrong.to_string();
                    tracing::warn!(resource, kind, error, "it is not known how its type works");
                }
                Err(Unknown::Machine(lacks)) => errors.push((RequestError::Machine(at), lacks)),
                Err(Unknown::Late(late)) => errors.push((RequestError::Resource(at), late)),
                Err(Unknown::Type(wrong)) => {
                    errors
                        .extend(wrong.into_iter().map(|wrong| (RequestError::Resource(at), wrong)));
                }
            }
        }
        errors.sort();
        let kinds = kinds.into_values().map(|of| Arc::new(ExternalKind(of)) as Arc<dyn Kind>);
        MadeKinds::new(kinds.collect(), errors)
    }
}

/// Asks the types of all resources how they work, several at a time. Asks each type for one
/// resource first, because a type of protocol 1 gives the same answer for all.
async fn ask_all(
    shared: &Arc<Shared>,
    kinds: &BTreeMap<&str, Arc<ExternalType>>,
    wanted: &KindRequest,
) -> Asked {
    let mut of_kinds: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, wish) in wanted.resources.iter().enumerate() {
        of_kinds.entry(&wish.kind).or_default().push(at);
    }
    let load = Arc::new(Load {
        shared: Arc::clone(shared),
        free: Semaphore::new(shared.settings.parallel.max(1)),
    });
    let mut asking = JoinSet::new();
    for (kind, which) in of_kinds {
        let Some(kind) = kinds.get(kind) else { continue };
        let wishes = which.into_iter().map(|at| (at, wanted.resources[at].clone()));
        asking.spawn(Arc::clone(&load).ask_kind(kind.runner.clone(), wishes.collect()));
    }
    let asked = asking.join_all().await.into_iter().flatten().collect();
    shared.record.tidy();
    asked
}

/// The state that the calls of one load share.
#[derive(Debug)]
struct Load {
    shared: Arc<Shared>,
    /// How many more may be asked.
    free: Semaphore,
}

impl Load {
    /// Asks one type for its resources, each with its position. If it does not answer for the first one in time,
    /// it is asked for no other one: each would hold up the load again.
    async fn ask_kind(self: Arc<Self>, runner: Runner, wishes: Vec<(usize, WantedKind)>) -> Asked {
        let mut wishes = wishes.into_iter();
        let Some((at, first)) = wishes.next() else { return Vec::new() };
        let answered = self.ask(&runner, &first).await;
        let is_late = matches!(&answered, Err(Unknown::Late(_)));
        let mut asked = vec![(at, answered)];
        if is_late {
            return asked;
        }
        let mut asking = JoinSet::new();
        for (at, wish) in wishes {
            let (load, runner) = (Arc::clone(&self), runner.clone());
            asking.spawn(async move { (at, load.ask(&runner, &wish).await) });
        }
        asked.extend(asking.join_all().await);
        asked
    }

    async fn ask(&self, runner: &Runner, wish: &WantedKind) -> Result<Known, Unknown> {
        let _free = self.free.acquire().await;
        let WantedKind { kind, resource, folder, dependencies, timeout, .. } = wish;
        let asking = Asking {
            resource,
            kind,
            runner,
            folder,
            dependencies: Some(dependencies),
            ledger: None,
            stop: self.shared.calls.load_stop(),
            timeout: *timeout,
        };
        self.shared.ask(asking).await
    }
}

/// The answers of the types of resources, each with the position of its resource.
type Asked = Vec<(usize, Result<Known, Unknown>)>;
