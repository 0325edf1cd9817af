//! Random sites whose workers look, act, fail and end in random order.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::{Blocker, Ended, Entries, Standing};
use crate::declaration::{
    Declaration, Dependency, OnChange, Place, Render, RenderError, Rendered, States,
};
use crate::reconcile::state::State;

const COUNT: usize = 6;

#[derive(Debug)]
struct NoConfig;

impl Render for NoConfig {
    fn render(&self, _: &States) -> Result<Rendered, RenderError> {
        Ok(Rendered::Unknown { because: Vec::new() })
    }
}

/// What happens to one resource.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It is not as declared any more, and its watch tells so.
    Drift,
    /// Its worker looks, if it was woken, and acts if it may.
    Look,
    /// From now on it cannot be mended, or it can.
    Spoil(bool),
    /// Its worker ends, and another one begins.
    Bounce,
}

/// How one resource is linked to those before it: a bit for each dependency, notifying dependency
/// and notice.
type Links = (u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        2 => Just(Step::Drift),
        6 => Just(Step::Look),
        1 => any::<bool>().prop_map(Step::Spoil),
        1 => Just(Step::Bounce),
    ];
    vec((0..COUNT, step), 0..200)
}

fn name(node: usize) -> String {
    format!("r{node}")
}

/// A resource depends on, or is notified by, those with lower numbers.
fn site(links: &[Links]) -> Vec<Declaration> {
    let place = Place { file: PathBuf::from("site.yaml"), line: 1, column: 1 };
    let mut site: Vec<_> = (0..links.len())
        .map(|node| Declaration::new(name(node), "it".into(), place.clone(), Arc::new(NoConfig)))
        .collect();
    for (node, (plain, notifying, notices)) in links.iter().enumerate() {
        for before in 0..node {
            let bit = 1 << before;
            if (plain | notifying) & bit != 0 {
                let on_change =
                    if notifying & bit != 0 { OnChange::Notify } else { OnChange::Check };
                let (alias, resource) = (name(before), name(before));
                site[node].dependencies.push(Dependency { alias, resource, on_change });
            }
            if notices & bit != 0 {
                site[before].notify.push(name(node));
            }
        }
    }
    site
}

/// A site and its workers.
struct World {
    entries: Entries,
    site: Vec<Declaration>,
    is_spoilt: [bool; COUNT],
    is_drifted: [bool; COUNT],
    /// How often a resource was changed, which its state shows.
    changes: usize,
}

impl World {
    fn new(links: &[Links]) -> Self {
        let (mut entries, site) = (Entries::default(), site(links));
        entries.connect(&site);
        for declaration in &site {
            entries.seat(&declaration.name);
        }
        Self { entries, site, is_spoilt: [false; COUNT], is_drifted: [false; COUNT], changes: 0 }
    }

    fn step(&mut self, node: usize, step: Step) {
        let name = name(node);
        match step {
            Step::Drift => {
                self.is_drifted[node] = true;
                self.entries.begin(&name);
                self.look(node);
            }
            Step::Look if self.is_woken(node) => self.look(node),
            Step::Look => {}
            Step::Spoil(is_spoilt) => self.is_spoilt[node] = is_spoilt,
            Step::Bounce => {
                self.entries.leave(&name);
                self.entries.seat(&name);
                self.look(node);
            }
        }
    }

    fn is_woken(&self, node: usize) -> bool {
        self.entries.by_name[name(node).as_str()].has_news
    }

    /// One round of a worker.
    fn look(&mut self, node: usize) {
        let name = name(node);
        let told = self.entries.look(&name);
        if self.is_spoilt[node] {
            return self.entries.end(&name, Ended::Failed);
        }
        let is_changed = told.is_some() || self.is_drifted[node];
        if is_changed {
            if self.entries.blocker(&name).is_some() {
                self.entries.hold(&name);
                return;
            }
            self.requires_rest_before(node);
            self.changes += 1;
            self.entries.publish(&name, State::new(json!(self.changes)));
            self.entries.tell(&name);
            self.is_drifted[node] = false;
        }
        if let Some(told) = &told {
            self.entries.answer(&name, told);
        }
        self.entries.end(&name, Ended::Well { is_changed });
    }

    /// Nothing acts while anything before it is at work, or a dependency has failed.
    fn requires_rest_before(&self, node: usize) {
        let mut needed = vec![(node, true)];
        while let Some((node, is_needed)) = needed.pop() {
            for (before, other) in self.site.iter().enumerate() {
                let depends = self.site[node].dependencies.iter();
                let depends = depends.clone().any(|used| used.resource == other.name);
                if depends || other.notify.contains(&name(node)) {
                    let standing = &self.entries.by_name[other.name.as_str()].standing;
                    assert!(!matches!(standing, Standing::AtWork | Standing::Waiting), "{before}");
                    let is_needed = is_needed && depends;
                    assert!(!is_needed || *standing == Standing::AtRest, "{before} has failed");
                    needed.push((before, is_needed));
                }
            }
        }
    }

    /// Has every woken worker look until none is woken.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let Some(node) = (0..self.site.len()).find(|node| self.is_woken(*node)) else { return };
            self.look(node);
        }
        panic!("the workers wake each other for ever: {:?}", self.entries);
    }
}

proptest! {
    #[test]
    fn nothing_acts_before_those_that_come_first_and_nobody_is_forgotten(
        links in vec(any::<Links>(), COUNT),
        steps in steps(),
    ) {
        let mut world = World::new(&links);
        for (node, step) in steps {
            world.step(node, step);
        }

        // All can be mended again, and whoever has failed tries again.
        world.is_spoilt = [false; COUNT];
        for node in 0..COUNT {
            if world.entries.by_name[name(node).as_str()].standing != Standing::Waiting {
                world.look(node);
            }
        }
        world.settle();

        for node in 0..COUNT {
            let entry = &world.entries.by_name[name(node).as_str()];
            prop_assert_eq!(&entry.standing, &Standing::AtRest, "{}", node);
            prop_assert_eq!(entry.told, entry.answered, "{}", node);
            prop_assert!(!world.is_drifted[node], "{}", node);
        }
        prop_assert_eq!(world.entries.unsettled, 0);
        prop_assert!(world.entries.at_work.borrow().is_empty());
    }
}

#[test]
fn a_resource_is_held_back_by_the_first_that_has_failed() {
    let mut world = World::new(&[(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 0, 0)]);
    world.settle();
    world.entries.end("r0", Ended::Failed);

    let held_back: Vec<_> = ["r1", "r2", "r3"].map(|name| world.entries.hold(name)).into();

    let failed = |blocker: &Option<Blocker>| blocker.clone().and_then(|it| it.failed);
    let failed: Vec<_> = held_back.iter().map(failed).collect();
    assert_eq!(failed, [Some("r0".into()), Some("r0".into()), None]);
}
