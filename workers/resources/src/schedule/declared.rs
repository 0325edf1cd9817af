//! The schedule of resources that are declared.

use std::collections::HashMap;

use crate::declare::declaration::Declaration;
use crate::declare::order::Order;
use crate::kind::kinds::Kinds;
use crate::schedule::{Graph, GraphBuilder, Id};

/// Returns the graph of declarations that are in an order. `id` returns the number of the resource
/// at a position.
pub(crate) fn graph(
    order: &Order,
    declarations: &[Declaration],
    kinds: &Kinds,
    id: impl Fn(usize) -> Id,
) -> Graph {
    let names = declarations.iter().map(|declaration| declaration.name.as_str());
    let positions: HashMap<&str, usize> = names.zip(0..).collect();
    let mut grouping: HashMap<&str, u32> = HashMap::new();
    let mut builder = GraphBuilder::default();
    for node in order.nodes().iter().copied() {
        let declaration = &declarations[node];
        let kind = kinds.get(&declaration.kind).ok().filter(|kind| kind.is_grouping());
        let next = u32::try_from(grouping.len()).expect("there are fewer kinds");
        let kind = kind.map(|kind| *grouping.entry(kind.name()).or_insert(next));
        builder.resource(id(node), kind);
        for used in declaration.needs().filter_map(|(name, _)| positions.get(name)) {
            builder.needs(id(node), id(*used));
        }
        for source in order.notifiers(node) {
            builder.notifies(id(*source), id(node));
        }
    }
    builder.build().expect("they are in an order")
}
