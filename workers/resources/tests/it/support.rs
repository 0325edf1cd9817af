//! Declarations by hand, and a state folder that outlives each run.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crankcase_engine::Stop;
use crankcase_resources::dynamic::Found;
use crankcase_resources::front::{
    Dependency, Inputs, Place, RenderError, Rendered, RenderedText, Scope,
};
use crankcase_resources::run::apply;
use crankcase_resources::state::{
    Document, Key, Loaded, MemoryStore, Record, Records, Store, StoreError,
};
use crankcase_resources::{
    Account, ApplyOptions, Context, Declaration, Facilities, Kinds, Literal, OnChange,
};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// A state folder and its store, whose records are read anew for each run.
#[derive(Debug)]
pub(crate) struct StateFolder {
    folder: TempDir,
    store: Arc<MemoryStore>,
}

impl StateFolder {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { folder: tempfile::tempdir()?, store: Arc::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns what the next agent gives to resources.
    pub(crate) fn open(&self) -> Result<Facilities, StoreError> {
        Ok(Facilities::open(self.path(), Records::open(self.store.clone())?))
    }

    /// Returns what the next plan gives to resources.
    pub(crate) fn of_plan(&self) -> Result<Facilities, StoreError> {
        Ok(Facilities::of_plan(self.path(), Records::open(self.store.clone())?))
    }

    /// Returns what is in the store.
    pub(crate) fn loaded(&self) -> Result<Loaded, StoreError> {
        self.store.load()
    }
}

/// An empty store on a full disk.
#[derive(Debug)]
pub(crate) struct Full;

impl Store for Full {
    fn load(&self) -> Result<Loaded, StoreError> {
        Ok(Loaded::default())
    }

    fn document(&self, _: &Key) -> Result<Option<Document>, StoreError> {
        Ok(None)
    }

    fn write(&self, _: &[Record]) -> Result<(), StoreError> {
        Err(StoreError::new(io::Error::from(io::ErrorKind::StorageFull)))
    }
}

/// Knows one name.
#[derive(Debug)]
struct Greeting;

impl Scope for Greeting {
    fn render_text(&self, path: &Path, text: &str) -> Result<RenderedText, RenderError> {
        if text.contains("{{ unknown }}") {
            let place = Place { file: path.to_owned(), line: 1, column: 1 };
            return Err(RenderError { place, message: "unknown is undefined".to_owned() });
        }
        Ok(RenderedText::Known(text.replace("{{ name }}", "Ada")))
    }
}

/// Returns a config that must be a map.
fn literal(config: Value) -> Literal {
    let Value::Object(config) = config else { panic!("{config} is not a map") };
    Literal::new(config).scope(Greeting)
}

/// Returns a declaration in `site.yaml`, with a config that must be a map.
pub(crate) fn declare(name: &str, kind: &str, config: Value) -> Declaration {
    declare_in(Path::new(""), name, kind, config)
}

/// Returns a declaration in the `site.yaml` of a folder.
pub(crate) fn declare_in(folder: &Path, name: &str, kind: &str, config: Value) -> Declaration {
    literal(config).declare(folder, name, kind)
}

/// Returns a declaration one attribute of which is `{{ deps.USED.state.OF }}`.
pub(crate) fn declare_with(
    name: &str,
    kind: &str,
    config: Value,
    (attribute, used, of): (&str, &str, &str),
) -> Declaration {
    let config = literal(config).using(attribute, used, of);
    config.declare(Path::new(""), name, kind)
}

/// Looks at a resource alone.
pub(crate) async fn look(
    kinds: &Kinds,
    declaration: &Declaration,
) -> Result<Found, Box<dyn Error>> {
    let rendered = declaration.config.render(&Inputs::default())?;
    let Rendered::Known { config, scope } = rendered else { return Err("it is not known".into()) };
    let unit =
        kinds.get(&declaration.kind)?.make(&config).map_err(|errors| format!("{errors:?}"))?;
    let (_stopper, stop) = Stop::pair();
    let context = Context::new(declaration, scope, stop);
    Ok(unit.check(&context).await.map_err(|error| error.to_string())?)
}

/// Adds dependencies under their own names.
pub(crate) fn uses(mut declaration: Declaration, used: &[&str]) -> Declaration {
    declaration.dependencies.extend(used.iter().map(|used| Dependency {
        alias: (*used).to_owned(),
        resource: (*used).to_owned(),
        on_change: OnChange::Check,
    }));
    declaration
}

/// Applies without an end.
pub(crate) async fn apply_with(
    declarations: &[Declaration],
    kinds: &Kinds,
    options: &ApplyOptions,
) -> Result<Account, Box<dyn Error>> {
    let (_stopper, stop) = Stop::pair();
    Ok(apply(declarations, kinds, options, stop).await?)
}

/// Returns why the resource failed, with all that its account says.
pub(crate) fn failure(account: &Account, name: &str) -> String {
    let accounted = account.get(name).expect("it was declared");
    let is_failed = matches!(accounted.outcome, crankcase_resources::Outcome::Failed { .. });
    assert!(is_failed, "{name} has not failed: {accounted}");
    accounted.to_string()
}
