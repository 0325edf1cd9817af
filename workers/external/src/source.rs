use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::{Culprit, Kind, KindSource, MadeKinds, WantedKind, Wishes};
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

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
}

impl External {
    /// Returns what makes kinds with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings) }
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

    fn make(&self, wanted: &Wishes) -> MadeKinds {
        let (plugs, errors) = Plugs::read(&wanted.plugs, self.settings.state.as_deref());
        if !errors.is_empty() {
            return MadeKinds::new(Vec::new(), errors);
        }
        let shared = Arc::new(Shared::new(Arc::clone(&self.settings), plugs));
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
                Ok(None) => errors.push((Culprit::Resource(at), "it names no program".to_owned())),
                Err(wrong) => errors.push((Culprit::Resource(at), wrong)),
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
                Err(Unknown::Machine(lacks)) => errors.push((Culprit::Machine(at), lacks)),
                Err(Unknown::Type(wrong)) => {
                    errors.extend(wrong.into_iter().map(|wrong| (Culprit::Resource(at), wrong)));
                }
            }
        }
        errors.sort();
        let kinds = kinds.into_values().map(|of| Arc::new(ExternalKind(of)) as Arc<dyn Kind>);
        MadeKinds::new(kinds.collect(), errors)
    }
}

/// Asks the types of all resources how they work, several at a time: first for one resource of each type,
/// as a type of protocol 1 says the same of all.
async fn ask_all(
    shared: &Arc<Shared>,
    kinds: &BTreeMap<&str, Arc<ExternalType>>,
    wanted: &Wishes,
) -> Asked {
    let mut seen = BTreeSet::new();
    let all = 0..wanted.resources.len();
    let (first, others) = all.partition(|at| seen.insert(&wanted.resources[*at].kind));
    let mut asked = ask_some(shared, kinds, (wanted, first)).await;
    asked.extend(ask_some(shared, kinds, (wanted, others)).await);
    asked
}

async fn ask_some(
    shared: &Arc<Shared>,
    kinds: &BTreeMap<&str, Arc<ExternalType>>,
    (wanted, which): (&Wishes, Vec<usize>),
) -> Asked {
    let free = Arc::new(Semaphore::new(shared.settings.parallel.max(1)));
    let mut asking = JoinSet::new();
    for at in which {
        let wish = wanted.resources[at].clone();
        let Some(kind) = kinds.get(wish.kind.as_str()) else { continue };
        let (shared, runner, free) = (Arc::clone(shared), kind.runner.clone(), Arc::clone(&free));
        asking.spawn(async move {
            let _free = free.acquire().await;
            let (_stopper, stop) = Stop::pair();
            let WantedKind { kind, resource, folder, dependencies, .. } = &wish;
            let asking = Asking {
                resource,
                kind,
                runner: &runner,
                folder,
                dependencies: Some(dependencies),
                ledger: None,
                stop: &stop,
            };
            (at, shared.ask(asking).await)
        });
    }
    asking.join_all().await
}

/// What the types of resources have said, by the resources' positions.
type Asked = Vec<(usize, Result<Known, Unknown>)>;
