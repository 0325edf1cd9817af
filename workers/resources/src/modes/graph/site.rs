//! How a graph becomes a site on one machine, and the checks that may refuse it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::base::error::AttributeError;
use crate::base::naming::is_name;
use crate::base::text::did_you_mean;
use crate::declare::automatic::{conflicts, connect};
use crate::declare::declaration::{Config, Declaration, DeclarationFields, Dependency, Wanted};
use crate::declare::file_conflicts::file_conflicts;
use crate::declare::known::KnownConfig;
use crate::declare::literal::Literal;
use crate::declare::surroundings::Surroundings;
use crate::kind::kinds::Kinds;
use crate::modes::graph::error::{GraphError, NodeError};
use crate::modes::graph::node::Node;
use crate::modes::graph::{Graph, order};
use crate::modes::site::Site;

impl Graph {
    /// Returns the graph as a site, which can be planned, applied and kept: every node is a resource.
    /// Edges that follow from claims are added, and parts, as for a manifest.
    ///
    /// # Errors
    ///
    /// All that is wrong: names, requirements, cycles, kinds, attributes as far as they are known, things that two
    /// nodes keep, also one file under two paths, and files in the state folder that the surroundings name. Nothing is
    /// executed; the files that nodes keep are looked at, which blocks for the disk.
    pub fn site(&self, kinds: &Kinds, surroundings: &Surroundings) -> Result<Site, GraphError> {
        let nodes: Vec<&Node> = self.nodes().collect();
        let order = order(&nodes)?;
        let mut errors = Vec::new();
        let mut wanted = wanted(&nodes);
        let mut declared = BTreeMap::new();
        let mut states: HashMap<&str, Map<String, Value>> = HashMap::new();
        let of_kind: HashMap<&str, &str> =
            nodes.iter().map(|node| (node.declared.name.as_str(), node.kind())).collect();
        for index in order.nodes() {
            let node = nodes[*index];
            let (name, place) = (&node.declared.name, &node.place);
            if !is_name(name) {
                errors.push(NodeError::Name { name: name.clone(), place: place.clone() });
            }
            let kind = match kinds.get(node.kind()) {
                Ok(kind) => kind,
                Err(error) => {
                    let (name, place) = (name.clone(), place.clone());
                    errors.push(NodeError::Kind { name, place, error });
                    continue;
                }
            };
            let mut declaration = node.declare(surroundings);
            declaration.wanted = wanted.remove(name.as_str()).unwrap_or_else(Wanted::nothing);
            declaration.host = kind.reads_host().then(|| Arc::clone(&surroundings.host));
            let (config, unknown) = node.known(&states);
            let known = KnownConfig { config: &config, unknown: &unknown };
            let all = kinds.declare(&mut declaration, &known);
            let wrong = node.declared.meta.errors().into_iter().chain(all.judged.errors);
            let wrong = wrong.chain(node.wrong_uses(kinds, &of_kind));
            errors.extend(wrong.map(|error| {
                let (name, place) = (name.clone(), place.clone());
                NodeError::Attribute { name, place, error }
            }));
            states.insert(name, all.judged.declared);
            let parts = all.parts.into_iter().map(|part| part.declaration);
            declared.insert(*index, [declaration].into_iter().chain(parts).collect::<Vec<_>>());
        }
        let mut declarations: Vec<_> = declared.into_values().flatten().collect();
        errors.extend(refused(&declarations, surroundings));
        GraphError::of(errors)?;
        connect(&mut declarations);
        let site = Site::new(declarations, kinds.clone(), self.digest());
        site.map_err(|error| NodeError::Order(error).into())
    }

    /// Returns the digest of what the nodes declare.
    fn digest(&self) -> String {
        let nodes: Vec<_> = self.nodes().map(|node| &node.declared).collect();
        let text = serde_json::to_vec(&nodes).expect("nodes are data");
        base16ct::lower::encode_string(&Sha256::digest(text))
    }
}

/// Returns what nodes cannot keep: what other nodes keep, also under another path, and what is the agent's.
fn refused(declarations: &[Declaration], surroundings: &Surroundings) -> Vec<NodeError> {
    let named = |index: usize| {
        let DeclarationFields { name, place, .. } = &*declarations[index];
        (name.clone(), place.clone())
    };
    let things = conflicts(declarations).into_iter().map(|it| NodeError::conflict(it, named));
    let files = file_conflicts(declarations, surroundings.state.as_deref()).into_iter();
    things.chain(files.map(|it| NodeError::of_file(it, named))).collect()
}

/// Returns which attributes of the states of nodes are used.
fn wanted<'a>(nodes: &[&'a Node]) -> HashMap<&'a str, Wanted> {
    let mut wanted: HashMap<_, Wanted> = HashMap::new();
    for used in nodes.iter().flat_map(|node| node.declared.uses.values()) {
        let attribute = BTreeSet::from([used.attribute.clone()]);
        let of = wanted.entry(used.node.as_str()).or_insert_with(Wanted::nothing);
        of.add(Wanted::Attributes(attribute));
    }
    wanted
}

impl Node {
    fn declare(&self, surroundings: &Surroundings) -> Declaration {
        let mut config = Literal::new(self.declared.config.clone()).scoped(&surroundings.scope);
        for (attribute, used) in &self.declared.uses {
            config = config.using(attribute, &used.node, &used.attribute);
        }
        let dependencies = self.declared.requires.iter().map(|(node, on_change)| Dependency {
            alias: node.clone(),
            resource: node.clone(),
            on_change: *on_change,
        });
        let meta = &self.declared.meta;
        let (place, folder) = (self.place.clone(), &surroundings.folder);
        let mut declaration = config.declare_at(place, folder, self.name(), self.kind());
        declaration.dependencies = dependencies.collect();
        // What is only read is never changed.
        declaration.noop = meta.noop || self.declared.readonly;
        declaration.readonly = self.declared.readonly;
        declaration.reverse = meta.reverse;
        declaration.poll = meta.poll;
        declaration.backoff = None;
        declaration.timeout = meta.timeout;
        declaration.has_automatic_edges = meta.automatic_edges;
        declaration.tags = self.declared.tags.iter().cloned().collect();
        declaration
    }

    /// Returns the errors of the attributes that it takes from states and that these do not have.
    fn wrong_uses(&self, kinds: &Kinds, of_kind: &HashMap<&str, &str>) -> Vec<AttributeError> {
        let uses = self.declared.uses.iter().filter_map(|(attribute, used)| {
            let states = kinds.get(of_kind.get(used.node.as_str())?).ok()?.states();
            if states.is_open || states.get(&used.attribute).is_some() {
                return None;
            }
            let hint = did_you_mean(&used.attribute, states.names());
            let message =
                format!("the state of \"{}\" has no \"{}\"{hint}", used.node, used.attribute);
            Some(AttributeError::new(attribute, message))
        });
        uses.collect()
    }

    /// Returns the config as far as it is known before anything is looked at, and what is not.
    fn known(&self, states: &HashMap<&str, Map<String, Value>>) -> (Config, BTreeSet<String>) {
        let (mut config, mut unknown) = (self.declared.config.clone(), BTreeSet::new());
        for (attribute, used) in &self.declared.uses {
            let state = states.get(used.node.as_str());
            let value = state.and_then(|state| state.get(&used.attribute)).cloned();
            if value.is_none() {
                unknown.insert(attribute.clone());
            }
            config.insert(attribute.clone(), value.unwrap_or_default());
        }
        (config, unknown)
    }
}
