//! Samples together with others, in random graphs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::declare::automatic::connect;
use crate::declare::declaration::{Config, Declaration, Dependency, OnChange};
use crate::declare::known::KnownConfig;
use crate::declare::literal::Literal;
use crate::kind::kinds::Kinds;
use crate::kind::resource::Resource;
use crate::kind::typed::kind;
use crate::report::planned::{Plan, Verdict};
use crate::testing::conformance::{allow, listed, paths, secrets, whole};
use crate::testing::giver::Giver;
use crate::testing::runs::{apply_all, disagreement, plan_all};
use crate::testing::sample::Sample;
use crate::testing::world::World;

/// How likely it is that one resource depends on an earlier one.
const EDGE: f64 = 0.3;

/// Tries a random graph of some samples; returns what is wrong.
pub(super) fn check(kinds: &Kinds, samples: &[Sample], seed: u64) -> io::Result<Vec<String>> {
    let kinds = kinds.clone().with(kind::<Giver>());
    let world = World::new()?;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut order = Order::new(kinds, &world);
    order.fill(samples, &mut rng)?;
    order.converges()?;
    order.sees_drifts(&mut rng)?;
    Ok(order.wrong)
}

struct Order<'a> {
    kinds: Kinds,
    world: &'a World,
    nodes: Vec<Node<'a>>,
    declarations: Vec<Declaration>,
    secrets: BTreeSet<String>,
    wrong: Vec<String>,
}

struct Node<'a> {
    sample: &'a Sample,
    name: String,
    folder: PathBuf,
    /// Whether a second apply finds nothing to do, here and in all that comes before.
    is_lasting: bool,
}

impl<'a> Order<'a> {
    fn new(kinds: Kinds, world: &'a World) -> Self {
        let (nodes, declarations) = (Vec::new(), Vec::new());
        Self { kinds, world, nodes, declarations, secrets: BTreeSet::new(), wrong: Vec::new() }
    }

    /// Adds some samples, each in a folder of its own, and edges.
    fn fill(&mut self, samples: &'a [Sample], rng: &mut StdRng) -> io::Result<()> {
        for number in 0..rng.random_range(2..9) {
            let Some(sample) = samples.choose(rng) else { break };
            let name = format!("node-{number}");
            let folder = self.world.folder().join(&name);
            fs::create_dir(&folder)?;
            (sample.prepare)(&folder)?;
            allow(self.world, sample, &folder);
            self.add(Node { sample, name, folder, is_lasting: sample.is_lasting }, rng)?;
        }
        connect(&mut self.declarations);
        Ok(())
    }

    fn add(&mut self, mut node: Node<'a>, rng: &mut StdRng) -> io::Result<()> {
        let kind = self.kinds.get(&node.sample.kind).map_err(io::Error::other)?;
        let Value::Object(config) = (node.sample.config)(&node.folder) else {
            return Err(io::Error::other("a config is not a map"));
        };
        self.secrets.extend(secrets(&**kind, &config));
        let mut literal = Literal::new(config.clone());
        let (mut known, mut unknown) = (config.clone(), BTreeSet::new());
        let names: Vec<_> = config.keys().collect();
        // Half of them have an attribute that is known only after another resource was changed.
        if let Some(late) = names.choose(rng).filter(|_| rng.random()) {
            let giver = format!("{}-giver", node.name);
            literal = literal.using(late, &giver, "value");
            known.insert((*late).clone(), Value::Null);
            unknown.insert((*late).clone());
            let path = self.world.folder().join(&giver);
            let given = Literal::new(Config::from_iter([
                ("path".to_owned(), json!(path)),
                ("value".to_owned(), config[*late].clone()),
            ]));
            self.declarations.push(given.declare(self.world.folder(), &giver, Giver::NAME));
        }
        let mut declaration = literal.declare(&node.folder, &node.name, &node.sample.kind);
        for before in &self.nodes {
            // A resource that depends on a program is not visited: it needs run.
            let used = self.kinds.get(&before.sample.kind);
            let is_program = used.is_ok_and(|used| used.is_supervised());
            if rng.random_bool(EDGE) && !is_program {
                node.is_lasting &= before.is_lasting;
                let (alias, resource) = (before.name.clone(), before.name.clone());
                let on_change = if rng.random() { OnChange::Notify } else { OnChange::Check };
                declaration.dependencies.push(Dependency { alias, resource, on_change });
            }
        }
        let known = KnownConfig { config: &known, unknown: &unknown };
        self.declarations.extend(whole(&self.kinds, declaration, &known));
        self.nodes.push(node);
        Ok(())
    }

    /// Checks that what is planned is done, and that all is then as declared.
    fn converges(&mut self) -> io::Result<()> {
        let before = self.world.look()?;
        let Some(plan) = self.plan() else { return Ok(()) };
        let planned = self.world.look()?;
        let changed = paths(&before, &planned);
        self.require(changed.is_empty(), || format!("a plan changes {changed}"));
        self.agrees(&plan);
        let Some(plan) = self.plan() else { return Ok(()) };
        let lasting = self.nodes.iter().filter(|node| node.is_lasting);
        let left = lasting.filter_map(|node| plan.get(&node.name)).filter(|it| it.is_changing());
        let left = listed(left);
        self.require(left.is_empty(), || format!("after apply a plan still says: {left}"));
        self.agrees(&plan);
        Ok(())
    }

    /// Checks that drifts are seen and repaired.
    fn sees_drifts(&mut self, rng: &mut StdRng) -> io::Result<()> {
        let before = self.world.look()?;
        let mut drifted = Vec::new();
        for node in &self.nodes {
            if let Some((name, drift)) = node.sample.drifts.choose(rng).filter(|_| rng.random()) {
                drift(&node.folder)?;
                drifted.push((node.name.clone(), format!("{}: {name}", node.sample)));
            }
        }
        let Some(plan) = self.plan() else { return Ok(()) };
        for (node, drift) in drifted {
            // It may be a part of the node that has drifted.
            let is_seen = plan.resources.iter().any(|planned| {
                (planned.name == node || planned.name.starts_with(&format!("{node}[")))
                    && (planned.is_changing()
                        || matches!(planned.verdict, Verdict::MayChange { .. }))
            });
            self.require(is_seen, || format!("the drift \"{drift}\" is not seen"));
        }
        self.agrees(&plan);
        let after = self.world.look()?;
        let lasting: Vec<_> = self.nodes.iter().filter(|node| node.is_lasting).collect();
        let is_kept = |path: &&Path| lasting.iter().any(|node| path.starts_with(&node.folder));
        let left = listed(before.differing(&after).into_iter().filter(is_kept).map(Path::display));
        self.require(left.is_empty(), || format!("drifts are not mended: {left}"));
        Ok(())
    }

    fn plan(&mut self) -> Option<Plan> {
        let plan = plan_all(&self.kinds, &self.declarations);
        let plan = plan.map_err(|error| self.wrong.push(format!("a plan: {error}"))).ok()?;
        self.require_no_secret(&format!("{plan} {plan:?}"));
        Some(plan)
    }

    /// Applies what was planned, and compares the two.
    fn agrees(&mut self, plan: &Plan) {
        let account = match apply_all(&self.kinds, &self.declarations) {
            Ok(account) => account,
            Err(error) => return self.wrong.push(format!("apply: {error}")),
        };
        self.require_no_secret(&format!("{account} {account:?}"));
        let is_good = account.failures() == 0 && account.halted() == 0;
        self.require(is_good, || format!("apply fails: {account}"));
        let planned = plan.resources.iter();
        self.wrong.extend(planned.filter_map(|planned| disagreement(planned, &account)));
    }

    fn require(&mut self, holds: bool, wrong: impl FnOnce() -> String) {
        if !holds {
            self.wrong.push(wrong());
        }
    }

    fn require_no_secret(&mut self, shown: &str) {
        let is_shown = self.secrets.iter().any(|secret| shown.contains(secret));
        self.require(!is_shown, || format!("a secret is shown: {shown}"));
    }
}
