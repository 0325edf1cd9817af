use crankcase_engine::Stop;

use crate::account::Account;
use crate::apply::{self, ApplyOptions};
use crate::declaration::Declaration;
use crate::graph::{Graph, GraphError};
use crate::kinds::Kinds;
use crate::plan::{self, Plan, PlanOptions};
use crate::text::nearest;

/// What a machine is to be kept as: declarations that were found valid, and their kinds.
///
/// It is what check makes and plan, apply and run use, so that all refuse the same manifests.
#[derive(Debug)]
pub struct Site {
    declarations: Vec<Declaration>,
    graph: Graph,
    kinds: Kinds,
    digest: String,
    is_piped: bool,
}

impl Site {
    /// Returns the site of some declarations. `digest` is another one when they are declared
    /// otherwise.
    ///
    /// # Errors
    ///
    /// When a name is there twice or not at all, or there is a cycle.
    pub fn new(
        declarations: Vec<Declaration>,
        kinds: Kinds,
        digest: String,
    ) -> Result<Self, GraphError> {
        let graph = Graph::new(&declarations)?;
        Ok(Self { declarations, graph, kinds, digest, is_piped: false })
    }

    /// Says that it came from a pipe, and cannot be loaded again.
    #[must_use]
    pub fn piped(self) -> Self {
        Self { is_piped: true, ..self }
    }

    /// Returns what tells it from a site that is declared otherwise.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns whether it came from a pipe, and cannot be loaded again.
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
