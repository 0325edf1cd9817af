use std::collections::HashMap;

use crate::declaration::Declaration;

/// In which order resources come, and who depends on whom.
///
/// Resources are meant by their position in the list that the graph was made of.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    order: Vec<usize>,
    inputs: Vec<Vec<usize>>,
    dependents: Vec<Vec<usize>>,
}

/// Why declarations make no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// Two declarations have one name.
    #[error("duplicate resource \"{0}\"")]
    Duplicate(String),
    /// A declaration depends on a resource that there is not, or notifies it.
    #[error("resource \"{resource}\" uses an unknown resource \"{unknown}\"")]
    Unknown {
        /// The resource that uses it.
        resource: String,
        /// The name that nothing has.
        unknown: String,
    },
    /// Resources depend on each other in a circle; the first one is also the last.
    #[error("circular dependency: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

impl Graph {
    /// Makes the graph of some declarations.
    ///
    /// Dependencies and notifications are its edges: what is depended on comes before its
    /// dependent, and what notifies comes before what it notifies.
    ///
    /// # Errors
    ///
    /// When a name is there twice or not at all, or there is a cycle. A loaded manifest has none
    /// of that.
    pub fn new(declarations: &[Declaration]) -> Result<Self, GraphError> {
        let mut positions = HashMap::with_capacity(declarations.len());
        for (index, declaration) in declarations.iter().enumerate() {
            if positions.insert(declaration.name.as_str(), index).is_some() {
                return Err(GraphError::Duplicate(declaration.name.clone()));
            }
        }
        let mut inputs = vec![Vec::new(); declarations.len()];
        for (index, declaration) in declarations.iter().enumerate() {
            let find = |name: &str| match positions.get(name) {
                Some(position) => Ok(*position),
                None => Err(GraphError::Unknown {
                    resource: declaration.name.clone(),
                    unknown: name.to_owned(),
                }),
            };
            for dependency in &declaration.dependencies {
                inputs[index].push(find(&dependency.resource)?);
            }
            for notified in &declaration.notify {
                inputs[find(notified)?].push(index);
            }
        }
        Self::from_inputs(inputs).map_err(|cycles| {
            let path = cycles.first().map_or(&[][..], Vec::as_slice);
            GraphError::Cycle(path.iter().map(|index| declarations[*index].name.clone()).collect())
        })
    }

    /// Makes a graph of what each node needs. The error is the paths of cycles.
    pub(crate) fn from_inputs(mut inputs: Vec<Vec<usize>>) -> Result<Self, Vec<Vec<usize>>> {
        for inputs in &mut inputs {
            inputs.sort_unstable();
            inputs.dedup();
        }
        let order = sort(&inputs)?;
        let mut dependents = vec![Vec::new(); inputs.len()];
        for (index, inputs) in inputs.iter().enumerate() {
            for input in inputs {
                dependents[*input].push(index);
            }
        }
        Ok(Self { order, inputs, dependents })
    }

    /// Returns the resources, each after all that it needs; otherwise in the order of the
    /// manifest.
    pub fn order(&self) -> &[usize] {
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

/// How many cycles are looked for.
const MAX_CYCLES: usize = 20;
