//! The operations of one update, applied together.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use serde_json::Value;

use crate::change::FactsError;
use crate::list::Chunks;
use crate::operation::{
    How, Lenience, Operation, Step, Undone, apply, delete_from, missing, put_into,
};
use crate::pointer::Pointer;
use crate::tree::{Node, Tree, index, member};
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
    let mut edited = Edited { facts: facts.clone(), lists: BTreeMap::new(), left: MOST_VALUES };
    for (number, operation) in operations.iter().enumerate() {
        edited.apply(operation, lenience).map_err(|undone| refused(undone, place_of(number)))?;
    }
    edited.close(&Pointer::root());
    Ok(edited.facts)
}

fn refused(Undone { path, why, is_test }: Undone, place: Option<Pointer>) -> FactsError {
    match is_test {
        true => FactsError::Test { path, why },
        false => FactsError::Invalid(Violation::of_fact(&path, why).written_at(place).into()),
    }
}

/// Facts while operations change them. A long list whose items change is in chunks, until an operation uses it as a
/// whole: so each operation costs what it touches, in any order of operations.
struct Edited {
    facts: Tree,
    /// The long lists, by path. In the facts there is null meanwhile.
    lists: BTreeMap<Pointer, Chunks>,
    /// How many values may still be copied.
    left: usize,
}

impl Edited {
    fn apply(&mut self, operation: &Operation, lenience: Lenience) -> Result<(), Undone> {
        let step = match operation {
            Operation::Set(path, data) => Step::Put(How::Set, path, data),
            Operation::Insert(path, data) => Step::Put(How::Insert, path, data),
            Operation::Add(path, data) => Step::Put(How::Add, path, data),
            Operation::Replace(path, data) => Step::Put(How::Replace, path, data),
            Operation::Delete(path) => Step::Delete(path),
            Operation::Test(path, data) => Step::Test(path, data),
            Operation::Move(from, path) => {
                if path.is_within(from) && path != from {
                    return Err(Undone::new(path, format!("{from} cannot be moved into itself")));
                }
                let moved = self.at(from)?.to_value();
                self.step(Step::Delete(from), Lenience::default())?;
                return self.step(Step::Put(How::Add, path, &moved), lenience);
            }
            Operation::Copy(from, path) => {
                let copied = self.at(from)?;
                // Without a limit, copies of copies could fill the memory.
                self.left = self.left.checked_sub(copied.count()).ok_or_else(|| {
                    Undone::new(path, format!("an update copies at most {MOST_VALUES} values"))
                })?;
                return self.step(Step::Put(How::Add, path, &copied.to_value()), lenience);
            }
        };
        self.step(step, lenience)
    }

    fn step(&mut self, step: Step<'_>, lenience: Lenience) -> Result<(), Undone> {
        let path = step.path();
        self.open(step);
        let Some((list, depth)) = self.list_above(path) else {
            self.close(path);
            return apply(&mut self.facts, step, lenience);
        };
        let is_item = path.parts().len() == depth + 1;
        match step {
            Step::Put(how, path, data) if is_item => return put_into(list, (path, data), how),
            Step::Delete(path) if is_item => return delete_from(list, path, lenience),
            _ => {}
        }
        match index(&path.parts()[depth]).and_then(|at| list.get_mut(at)) {
            Some(item) => apply_within(item, &path.up_to(depth + 1), step, lenience),
            // The whole list has the words for what is missing.
            None => {
                self.close(&path.up_to(depth));
                apply(&mut self.facts, step, lenience)
            }
        }
    }

    /// Returns the facts at a path.
    fn at(&mut self, path: &Pointer) -> Result<Tree, Undone> {
        let in_list = self.list_above(path).and_then(|(list, depth)| {
            let (first, rest) = path.parts()[depth..].split_first()?;
            let item: &Value = list.get_mut(index(first)?)?;
            rest.iter().try_fold(item, |value, segment| member(value, segment)).cloned()
        });
        if let Some(found) = in_list {
            return Ok(Tree(Node::Leaf(Arc::new(found))));
        }
        self.close(path);
        if let Some(found) = self.facts.at(path) {
            return Ok(found);
        }
        self.close(&Pointer::root());
        Err(missing(&self.facts, path))
    }

    /// Puts a long list into chunks if a step changes an item of it.
    fn open(&mut self, step: Step<'_>) {
        let path = step.path();
        let Some((depth, value)) = value_above(&self.facts, path) else { return };
        let is_item = path.parts().len() == depth + 1 && !matches!(step, Step::Test(..));
        if is_item && value.as_array().is_some_and(|items| items.len() >= LONG) {
            let list = path.up_to(depth);
            let items = taken(&mut self.facts, &list);
            self.lists.insert(list, Chunks::new(items));
        }
    }

    /// Returns the list in chunks that a path leads into, and the number of segments that lead to the list.
    fn list_above(&mut self, path: &Pointer) -> Option<(&mut Chunks, usize)> {
        let (depth, _) = value_above(&self.facts, path)?;
        Some((self.lists.get_mut(&path.up_to(depth))?, depth))
    }

    /// Puts the lists at and below a path back into the facts.
    fn close(&mut self, path: &Pointer) {
        // The paths are sorted: the paths within a path follow it directly.
        let within = self.lists.range::<Pointer, _>(path..).map(|(list, _)| list);
        let within: Vec<_> = within.take_while(|list| list.is_within(path)).cloned().collect();
        for path in within {
            if let Some(list) = self.lists.remove(&path) {
                self.facts.put(&path, Node::Leaf(Arc::new(Value::Array(list.into_items()))));
            }
        }
    }
}

/// Returns the value that a path leads into, and the number of segments that lead to the value; none if the path leads
/// into maps only.
fn value_above<'a>(facts: &'a Tree, path: &Pointer) -> Option<(usize, &'a Value)> {
    let mut node = &facts.0;
    for (depth, segment) in path.parts().iter().enumerate() {
        match node {
            Node::Map(members) => node = members.get(segment)?,
            Node::Leaf(value) => return Some((depth, value)),
        }
    }
    None
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

/// Applies a step to an item of a list, or to what is in the item. `path` is the path of the item.
fn apply_within(
    item: &mut Value,
    path: &Pointer,
    step: Step<'_>,
    lenience: Lenience,
) -> Result<(), Undone> {
    let mut facts = Tree::default();
    facts.put(path, Node::Leaf(Arc::new(mem::take(item))));
    let applied = apply(&mut facts, step, lenience);
    if let Some(Node::Leaf(changed)) = facts.node(path).cloned() {
        drop(facts);
        *item = Arc::unwrap_or_clone(changed);
    }
    applied
}

#[cfg(test)]
mod tests {
    use std::slice;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::edited;
    use crate::operation::{Lenience, Operation};
    use crate::pointer::Pointer;
    use crate::tree::Tree;

    fn path(text: &str) -> Pointer {
        text.parse().unwrap()
    }

    fn items(from: usize) -> Value {
        (from..from + 1_200).map(|at| json!({"n": at})).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn operations_together_do_what_they_do_one_by_one(
            wanted in proptest::collection::vec((0..9_u8, 0..1_150_usize, 0..1_150_usize), 1..30),
        ) {
            let lenience = Lenience::default();
            let before = Tree::from_value(json!({"a": items(0), "b": items(5_000)})).unwrap();
            let (mut one_by_one, mut operations) = (before.clone(), Vec::new());
            for (number, (what, at, other)) in wanted.into_iter().enumerate() {
                let (in_a, in_b) = (path(&format!("/a/{at}")), path(&format!("/b/{other}")));
                let operation = match what {
                    0 => Operation::Insert(in_a, json!(number)),
                    1 => Operation::Set(in_a, json!(number)),
                    2 => Operation::Delete(in_a),
                    3 => Operation::Set(path(&format!("/a/{at}/n")), json!(number)),
                    4 => {
                        let value = one_by_one.at(&in_a).unwrap().to_value();
                        Operation::Test(in_a, value)
                    }
                    5 => Operation::Move(in_a, in_b),
                    6 => Operation::Copy(in_b, in_a),
                    7 => Operation::Set(path("/a"), items(10_000 + number)),
                    _ => Operation::Copy(path("/a"), path("/c")),
                };
                // A number has no member.
                let one = slice::from_ref(&operation);
                if let Ok(next) = edited(&one_by_one, one, lenience, |_| None) {
                    one_by_one = next;
                    operations.push(operation);
                }
            }

            let together = edited(&before, &operations, lenience, |_| None).unwrap();

            prop_assert!(together == one_by_one);
        }
    }
}
