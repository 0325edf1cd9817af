//! Operations, and their effect on the facts.

use std::sync::Arc;
use std::{fmt, io};

use serde::Serialize;
use serde_json::Value;
use smol_str::SmolStr;

use crate::list::Items;
use crate::pointer::Pointer;
use crate::tree::{Members, Node, Tree, index};

/// One step of an update. A table in the [documentation of facts](crate#operations) shows the effects.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Puts a value at a path. Replaces an existing value.
    Set(Pointer, Value),
    /// Puts a value at a path without a fact, or into a list before the item at the path.
    Insert(Pointer, Value),
    /// Removes the fact at a path.
    Delete(Pointer),
    /// Stops the update unless this value is at a path.
    Test(Pointer, Value),
    /// `add` of RFC 6902: inserts into a list, and sets in a map.
    Add(Pointer, Value),
    /// `replace` of RFC 6902: sets an existing fact.
    Replace(Pointer, Value),
    /// `move` of RFC 6902: from the first path to the second one.
    Move(Pointer, Pointer),
    /// `copy` of RFC 6902: from the first path to the second one.
    Copy(Pointer, Pointer),
}

impl fmt::Debug for Operation {
    /// Writes the name and the path, but not the value: it may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Set(..) => "Set",
            Self::Insert(..) => "Insert",
            Self::Delete(_) => "Delete",
            Self::Test(..) => "Test",
            Self::Add(..) => "Add",
            Self::Replace(..) => "Replace",
            Self::Move(..) => "Move",
            Self::Copy(..) => "Copy",
        };
        write!(f, "{name}({})", self.path())
    }
}

impl Operation {
    /// Returns the paths that the operation may change.
    pub(crate) fn touched(&self) -> impl Iterator<Item = &Pointer> {
        let from = match self {
            Self::Move(from, _) => Some(from),
            _ => None,
        };
        from.into_iter().chain([self.path()])
    }

    /// Returns the paths that the operation reads or may change.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Pointer> {
        let from = match self {
            Self::Move(from, _) | Self::Copy(from, _) => Some(from),
            _ => None,
        };
        from.into_iter().chain([self.path()])
    }

    /// Returns the size of the operation's paths and data, in bytes of JSON.
    pub(crate) fn size(&self) -> usize {
        let paths: usize = self.used().map(|path| json_size(&path.to_string())).sum();
        let data = self.data().map_or(0, json_size);
        paths + data
    }

    fn data(&self) -> Option<&Value> {
        match self {
            Self::Set(_, data)
            | Self::Insert(_, data)
            | Self::Test(_, data)
            | Self::Add(_, data)
            | Self::Replace(_, data) => Some(data),
            Self::Delete(_) | Self::Move(..) | Self::Copy(..) => None,
        }
    }

    /// Returns a tree with only the data of the operation, at its path; none if it has no data. If a stored list is
    /// above the path, the tree has a list there.
    pub(crate) fn facts(&self, stored: &Tree) -> Option<Tree> {
        let (path, data) = (self.path(), self.data()?);
        let mut facts = Tree::default();
        // A list is one value, so the data is put into a new list at the path of the stored one.
        let leads_into_a_list = (0..path.parts().len())
            .rev()
            .map(|end| path.up_to(end))
            .find(|above| stored.at(above).is_some_and(|above| !above.is_map()));
        let (path, data) = match leads_into_a_list {
            Some(list) => {
                let rest = path.strip_prefix(&list).unwrap_or_default();
                let inner = rest.segments().skip(1).collect::<Vec<_>>().into_iter().rev();
                let item = inner.fold(data.clone(), |data, name| serde_json::json!({name: data}));
                (list, Value::Array(vec![item]))
            }
            None => (path.clone(), data.clone()),
        };
        facts.put(&path, Tree::from_value(data).ok()?.0);
        Some(facts)
    }

    /// Returns the path that the operation changes or tests.
    pub fn path(&self) -> &Pointer {
        match self {
            Self::Set(path, _)
            | Self::Insert(path, _)
            | Self::Delete(path)
            | Self::Test(path, _)
            | Self::Add(path, _)
            | Self::Replace(path, _)
            | Self::Move(_, path)
            | Self::Copy(_, path) => path,
        }
    }
}

/// Why an operation cannot be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Undone {
    /// The path at fault.
    pub(crate) path: Pointer,
    pub(crate) why: String,
    /// Whether a TEST has failed. That is no fault of the update.
    pub(crate) is_test: bool,
}

impl Undone {
    pub(crate) fn new(path: &Pointer, why: impl Into<String>) -> Self {
        Self { path: path.clone(), why: why.into(), is_test: false }
    }
}

/// How strict operations are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lenience {
    /// Whether missing maps on the way to a path are created.
    pub(crate) creates_parents: bool,
    /// Whether a DELETE of a missing fact does nothing.
    pub(crate) ignores_missing: bool,
}

/// How a value is put at a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum How {
    Set,
    Insert,
    Add,
    Replace,
}

/// A part of an operation, which uses one path.
#[derive(Clone, Copy)]
pub(crate) enum Step<'a> {
    Put(How, &'a Pointer, &'a Value),
    Delete(&'a Pointer),
    Test(&'a Pointer, &'a Value),
}

impl<'a> Step<'a> {
    pub(crate) fn path(self) -> &'a Pointer {
        match self {
            Self::Put(_, path, _) | Self::Delete(path) | Self::Test(path, _) => path,
        }
    }
}

/// Applies one step. The tree must not be used after an error.
pub(crate) fn apply(tree: &mut Tree, step: Step<'_>, lenience: Lenience) -> Result<(), Undone> {
    match step {
        Step::Put(how, path, data) => put(tree, (path, data), how, lenience),
        Step::Delete(path) => delete(tree, path, lenience),
        Step::Test(path, data) => {
            let expected =
                Tree::from_value(data.clone()).map_err(|(_, why)| Undone::new(path, why))?;
            match tree.at(path) {
                Some(found) if found.to_value() == expected.to_value() => Ok(()),
                Some(_) => {
                    Err(Undone { is_test: true, ..Undone::new(path, "another value is there") })
                }
                None => Err(Undone { is_test: true, ..missing(tree, path) }),
            }
        }
    }
}

/// The map or the value that contains the changed fact.
enum Holder<'a> {
    Map(&'a mut Members),
    Value(&'a mut Value),
}

fn put(
    tree: &mut Tree,
    (path, data): (&Pointer, &Value),
    how: How,
    lenience: Lenience,
) -> Result<(), Undone> {
    let Some((above, last)) = path.split_last() else {
        return put_root(tree, data, how);
    };
    if lenience.creates_parents {
        create_parents(tree, &above);
    }
    match holder(tree, &above)? {
        Holder::Map(members) => {
            check_presence(path, members.contains_key(last), how)?;
            let node = node_at(path, data)?;
            members.insert(last.into(), node);
        }
        Holder::Value(value) => {
            // A list, and maps in it, count as levels too.
            let data = node_at(path, data)?.to_value();
            put_in_value(value, (path, last), data, how)?;
        }
    }
    Ok(())
}

/// Converts a value to the node at a path.
fn node_at(path: &Pointer, data: &Value) -> Result<Node, Undone> {
    let tree = Tree::of_value_at(path, data).map_err(|(at, why)| Undone::new(&at, why))?;
    Ok(tree.0)
}

fn put_root(tree: &mut Tree, data: &Value, how: How) -> Result<(), Undone> {
    let root = Pointer::root();
    if how == How::Insert {
        return Err(Undone::new(&root, "the root is there already"));
    }
    if !data.is_object() {
        return Err(Undone::new(&root, format!("the root is a map, not {}", described(data))));
    }
    tree.0 = node_at(&root, data)?;
    Ok(())
}

fn put_in_value(
    value: &mut Value,
    (path, last): (&Pointer, &str),
    data: Value,
    how: How,
) -> Result<(), Undone> {
    match value {
        Value::Object(map) => {
            check_presence(path, map.contains_key(last), how)?;
            map.insert(last.to_owned(), data);
            map.sort_keys();
        }
        Value::Array(items) => return put_item(items, (path, last), data, how),
        scalar => return Err(no_holder(path, described(scalar))),
    }
    Ok(())
}

fn put_item(
    items: &mut impl Items,
    (path, last): (&Pointer, &str),
    data: Value,
    how: How,
) -> Result<(), Undone> {
    let count = items.count();
    let is_new = matches!(how, How::Insert | How::Add);
    let at = if last == "-" && is_new { Some(count) } else { index(last) };
    match at.filter(|at| *at < count || is_new && *at == count) {
        Some(at) if is_new => items.insert(at, data),
        Some(at) => items.replace(at, data),
        None => return Err(no_item(path, count)),
    }
    Ok(())
}

/// Puts a value into a list, at the item that the last segment of a path names.
pub(crate) fn put_into(
    items: &mut impl Items,
    (path, data): (&Pointer, &Value),
    how: How,
) -> Result<(), Undone> {
    let last = path.segments().next_back().unwrap_or_default();
    put_item(items, (path, last), node_at(path, data)?.to_value(), how)
}

/// Removes the item of a list that a path leads to.
pub(crate) fn delete_from(
    items: &mut impl Items,
    path: &Pointer,
    lenience: Lenience,
) -> Result<(), Undone> {
    let count = items.count();
    let last = path.segments().next_back().unwrap_or_default();
    match index(last).filter(|at| *at < count) {
        Some(at) => items.remove(at),
        None if lenience.ignores_missing => {}
        None => return Err(no_item(path, count)),
    }
    Ok(())
}

fn check_presence(path: &Pointer, is_there: bool, how: How) -> Result<(), Undone> {
    match (how, is_there) {
        (How::Insert, true) => {
            Err(Undone::new(path, "it is there already; SET puts a value in its place"))
        }
        (How::Replace, false) => Err(Undone::new(path, "there is nothing to replace")),
        _ => Ok(()),
    }
}

fn delete(tree: &mut Tree, path: &Pointer, lenience: Lenience) -> Result<(), Undone> {
    let Some((above, last)) = path.split_last() else {
        let why = "the root cannot be deleted; SET puts an empty map in its place";
        return Err(Undone::new(path, why));
    };
    if tree.at(path).is_none() {
        return if lenience.ignores_missing { Ok(()) } else { Err(missing(tree, path)) };
    }
    match holder(tree, &above)? {
        Holder::Map(members) => drop(members.remove(last)),
        Holder::Value(Value::Object(map)) => drop(map.shift_remove(last)),
        Holder::Value(Value::Array(items)) => {
            index(last).filter(|at| *at < items.len()).map(|at| items.remove(at));
        }
        Holder::Value(_) => {}
    }
    Ok(())
}

/// Returns the map or the value at a path, so that the caller can change it.
fn holder<'a>(tree: &'a mut Tree, path: &Pointer) -> Result<Holder<'a>, Undone> {
    if tree.at(path).is_none() {
        let Undone { path, why, .. } = missing(tree, path);
        let why = format!(
            "{why} to put it into; \"create_parents\" (--create-parents) makes the maps that lead to it"
        );
        return Err(Undone { path, why, is_test: false });
    }
    held(&mut tree.0, path.parts()).ok_or_else(|| Undone::new(path, format!("there is no {path}")))
}

fn held<'a>(node: &'a mut Node, path: &[SmolStr]) -> Option<Holder<'a>> {
    match (node, path) {
        (Node::Map(members), []) => Some(Holder::Map(Arc::make_mut(members))),
        (Node::Map(members), [first, rest @ ..]) => {
            held(Arc::make_mut(members).get_mut(first)?, rest)
        }
        (Node::Leaf(value), path) => {
            let value = path.iter().try_fold(Arc::make_mut(value), |value, segment| match value {
                Value::Array(items) => items.get_mut(index(segment)?),
                Value::Object(map) => map.get_mut(segment.as_str()),
                _ => None,
            });
            value.map(Holder::Value)
        }
    }
}

/// Creates the missing maps on the way to a path. Stops at a value that is no map.
fn create_parents(tree: &mut Tree, path: &Pointer) {
    let mut node = &mut tree.0;
    for segment in path.parts() {
        let Node::Map(members) = node else { return };
        node = Arc::make_mut(members).entry(segment.clone()).or_insert_with(|| Tree::default().0);
    }
}

/// Returns the error for the first missing segment of a path.
pub(crate) fn missing(tree: &Tree, path: &Pointer) -> Undone {
    let mut above = Pointer::root();
    for segment in path.segments() {
        let next = above.join(segment);
        if tree.at(&next).is_none() {
            let above = tree.at(&above).filter(|above| !above.is_map());
            return match above.map(|above| above.to_value()) {
                Some(Value::Object(_)) | None => Undone::new(&next, format!("there is no {next}")),
                Some(Value::Array(items)) => no_item(&next, items.len()),
                Some(scalar) => no_holder(&next, described(&scalar)),
            };
        }
        above = next;
    }
    Undone::new(path, "it is there")
}

fn no_item(path: &Pointer, count: usize) -> Undone {
    Undone::new(path, format!("the list has {count} items, counted from 0"))
}

fn no_holder(path: &Pointer, what: &str) -> Undone {
    let above = path.split_last().map(|(above, _)| above).unwrap_or_default();
    Undone::new(path, format!("{above} is {what}, in which nothing is"))
}

/// Returns the size of a value as JSON, in bytes.
pub(crate) fn json_size(value: &(impl Serialize + ?Sized)) -> usize {
    let mut counter = Counter(0);
    // Only a value that is no JSON fails, and the parts of facts are all JSON.
    drop(serde_json::to_writer(&mut counter, value));
    counter.0
}

/// Counts the bytes that are written to it.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the kind of a value, in words.
pub(crate) fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
