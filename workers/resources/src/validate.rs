use crankcase_engine::Stop;

use crate::declaration::{Declaration, DependencyState, Place, States};
use crate::graph::{Graph, GraphError};
use crate::kinds::Kinds;
use crate::look::{Setting, make};

/// A declaration that its kind does not accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: resource \"{name}\": {message}")]
pub struct InvalidError {
    /// The resource's name.
    pub name: String,
    /// Where it is declared.
    pub place: Place,
    /// What is wrong with it and what would be right.
    pub message: String,
}

/// Returns the declarations that are not valid, without looking at the machine.
///
/// A config that uses the states of other resources is judged later, when they are known.
///
/// # Errors
///
/// When the declarations cannot be put into an order.
pub fn validate(
    declarations: &[Declaration],
    kinds: &Kinds,
) -> Result<Vec<InvalidError>, GraphError> {
    Graph::new(declarations)?;
    let (_, stop) = Stop::pair();
    let setting = Setting { kinds: kinds.clone(), stop };
    let invalid = declarations.iter().filter_map(|declaration| {
        let unknown = |alias: &str| (alias.to_owned(), DependencyState::Unknown);
        let states: States =
            declaration.dependencies.iter().map(|used| unknown(&used.alias)).collect();
        let message = make(declaration, &setting, &states).err()?;
        let (name, place) = (declaration.name.clone(), declaration.place.clone());
        Some(InvalidError { name, place, message })
    });
    Ok(invalid.collect())
}
