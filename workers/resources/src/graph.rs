use std::collections::{BTreeSet, HashMap};

use crate::declaration::{Declaration, OnChange};
use crate::text::nearest;

/// Why declarations cannot be put into an order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
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
    #[error("resources use each other in a circle: {}", circle(path))]
    Cycle {
        /// Each resource is followed by the one that comes after it; the first is named again.
        path: Vec<String>,
    },
}

/// Who comes before whom.
///
/// A dependency comes before its dependents, and who notifies before who is notified.
#[derive(Debug)]
pub(crate) struct Graph {
    /// What has to be over before each node.
    pub(crate) before: Vec<Vec<usize>>,
    /// What waits for each node.
    pub(crate) after: Vec<Vec<usize>>,
    /// Who notifies each node.
    pub(crate) notifiers: Vec<Vec<usize>>,
    /// Every node after all that come before it; else as declared.
    pub(crate) order: Vec<usize>,
}

impl Graph {
    pub(crate) fn new(declarations: &[Declaration]) -> Result<Self, GraphError> {
        let index = index(declarations)?;
        let count = declarations.len();
        let mut before = vec![BTreeSet::new(); count];
        let mut notifiers = vec![BTreeSet::new(); count];
        for (node, declaration) in declarations.iter().enumerate() {
            for dependency in &declaration.dependencies {
                let used = find(&index, declaration, &dependency.resource)?;
                before[node].insert(used);
                if dependency.on_change == OnChange::Notify {
                    notifiers[node].insert(used);
                }
            }
            for notified in &declaration.notify {
                let notified = find(&index, declaration, notified)?;
                before[notified].insert(node);
                notifiers[notified].insert(node);
            }
        }
        let mut after = vec![Vec::new(); count];
        for (node, before) in before.iter().enumerate() {
            for used in before {
                after[*used].push(node);
            }
        }
        let into_lists = |sets: Vec<BTreeSet<usize>>| -> Vec<Vec<usize>> {
            sets.into_iter().map(|set| set.into_iter().collect()).collect()
        };
        let mut graph = Self {
            before: into_lists(before),
            after,
            notifiers: into_lists(notifiers),
            order: Vec::new(),
        };
        graph.order = graph.sort().map_err(|rest| graph.cycle(&rest, declarations))?;
        Ok(graph)
    }

    /// Returns the order, or the nodes that are on a circle or behind one.
    fn sort(&self) -> Result<Vec<usize>, BTreeSet<usize>> {
        let mut waits: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = waits
            .iter()
            .enumerate()
            .filter(|(_, waits)| **waits == 0)
            .map(|(node, _)| node)
            .collect();
        let mut order = Vec::with_capacity(waits.len());
        while let Some(node) = ready.pop_first() {
            order.push(node);
            for after in &self.after[node] {
                waits[*after] -= 1;
                if waits[*after] == 0 {
                    ready.insert(*after);
                }
            }
        }
        if order.len() == waits.len() {
            return Ok(order);
        }
        Err(waits
            .iter()
            .enumerate()
            .filter(|(_, waits)| **waits > 0)
            .map(|(node, _)| node)
            .collect())
    }

    /// Walks back from a node that waits for ever until one comes up twice.
    fn cycle(&self, rest: &BTreeSet<usize>, declarations: &[Declaration]) -> GraphError {
        let mut walk: Vec<usize> = Vec::new();
        let mut seen = HashMap::new();
        let mut next = rest.first().copied();
        while let Some(node) = next {
            if let Some(start) = seen.insert(node, walk.len()) {
                walk.drain(..start);
                break;
            }
            walk.push(node);
            next = self.before[node].iter().copied().find(|before| rest.contains(before));
        }
        walk.reverse();
        walk.extend(walk.first().copied());
        let path = walk.iter().map(|node| declarations[*node].name.clone()).collect();
        GraphError::Cycle { path }
    }
}

/// Joins the names of a circle, leaving out the middle of a long one.
fn circle(path: &[String]) -> String {
    const SHOWN: usize = 10;
    if path.len() <= 2 * SHOWN {
        return path.join(" -> ");
    }
    let left_out = path.len() - 2 * SHOWN;
    let (first, last) = (path[..SHOWN].join(" -> "), path[path.len() - SHOWN..].join(" -> "));
    format!("{first} -> ({left_out} more) -> {last}")
}

fn index(declarations: &[Declaration]) -> Result<HashMap<&str, usize>, GraphError> {
    let mut index = HashMap::with_capacity(declarations.len());
    for (node, declaration) in declarations.iter().enumerate() {
        if index.insert(declaration.name.as_str(), node).is_some() {
            return Err(GraphError::Duplicate { name: declaration.name.clone() });
        }
    }
    Ok(index)
}

fn find(
    index: &HashMap<&str, usize>,
    declaration: &Declaration,
    used: &str,
) -> Result<usize, GraphError> {
    index.get(used).copied().ok_or_else(|| GraphError::Unknown {
        name: declaration.name.clone(),
        used: used.to_owned(),
        hint: nearest(used, index.keys().copied())
            .map_or_else(String::new, |nearest| format!("; did you mean \"{nearest}\"?")),
    })
}
