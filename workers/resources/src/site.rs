use std::path::PathBuf;

use crankcase_engine::Stop;

use crate::account::Account;
use crate::apply::{self, ApplyOptions};
use crate::attributes::AttributeError;
use crate::caught::caught;
use crate::declaration::Declaration;
use crate::graph::Graph;
use crate::kinds::Kinds;
use crate::known::{Judged, KnownConfig};
use crate::manifest::{Manifest, ManifestError, Overrides};
use crate::plan::{self, Plan, PlanOptions};
use crate::text::nearest;

/// What a machine is to be kept as: declarations that were found valid, and their kinds.
///
/// It is what check makes and plan, apply and run use, so that all refuse the same manifests.
///
/// # Examples
///
/// ```
/// use crankcase_resources::{Kinds, Overrides, PlanOptions, Site};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let manifest = folder.path().join("site.yaml");
/// std::fs::write(&manifest, "resources:\n  hello: {type: print, config: {message: hi}}\n")?;
/// let site = Site::load(&[manifest], &Overrides::default(), Kinds::builtin())?;
/// let plan = site.plan(&PlanOptions::default()).await;
/// assert_eq!(plan.changes(), 1);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Site {
    declarations: Vec<Declaration>,
    graph: Graph,
    kinds: Kinds,
    digest: String,
    is_piped: bool,
}

impl Site {
    /// Loads a manifest and has each kind judge its configs; nothing is executed.
    ///
    /// See [`Manifest::load`] for the bounds. The attributes that use the states of other resources
    /// are judged later, when they are known.
    ///
    /// # Errors
    ///
    /// When anything is wrong, with all that is and its places: the manifest and the attributes
    /// of its configs alike.
    pub fn load(
        paths: &[PathBuf],
        overrides: &Overrides,
        kinds: Kinds,
    ) -> Result<Self, ManifestError> {
        let names: Vec<&str> = kinds.names().collect();
        let manifest = Manifest::load_judged(paths, overrides, &names, |kind, known| {
            judge(&kinds, kind, known)
        })?;
        let (digest, is_piped) = (manifest.digest().to_owned(), manifest.is_piped());
        let (declarations, graph) = manifest.into_parts();
        Ok(Self { declarations, graph, kinds, digest, is_piped })
    }

    /// Returns what tells its manifest from one that was changed since; see [`Manifest::digest`].
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Whether some of its manifest came from a pipe; see [`Manifest::is_piped`].
    pub fn is_piped(&self) -> bool {
        self.is_piped
    }

    /// Returns the resources in the order in which they were written.
    pub fn declarations(&self) -> &[Declaration] {
        &self.declarations
    }

    /// Returns the resource with this name.
    ///
    /// # Errors
    ///
    /// When there is none, with the nearest name.
    pub fn resource(&self, name: &str) -> Result<&Declaration, UnknownResourceError> {
        let mut declarations = self.declarations.iter();
        declarations.find(|declaration| declaration.name == name).ok_or_else(|| {
            let names = self.declarations.iter().map(|declaration| declaration.name.as_str());
            let hint = nearest(name, names);
            UnknownResourceError {
                name: name.to_owned(),
                hint: hint.map_or_else(String::new, |hint| format!("; did you mean \"{hint}\"?")),
            }
        })
    }

    /// Returns their order and who depends on whom, by positions in the declarations.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the kinds that the resources may have.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Looks at every resource and says what apply would do; see [`plan`](crate::plan()).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn plan(&self, options: &PlanOptions) -> Plan {
        plan::plan_graph(&self.graph, &self.declarations, &self.kinds, options).await
    }

    /// Makes every resource as declared, once; see [`apply`](crate::apply()).
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: tell `stop` instead.
    pub async fn apply(&self, options: &ApplyOptions, stop: Stop) -> Account {
        apply::apply_graph(&self.graph, &self.declarations, &self.kinds, (options, stop)).await
    }
}

/// A name that no resource of a site has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no resource \"{name}\"{hint}")]
pub struct UnknownResourceError {
    name: String,
    hint: String,
}

/// Two sites are equal when their resources are declared alike and at the same places, by kinds of
/// the same names.
impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        let pairs = || self.declarations.iter().zip(&other.declarations);
        self.declarations.len() == other.declarations.len()
            && self.kinds.names().eq(other.kinds.names())
            && pairs().all(|(one, other)| {
                (&one.place, &one.notify) == (&other.place, &other.notify) && one.is_equal(other)
            })
    }
}

/// Returns what a kind says of a config.
fn judge(kinds: &Kinds, kind: &str, known: &KnownConfig<'_>) -> Judged {
    let Ok(kind) = kinds.get(kind) else { return Judged::default() };
    let judged = caught(|| Judged { errors: kind.judge(known), files: kind.files(known) });
    judged.unwrap_or_else(|panicked| {
        let error = AttributeError::new("config", format!("its kind {panicked}"));
        Judged { errors: vec![error], ..Judged::default() }
    })
}
