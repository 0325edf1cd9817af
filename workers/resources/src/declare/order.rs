//! The order in which resources come after all that they need, or the circles that prevent it.

use std::collections::HashMap;

use crate::base::text::{circle, did_you_mean};
use crate::declare::declaration::{Declaration, OnChange};

pub(crate) use self::components::components;

mod components;

/// How many cycles are looked for.
const MAX_CYCLES: usize = 20;

/// The order of resources, and their dependencies.
///
/// A resource is named by its position in the list that the order was made of. It comes after its
/// dependencies, and after the resources that notify it.
#[derive(Debug, Clone, Default)]
pub struct Order {
    order: Vec<usize>,
    inputs: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
    notifiers: Vec<Vec<usize>>,
    notified: Vec<Vec<usize>>,
}

/// Why declarations cannot be put into an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// Two declarations have one name.
    #[error("resource \"{name}\" is declared twice")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A resource depends on, or notifies, one that is not declared.
    #[error("resource \"{name}\" uses \"{used}\", which is not declared{hint}")]
    Unknown {
        /// The resource.
        name: String,
        /// What it depends on or notifies.
        used: String,
        /// The nearest right name, as a question.
        hint: String,
    },
    /// Resources depend on, or notify, each other in a circle.
    #[error("circular dependency: {}", circle(path))]
    Cycle {
        /// Each resource is followed by one that it needs; the first is also the last.
        path: Vec<String>,
    },
}

impl Order {
    /// Puts some declarations into an order.
    ///
    /// # Errors
    ///
    /// When a name is there twice or not at all, or there is a cycle. A loaded manifest has none
    /// of that.
    pub fn new(declarations: &[Declaration]) -> Result<Self, OrderError> {
        let index = index(declarations)?;
        let mut edges = Edges::new(declarations.len());
        for (node, declaration) in declarations.iter().enumerate() {
            for (used, on_change) in declaration.needs() {
                edges.depends(node, find(&index, declaration, used)?, on_change);
            }
            for notified in &declaration.notify {
                edges.notifies(node, find(&index, declaration, notified)?);
            }
        }
        Self::from_edges(edges).map_err(|cycles| {
            let path = cycles.first().map_or(&[][..], Vec::as_slice);
            let path = path.iter().map(|node| declarations[*node].name.clone()).collect();
            OrderError::Cycle { path }
        })
    }

    /// Puts nodes into the order that their edges ask for.
    ///
    /// # Errors
    ///
    /// When there are cycles: up to 20 paths of nodes, each followed by one that it needs; the first
    /// of a path is also its last.
    pub fn from_edges(edges: Edges) -> Result<Self, Vec<Vec<usize>>> {
        let Edges { mut inputs, mut notifiers } = edges;
        for nodes in inputs.iter_mut().chain(&mut notifiers) {
            nodes.sort_unstable();
            nodes.dedup();
        }
        let order = sort(&inputs)?;
        let mut dependents = vec![Vec::new(); inputs.len()];
        for (node, inputs) in inputs.iter().enumerate() {
            for input in inputs {
                dependents[*input].push(node);
            }
        }
        let mut notified = vec![Vec::new(); notifiers.len()];
        for (node, notifiers) in notifiers.iter().enumerate() {
            notifiers.iter().for_each(|notifier: &usize| notified[*notifier].push(node));
        }
        Ok(Self { order, inputs, dependents, notifiers, notified })
    }

    /// Returns the resources, each after all that it needs; otherwise in the order of the
    /// manifest.
    pub fn nodes(&self) -> &[usize] {
        &self.order
    }

    /// Returns what a resource needs directly: its dependencies and those that notify it.
    ///
    /// # Panics
    ///
    /// When there is no such resource.
    pub fn inputs(&self, resource: usize) -> &[usize] {
        &self.inputs[resource]
    }

    /// Returns who needs a resource directly: its dependents and those that it notifies.
    ///
    /// # Panics
    ///
    /// When there is no such resource.
    pub fn dependents(&self, resource: usize) -> &[usize] {
        &self.dependents[resource]
    }

    /// Returns the resources that notify a resource, whichever side declares it.
    ///
    /// # Panics
    ///
    /// When there is no such resource.
    pub fn notifiers(&self, resource: usize) -> &[usize] {
        &self.notifiers[resource]
    }

    /// Returns the resources that a resource notifies, whichever side declares it.
    ///
    /// # Panics
    ///
    /// When there is no such resource.
    pub fn notified(&self, resource: usize) -> &[usize] {
        &self.notified[resource]
    }
}

/// Which nodes need which others, by number.
#[derive(Debug)]
pub struct Edges {
    inputs: Vec<Vec<usize>>,
    notifiers: Vec<Vec<usize>>,
}

impl Edges {
    /// Returns no edges between this many nodes.
    pub fn new(nodes: usize) -> Self {
        Self { inputs: vec![Vec::new(); nodes], notifiers: vec![Vec::new(); nodes] }
    }

    /// Adds that a node depends on another.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn depends(&mut self, node: usize, used: usize, on_change: OnChange) {
        self.inputs[node].push(used);
        if on_change.notifies() {
            self.notifiers[node].push(used);
        }
    }

    /// Adds that a node notifies another.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn notifies(&mut self, node: usize, notified: usize) {
        self.inputs[notified].push(node);
        self.notifiers[notified].push(node);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    New,
    Open,
    Done,
}

/// Sorts depth first, without recursion: a chain may be as long as a manifest allows.
fn sort(inputs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let mut marks = vec![Mark::New; inputs.len()];
    let mut order = Vec::with_capacity(inputs.len());
    let mut cycles = Vec::new();
    for root in 0..inputs.len() {
        if marks[root] != Mark::New {
            continue;
        }
        marks[root] = Mark::Open;
        let mut path = vec![(root, inputs[root].iter())];
        while let Some((node, rest)) = path.last_mut() {
            match rest.next().map(|input| (*input, marks[*input])) {
                None => {
                    marks[*node] = Mark::Done;
                    order.push(*node);
                    path.pop();
                }
                Some((input, Mark::New)) => {
                    marks[input] = Mark::Open;
                    path.push((input, inputs[input].iter()));
                }
                Some((input, Mark::Open)) => {
                    let nodes = path.iter().map(|(node, _)| *node);
                    let circle = nodes.skip_while(|node| *node != input);
                    cycles.push(circle.chain([input]).collect());
                }
                Some((_, Mark::Done)) => {}
            }
            if cycles.len() >= MAX_CYCLES {
                return Err(cycles);
            }
        }
    }
    if cycles.is_empty() { Ok(order) } else { Err(cycles) }
}

fn index(declarations: &[Declaration]) -> Result<HashMap<&str, usize>, OrderError> {
    let mut index = HashMap::with_capacity(declarations.len());
    for (node, declaration) in declarations.iter().enumerate() {
        if index.insert(declaration.name.as_str(), node).is_some() {
            return Err(OrderError::Duplicate { name: declaration.name.clone() });
        }
    }
    Ok(index)
}

fn find(
    index: &HashMap<&str, usize>,
    declaration: &Declaration,
    used: &str,
) -> Result<usize, OrderError> {
    index.get(used).copied().ok_or_else(|| OrderError::Unknown {
        name: declaration.name.clone(),
        used: used.to_owned(),
        hint: did_you_mean(used, index.keys().copied()),
    })
}
