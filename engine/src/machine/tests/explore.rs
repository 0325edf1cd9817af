//! All small graphs, and all that can happen to them in every order, up to a number of surprises.
//!
//! A surprise is what does not follow by itself: a control call, an end of a worker's own, a new
//! value, a deadline that is missed. What follows by itself is followed in every order until
//! nothing is left. `CRANKCASE_EXPLORE_DEPTH` sets the number of surprises.

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::fingerprint::fingerprint;
use super::world::{Arrow, Event, World, arrow, policy};
use crate::machine::{EndKind, Need, Rest};

const ALL: [Need; 5] = [Need::Required, Need::Optional, Need::Live, Need::LiveRequired, Need::Held];

/// The inputs of each name.
type Shape = Vec<Arc<[Arrow]>>;

/// What is tried in every state.
#[derive(Debug, Clone, Copy)]
struct Choice {
    surprises: usize,
    ends: &'static [EndKind],
    has_control: bool,
    has_groups: bool,
    has_leftovers: bool,
}

#[derive(Debug, Default)]
struct Count {
    graphs: usize,
    states: usize,
    transitions: usize,
}

/// Returns all graphs of this size, one of each that differ only by the numbering.
fn shapes(size: usize, needs: &[Need]) -> Vec<Shape> {
    let pairs: Vec<_> =
        (0..size).flat_map(|to| (to + 1..size).map(move |user| (user, to))).collect();
    let choices = needs.len() + 1;
    let mut seen = BTreeSet::new();
    let mut shapes = Vec::new();
    for code in 0..choices.pow(u32::try_from(pairs.len()).expect("few pairs")) {
        let mut matrix = vec![vec![0; size]; size];
        let mut rest = code;
        for (user, to) in &pairs {
            matrix[*user][*to] = rest % choices;
            rest /= choices;
        }
        if seen.insert(canonical(&matrix)) {
            shapes.push(shape(&matrix, needs));
        }
    }
    shapes
}

fn shape(matrix: &[Vec<usize>], needs: &[Need]) -> Shape {
    let inputs = |row: &Vec<usize>| {
        let used = row.iter().enumerate().filter(|(_, choice)| **choice > 0);
        used.map(|(to, choice)| arrow(to, needs[choice - 1])).collect()
    };
    matrix.iter().map(inputs).collect()
}

/// Returns the smallest of a matrix's renumberings.
fn canonical(matrix: &[Vec<usize>]) -> Vec<usize> {
    let mut orders = vec![vec![]];
    for _ in matrix {
        let longer = |order: &Vec<usize>| {
            let free = (0..matrix.len()).filter(|next| !order.contains(next));
            free.map(|next| order.iter().copied().chain([next]).collect()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    let renumbered = |order: &Vec<usize>| {
        let row = |user: &usize| order.iter().map(|to| matrix[*user][*to]).collect::<Vec<_>>();
        order.iter().flat_map(row).collect()
    };
    orders.iter().map(renumbered).min().unwrap_or_default()
}

/// Returns what follows by itself in a state.
fn free_events(world: &World) -> Vec<Event> {
    let places = 0..world.seats.len();
    let due = places.clone().filter_map(|place| world.next_due(place));
    let late = places.filter_map(|place| match &world.seats[place].worker {
        Some(worker) if worker.is_stuck && worker.has_ended => Some(Event::Gone(place)),
        Some(worker) if worker.is_stuck => {
            Some(Event::Ended(place, EndKind::Stopped, Duration::ZERO))
        }
        Some(worker) if worker.is_told && !worker.is_running && !worker.has_ended => {
            Some(Event::Started(place))
        }
        None if world.seats[place].rest == Rest::Backoff => Some(Event::Fire(place)),
        _ => None,
    });
    due.chain(late).collect()
}

/// Returns the surprises that are possible in a state.
fn surprises(world: &World, shape: &Shape, choice: Choice) -> Vec<Event> {
    let mut events = Vec::new();
    for (place, arrows) in shape.iter().enumerate() {
        worker_events(world, place, choice, &mut events);
        if choice.has_control && !world.is_killed {
            control_events(world, place, arrows, &mut events);
        }
    }
    if choice.has_control && !world.is_killed {
        events.push(Event::Kill);
    }
    if choice.has_groups && !world.is_killed {
        events.push(if world.groups == 0 { Event::BeginGroup } else { Event::EndGroup });
    }
    events
}

fn worker_events(world: &World, place: usize, choice: Choice, events: &mut Vec<Event>) {
    let Some(worker) = &world.seats[place].worker else { return };
    if world.seats[place].token.is_some() {
        events.push(Event::Fire(place));
    }
    let end = |kind| Event::Ended(place, kind, Duration::ZERO);
    if worker.has_ended {
        return;
    }
    if choice.has_leftovers {
        let kind = if worker.is_told { EndKind::Stopped } else { EndKind::Failed };
        events.push(Event::Lingers(place, kind, Duration::ZERO, None));
    }
    if worker.is_told || worker.is_overdue || worker.is_stuck {
        events.push(end(EndKind::Uninstall));
        return;
    }
    events.extend(choice.ends.iter().copied().map(end));
    let uses = |user| world.uses(user, place, |arrow| arrow.need.bounces());
    if worker.is_running && (0..world.seats.len()).any(uses) {
        events.push(Event::Changed(place, 0));
    }
}

fn control_events(world: &World, place: usize, arrows: &Arc<[Arrow]>, events: &mut Vec<Event>) {
    let seat = &world.seats[place];
    events.push(Event::Install(place, Arc::clone(arrows)));
    if seat.arrows.is_none() {
        return;
    }
    let parking = if seat.is_parked { Event::Unpark(place) } else { Event::Park(place) };
    events.extend([Event::Bounce(place), parking, Event::Uninstall(place)]);
}

/// How a state was reached: from which one, by what.
type Step = (usize, Event);

fn explore(shape: &Shape, choice: Choice, count: &mut Count) {
    let mut world = World::new(shape.len(), policy(), 0);
    let mut installs = vec![Event::BeginGroup];
    installs.extend((0..shape.len()).map(|place| Event::Install(place, Arc::clone(&shape[place]))));
    installs.push(Event::EndGroup);
    world.apply_all(&installs).unwrap_or_else(|failure| panic!("{failure}\nin {shape:?}"));
    let mut search = Search { seen: HashSet::new(), steps: Vec::new(), shape };
    let mut found = vec![];
    search.meet(&mut found, 0, Event::EndGroup, world);
    for left in (0..=choice.surprises).rev() {
        let level = search.close(found, count);
        found = vec![];
        for (origin, world) in level.iter().filter(|_| left > 0) {
            for event in surprises(world, shape, choice) {
                let next = search.take(*origin, world, &event);
                count.transitions += 1;
                search.meet(&mut found, *origin, event, next);
            }
        }
    }
    count.graphs += 1;
    count.states += search.seen.len();
}

struct Search<'a> {
    seen: HashSet<u64>,
    steps: Vec<Step>,
    shape: &'a Shape,
}

impl Search<'_> {
    fn take(&self, origin: usize, world: &World, event: &Event) -> World {
        let mut world = world.clone();
        if let Err(failure) = world.apply(event) {
            let path = path(&self.steps, origin, event.clone());
            panic!("{failure}\nin {:?}\nafter {path:?}", self.shape);
        }
        world
    }

    /// Enters a state if it is new.
    fn meet(&mut self, found: &mut Vec<(usize, World)>, origin: usize, event: Event, world: World) {
        if self.seen.insert(fingerprint(&world)) {
            self.steps.push((origin, event));
            found.push((self.steps.len() - 1, world));
        }
    }

    /// Returns the states with all that follow from them without a surprise.
    fn close(&mut self, found: Vec<(usize, World)>, count: &mut Count) -> Vec<(usize, World)> {
        let mut level = found;
        let mut at = 0;
        while let Some((origin, world)) = level.get(at).cloned() {
            for event in free_events(&world) {
                let next = self.take(origin, &world, &event);
                count.transitions += 1;
                self.meet(&mut level, origin, event, next);
            }
            at += 1;
        }
        level
    }
}

fn path(steps: &[Step], mut at: usize, last: Event) -> Vec<Event> {
    let mut path = vec![last];
    while at > 0 {
        path.push(steps[at].1.clone());
        at = steps[at].0;
    }
    path.reverse();
    path
}

/// Explores every shape, and tells how much that was.
fn explore_all(name: &str, shapes: &[Shape], choice: Choice) {
    let deeper = std::env::var("CRANKCASE_EXPLORE_DEPTH").ok().and_then(|text| text.parse().ok());
    let choice = Choice { surprises: deeper.unwrap_or(choice.surprises), ..choice };
    let mut count = Count::default();
    for shape in shapes {
        explore(shape, choice, &mut count);
    }
    println!("{name}: {} surprises, {count:?}", choice.surprises);
}

const ENDS: &[EndKind] = &[
    EndKind::Done,
    EndKind::Failed,
    EndKind::Bounce,
    EndKind::Missing,
    EndKind::Uninstall,
    EndKind::Fatal,
];

const WHOLE: Choice =
    Choice { surprises: 4, ends: ENDS, has_control: true, has_groups: true, has_leftovers: true };

#[test]
fn every_promise_holds_in_all_graphs_of_one_and_two() {
    for size in 1..=2 {
        explore_all(&format!("size {size}"), &shapes(size, &ALL), WHOLE);
    }
}

#[test]
fn every_promise_holds_in_all_graphs_of_three() {
    let choice = Choice { surprises: 2, has_groups: false, ..WHOLE };
    explore_all("three", &shapes(3, &ALL), choice);
}

#[test]
fn every_promise_holds_in_all_graphs_of_four() {
    let choice = Choice { surprises: 1, has_groups: false, ..WHOLE };
    explore_all("four", &shapes(4, &ALL[..2]), choice);
}

#[test]
fn every_promise_holds_in_all_graphs_of_four_with_required_inputs() {
    let ends = &[EndKind::Failed, EndKind::Done, EndKind::Uninstall];
    let choice = Choice { surprises: 2, ends, has_groups: false, ..WHOLE };
    explore_all("four required", &shapes(4, &ALL[..1]), choice);
}

#[test]
fn graphs_that_differ_by_numbering_are_explored_once() {
    let mut counts = Vec::new();
    for size in 1..=4 {
        counts.push(shapes(size, &[Need::Required]).len());
    }

    // The numbers of acyclic directed graphs without labels: see <https://oeis.org/A003087>.
    assert_eq!(counts, [1, 2, 6, 31]);
}

/// Hashes what can be hashed in a fixed way.
pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
