//! The operations of one update, applied together.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::change::FactsError;
use crate::list::Chunks;
use crate::operation::{self, Lenience, Operation, Undone};
use crate::pointer::Pointer;
use crate::tree::{Node, Tree};
use crate::violation::Violation;

/// The most values that one update may copy.
const MOST_VALUES: usize = 1_000_000;

/// The number of items from which on a list is changed in chunks.
const LONG: usize = 1_000;

/// Returns the facts after all operations, which are applied in order.
pub(crate) fn edited(
    facts: &Tree,
    operations: &[Operation],
    lenience: Lenience,
    place_of: impl Fn(usize) -> Option<Pointer>,
) -> Result<Tree, FactsError> {
    let (mut facts, mut lists, mut left) = (facts.clone(), Lists::default(), MOST_VALUES);
    for (index, operation) in operations.iter().enumerate() {
        if let Some(list) = lists.of(&mut facts, operation) {
            operation::apply_to_item(list, operation, lenience)
                .map_err(|undone| refused(undone, place_of(index)))?;
            continue;
        }
        if let Operation::Copy(from, path) = operation {
            // Without a limit, copies of copies could fill the memory.
            let count = facts.at(from).map_or(0, |copied| copied.count());
            left = left.checked_sub(count).ok_or_else(|| {
                let message = format!("an update copies at most {MOST_VALUES} values");
                let violation = Violation::of_fact(path, message).written_at(place_of(index));
                FactsError::Invalid(violation.into())
            })?;
        }
        operation::apply(&mut facts, operation, lenience)
            .map_err(|undone| refused(undone, place_of(index)))?;
    }
    lists.close(&mut facts, |_| true);
    Ok(facts)
}

fn refused(Undone { path, why, is_test }: Undone, place: Option<Pointer>) -> FactsError {
    match is_test {
        true => FactsError::Test { path, why },
        false => FactsError::Invalid(Violation::of_fact(&path, why).written_at(place).into()),
    }
}

/// The long lists whose items change. They are in the facts again when they are closed.
#[derive(Default)]
struct Lists(BTreeMap<Pointer, Chunks>);

impl Lists {
    /// Returns the long list with the item that an operation changes; none for other operations. Closes the lists that
    /// the operation uses in another way.
    fn of(&mut self, facts: &mut Tree, operation: &Operation) -> Option<&mut Chunks> {
        let is_of_item =
            !matches!(operation, Operation::Test(..) | Operation::Move(..) | Operation::Copy(..));
        let above = operation.path().split_last().map(|(above, _)| above).filter(|_| is_of_item);
        let Some(above) = above.filter(|above| self.0.contains_key(above) || is_long(facts, above))
        else {
            self.close(facts, |list| operation.used().any(|path| path.touches(list)));
            return None;
        };
        Some(self.0.entry(above).or_insert_with_key(|above| Chunks::new(taken(facts, above))))
    }

    /// Puts lists back into the facts.
    fn close(&mut self, facts: &mut Tree, is_meant: impl Fn(&Pointer) -> bool) {
        for (path, list) in self.0.extract_if(.., |path, _| is_meant(path)) {
            facts.put(&path, Node::Leaf(Arc::new(Value::Array(list.into_items()))));
        }
    }
}

fn is_long(facts: &Tree, path: &Pointer) -> bool {
    match facts.node(path) {
        Some(Node::Leaf(value)) => value.as_array().is_some_and(|items| items.len() >= LONG),
        _ => false,
    }
}

/// Takes the items of a list out of the facts.
fn taken(facts: &mut Tree, path: &Pointer) -> Vec<Value> {
    let list = facts.at(path);
    // The list is not shared with these facts any more, and is cloned only if others have it.
    facts.put(path, Node::Leaf(Arc::new(Value::Null)));
    match list {
        Some(Tree(Node::Leaf(list))) => match Arc::unwrap_or_clone(list) {
            Value::Array(items) => items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
