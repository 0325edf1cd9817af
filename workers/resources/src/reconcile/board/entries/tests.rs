//! Random sites whose workers look, act, fail and end in random order.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::blocker::Blocker;
use super::{Ended, Entries, Standing, Told};
use crate::action::Action;
use crate::context::Notice;
use crate::declaration::{
    Declaration, Dependency, Inputs, OnChange, Place, Render, RenderError, Rendered,
};
use crate::facilities::Notices;
use crate::reconcile::state::State;

const COUNT: usize = 6;

#[derive(Debug)]
struct NoConfig;

impl Render for NoConfig {
    fn render(&self, _: &Inputs) -> Result<Rendered, RenderError> {
        Ok(Rendered::Unknown { because: Vec::new() })
    }
}

/// What happens to one resource.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It is not as declared any more, and its watch tells so.
    Drift,
    /// Its worker begins to look, if it has a reason.
    Look,
    /// The worker acts if it may, and says how the look has ended.
    End,
    /// From now on it cannot be mended, or it can.
    Spoil(bool),
    /// Its worker goes.
    Leave,
    /// Another worker comes, if there is none.
    Come,
    /// Another resource of its name takes its place.
    Replace,
    /// It is handed another declaration.
    Renew,
    /// It has what it depends on look again, and waits for that.
    Ask,
}

/// How one resource is linked to those before it: a bit for each dependency, notifying dependency
/// and notice.
type Links = (u8, u8, u8);

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        4 => Just(Step::Drift),
        8 => Just(Step::Look),
        8 => Just(Step::End),
        1 => any::<bool>().prop_map(Step::Spoil),
        1 => Just(Step::Leave),
        2 => Just(Step::Come),
        1 => Just(Step::Replace),
        1 => Just(Step::Renew),
        1 => Just(Step::Ask),
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
        .map(|node| {
            Declaration::new(
                name(node),
                "it".into(),
                PathBuf::from("/"),
                place.clone(),
                Arc::new(NoConfig),
            )
        })
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

fn notice(by: &str, attributes: &[&str], actions: &[(&str, &str)]) -> Notice {
    let attributes = attributes.iter().map(|attribute| (*attribute).to_owned()).collect();
    let actions = actions.iter().map(|(name, to)| Action::new(name).with("to", *to)).collect();
    Notice::new(by, attributes, actions)
}

/// A resource of a site, and its worker.
#[derive(Debug, Default)]
struct Actor {
    has_worker: bool,
    is_spoilt: bool,
    is_drifted: bool,
    /// Whether its watch told of something.
    is_seen: bool,
    /// What it was notified of when it began to look, while it looks.
    looking: Option<Option<Told>>,
    /// The states of its dependencies that it has made use of.
    seen: Vec<Option<State>>,
}

/// A site and its workers.
struct World {
    entries: Entries,
    site: Vec<Declaration>,
    actors: Vec<Actor>,
    /// How often a resource was changed, which its state shows.
    changes: usize,
}

impl World {
    fn new(links: &[Links]) -> Self {
        let (mut entries, site) = (Entries::default(), site(links));
        entries.connect(&site, &Notices::default());
        let actors = site.iter().map(|_| Actor::default()).collect();
        let mut world = Self { entries, site, actors, changes: 0 };
        (0..links.len()).for_each(|node| world.step(node, Step::Come));
        world
    }

    fn step(&mut self, node: usize, step: Step) {
        let (is_to_look, name) = (self.is_to_look(node), name(node));
        let actor = &mut self.actors[node];
        match step {
            Step::Drift => (actor.is_drifted, actor.is_seen) = (true, true),
            Step::Spoil(is_spoilt) => actor.is_spoilt = is_spoilt,
            Step::Leave if actor.has_worker => {
                (actor.has_worker, actor.looking) = (false, None);
                self.entries.leave(&name);
            }
            Step::Come if !actor.has_worker => {
                (actor.has_worker, actor.is_seen) = (true, true);
                self.entries.seat(&name);
            }
            Step::Replace => {
                (actor.has_worker, actor.looking) = (false, None);
                self.entries.forget(&name);
            }
            Step::Renew => self.entries.wake(&name),
            Step::Ask if actor.looking.take().is_some() && self.entries.ask(&name) => {
                self.entries.hold(&name);
            }
            Step::Look if is_to_look => self.look(node),
            Step::End => self.end(node),
            Step::Look | Step::Leave | Step::Come => {}
            // Without a dependency that can look, it goes on as it is.
            Step::Ask => actor.is_seen |= actor.has_worker,
        }
    }

    fn is_to_look(&self, node: usize) -> bool {
        let (actor, entry) = (&self.actors[node], &self.entries.by_name[name(node).as_str()]);
        actor.has_worker && actor.looking.is_none() && (actor.is_seen || entry.has_news)
    }

    fn look(&mut self, node: usize) {
        self.actors[node].is_seen = false;
        self.entries.begin(&name(node));
        let told = self.entries.look(&name(node));
        self.actors[node].looking = Some(told);
        self.actors[node].seen = self.states(node);
    }

    fn states(&self, node: usize) -> Vec<Option<State>> {
        let uses = self.site[node].dependencies.iter();
        uses.map(|used| self.entries.state(&used.resource)).collect()
    }

    fn end(&mut self, node: usize) {
        let (name, actor) = (name(node), &mut self.actors[node]);
        let Some(told) = actor.looking.take() else { return };
        if actor.is_spoilt {
            return self.entries.end(&name, Ended::Failed);
        }
        let is_changed = told.is_some() || actor.is_drifted;
        if is_changed {
            if self.entries.blocker(&name).is_some() {
                self.entries.hold(&name);
                return;
            }
            self.actors[node].is_drifted = false;
            self.requires_rest_before(node);
            self.changes += 1;
            self.entries.publish(&name, State::new(json!(self.changes).into()));
            self.entries.tell(&notice(&name, &[], &[]));
        }
        if let Some(told) = &told {
            self.entries.answer(&name, told);
        }
        self.entries.end(&name, Ended::Well { is_changed, is_holding: false });
    }

    /// Nothing acts before all that comes first has seen what it is made of, and what the resource
    /// depends on is as declared.
    fn requires_rest_before(&self, node: usize) {
        let mut before = vec![(node, true)];
        while let Some((node, is_needed)) = before.pop() {
            for (other, declaration) in self.site.iter().enumerate() {
                let mut uses = self.site[node].dependencies.iter();
                let depends = uses.any(|used| used.resource == declaration.name);
                if !depends && !declaration.notify.contains(&name(node)) {
                    continue;
                }
                let entry = &self.entries.by_name[declaration.name.as_str()];
                assert!(!matches!(entry.standing, Standing::AtWork | Standing::Waiting), "{other}");
                if is_needed && depends {
                    let actor = &self.actors[other];
                    assert_eq!(entry.standing, Standing::AtRest, "{other}");
                    assert_eq!(entry.told, entry.answered, "{other}");
                    // One that is away keeps its last state for those that use it.
                    let states = self.states(other);
                    let mut pairs = actor.seen.iter().zip(&states);
                    assert!(pairs.all(|(seen, now)| now.is_none() || seen == now), "{other}");
                }
                before.push((other, is_needed && depends));
            }
        }
    }

    /// Has every worker look that has a reason, until none has.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            let nodes = 0..self.site.len();
            let Some(node) = nodes.into_iter().find(|node| self.is_to_look(*node)) else { return };
            self.look(node);
            self.end(node);
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
        for node in 0..COUNT {
            world.step(node, Step::Come);
            world.step(node, Step::End);
            world.actors[node].is_spoilt = false;
            let entry = &world.entries.by_name[name(node).as_str()];
            world.actors[node].is_seen |= entry.standing == Standing::Failed;
        }
        world.settle();

        for node in 0..COUNT {
            let entry = &world.entries.by_name[name(node).as_str()];
            prop_assert_eq!(&entry.standing, &Standing::AtRest, "{}", node);
            prop_assert_eq!(entry.told, entry.answered, "{}", node);
            prop_assert!(!world.actors[node].is_drifted, "{}", node);
        }
        prop_assert_eq!(world.entries.unsettled, 0);
        prop_assert!(world.entries.at_work.borrow().is_empty());
    }
}

#[test]
fn notifications_before_the_first_was_answered_are_one_of_all_that_was_done() {
    let mut world = World::new(&[(0, 0, 0), (0, 1, 0)]);
    world.settle();

    world.entries.tell(&notice("r0", &["mode"], &[("chmod", "0600")]));
    world.entries.tell(&notice("r0", &["content"], &[("write", "a")]));
    world.entries.tell(&notice("r0", &["mode"], &[("chmod", "0644"), ("chmod", "0640")]));
    let told = world.entries.look("r1").expect("it was notified");
    world.entries.answer("r1", &told);
    world.entries.tell(&notice("r0", &["mode"], &[("chmod", "0600")]));
    let later = world.entries.look("r1").expect("it was notified");

    let all = [("write", "a"), ("chmod", "0644"), ("chmod", "0640")];
    assert_eq!(told.notices, [notice("r0", &["mode", "content"], &all)]);
    assert_eq!(later.notices, [notice("r0", &["mode"], &[("chmod", "0600")])]);
}

#[test]
fn what_was_answered_is_not_told_again_with_what_came_meanwhile() {
    let mut world = World::new(&[(0, 0, 0), (0, 0, 0), (0, 3, 0)]);
    world.settle();

    world.entries.tell(&notice("r0", &["mode"], &[]));
    let told = world.entries.look("r2").expect("it was notified");
    world.entries.tell(&notice("r1", &["content"], &[]));
    world.entries.answer("r2", &told);
    let later = world.entries.look("r2").expect("it was notified");

    assert_eq!(told.notices, [notice("r0", &["mode"], &[])]);
    assert_eq!(later.notices, [notice("r1", &["content"], &[])]);
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

#[test]
fn a_resource_is_held_back_until_a_look_of_it_has_ended() {
    let mut entries = Entries::default();
    entries.connect(&site(&[(0, 0, 0), (1, 0, 0)]), &Notices::default());
    let (root, page) = (name(0), name(1));
    for resource in [&root, &page] {
        entries.seat(resource);
    }
    let by = |entries: &Entries| entries.tally().resources[&page].held_back_by.clone();
    let before = by(&entries);
    entries.end(&root, Ended::Failed);
    entries.hold(&page);
    let held_back = by(&entries);
    // While the root is tried again, the page says the same of itself.
    entries.wake(&page);
    let woken = by(&entries);
    let well = Ended::Well { is_changed: false, is_holding: false };
    entries.end(&root, well);
    entries.end(&page, well);

    assert_eq!(
        [before, held_back, woken, by(&entries)],
        [None, Some(root.clone()), Some(root), None]
    );
}
