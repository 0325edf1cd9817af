//! The calls by hand in a run, and the judgement of the answers.

use std::collections::BTreeSet;

use crankcase_engine::{Change, ChangeError, Engine, Manifold, Name, WorkerState};
use rand::RngExt;
use tokio::time::Instant;

use super::Run;
use super::asked::{Pending, Place, Rewiring};
use crate::simulation::finding::Found;
use crate::simulation::judge::{Bounced, Seat};

/// The beginning of the names at which nothing is ever installed.
const NOBODY: &str = "nobody-";

/// How many such names there are. The judge keeps and looks at each path, so their number is
/// limited, and no larger than that of the simulated ones.
const NOBODIES: u32 = 16;

/// The calls, each with its frequency in proportion to the others.
const CALLS: [(Call, u32); 6] = [
    (Call::Disturb, 6),
    (Call::Rewire, 2),
    (Call::TakeOut, 1),
    (Call::RewireGroup, 1),
    (Call::PreviewBounce, 1),
    (Call::PreviewCycle, 1),
];

/// A call by hand.
#[derive(Debug, Clone, Copy)]
enum Call {
    /// A bounce, a park or an unpark of any worker.
    Disturb,
    Rewire,
    TakeOut,
    RewireGroup,
    PreviewBounce,
    PreviewCycle,
}

impl Run {
    /// Makes a call.
    pub(super) async fn call(&mut self) -> Found {
        self.asked.learn();
        if self.random.random_range(0..3) > 0
            && let Some(index) = self.asked.away.pop_front()
        {
            // The engine may refuse that, because something else was rewired since.
            self.asked.away.push_back(index);
            let rewiring = self.put(Rewiring::default(), index, "is put back");
            self.apply(rewiring);
            return Ok(());
        }
        let call = if self.puts.is_empty() { Call::Disturb } else { self.pick() };
        match call {
            Call::Disturb => self.disturb(),
            Call::Rewire => {
                let rewiring = self.rewire(Rewiring::default());
                self.apply(rewiring);
            }
            Call::TakeOut => self.take_out(),
            Call::RewireGroup => {
                let mut rewiring = Rewiring::default();
                for _ in 0..self.random.random_range(2..4) {
                    rewiring = self.rewire(rewiring);
                }
                self.strikes("the engine", "is changed by a group");
                self.apply(rewiring);
            }
            Call::PreviewBounce => return self.preview_a_bounce().await,
            Call::PreviewCycle => return self.preview_a_cycle().await,
        }
        Ok(())
    }

    /// Picks a call.
    fn pick(&mut self) -> Call {
        let all = CALLS.iter().map(|(_, weight)| weight).sum();
        let mut left = self.random.random_range(0..all);
        let is_it = |(_, weight): &&(Call, u32)| {
            let is_it = left < *weight;
            left = left.saturating_sub(*weight);
            is_it
        };
        CALLS.iter().find(is_it).map_or(Call::Disturb, |(call, _)| *call)
    }

    /// Asks for a bounce, a park or an unpark of any worker.
    fn disturb(&mut self) {
        if !self.asked.parked.is_empty()
            && self.random.random_range(0..3) > 0
            && let Some(path) = self.asked.parked.pop_front()
        {
            return self.ask_of(&path, "is unparked", Change::unpark);
        }
        let is_users = |seat: &Seat| seat.is_installed() && !seat.is_carrier;
        let Some((path, is_parked)) = self.any(is_users, Seat::is_parked) else {
            return;
        };
        if self.random.random_range(0..4) == 0 && !is_parked {
            self.asked.parked.push_back(path.clone());
            self.ask_of(&path, "is parked", Change::park);
        } else {
            self.ask_of(&path, "is bounced by hand", Change::bounce);
        }
    }

    /// Returns the path of a random seat with a property, and something of the seat.
    fn any<T>(
        &mut self,
        holds: impl Fn(&Seat) -> bool,
        look: impl FnOnce(&Seat) -> T,
    ) -> Option<(String, T)> {
        let random = &mut self.random;
        self.notes.look(|judge| {
            let count = judge.seats.iter().filter(|seat| holds(seat)).count();
            let nth = (count > 0).then(|| random.random_range(0..count))?;
            let seat = judge.seats.iter().filter(|seat| holds(seat)).nth(nth)?;
            Some((seat.path.to_string(), look(seat)))
        })
    }

    /// Adds to a change that a manifold is put in its own place, as it was or with another input.
    fn rewire(&mut self, rewiring: Rewiring) -> Rewiring {
        let index = self.random.random_range(0..self.puts.len());
        if self.random.random_range(0..3) == 0 || self.puts[index].is_nested {
            return self.put(rewiring, index, "is replaced by itself");
        }
        let other = match self.random.random_range(0..4) {
            0 => {
                self.asked.nobodies = (self.asked.nobodies + 1) % NOBODIES;
                format!("{NOBODY}{}", self.asked.nobodies)
            }
            _ => self.puts[self.random.random_range(0..self.puts.len())].name.clone(),
        };
        let need = self.random.random_range(0..4);
        let Rewiring { change, mut places } = rewiring;
        let (path, kind) = (self.path_of(&other), kind_of(need));
        let text = format!("is rewired, with {path} as {kind} input").into();
        places.push(Place { index, goes: true, text });
        let change =
            (self.puts[index].again)(change, &|manifold| with_input(manifold, &other, need));
        Rewiring { change, places }
    }

    /// Adds to a change that a manifold is put in its place as it was in the beginning.
    fn put(&self, rewiring: Rewiring, index: usize, text: &'static str) -> Rewiring {
        let Rewiring { change, mut places } = rewiring;
        places.push(Place { index, goes: false, text: text.into() });
        Rewiring { change: (self.puts[index].again)(change, &|manifold| manifold), places }
    }

    /// Takes a manifold out.
    fn take_out(&mut self) {
        let index = self.random.random_range(0..self.puts.len());
        let name = &self.puts[index].name;
        let Ok(parsed) = Name::<()>::parse(name) else { return };
        let change = Change::new().uninstall(parsed);
        let place = Place { index, goes: true, text: "is taken out".into() };
        self.apply(Rewiring { change, places: vec![place] });
    }

    /// Puts back everything that is not as it was in the beginning, and nothing else: a worker that
    /// is put back is started anew.
    pub(super) fn put_back(&mut self) {
        self.asked.learn();
        while let Some(path) = self.asked.parked.pop_front() {
            self.ask_of(&path, "is unparked", Change::unpark);
        }
        // As one group, because a single change may be in the way of another one.
        let mut away = std::mem::take(&mut self.asked.away);
        let pending = self.asked.pending.drain(..).flat_map(|pending| pending.places);
        away.extend(pending.map(|place| place.index));
        let away = BTreeSet::from_iter(away);
        if !away.is_empty() {
            let put = |rewiring, index| self.put(rewiring, index, "is put back");
            let rewiring = away.into_iter().fold(Rewiring::default(), put);
            self.apply(rewiring);
        }
        self.put_values_back();
    }

    /// Unparks all workers that have failed too often. The faults have caused these failures, and
    /// such a worker stays stopped for ever if nobody unparks it.
    pub(super) fn free_spent(&mut self) {
        let is_spent = |seat: &&Seat| seat.is_spent();
        let spent: Vec<_> = self.notes.look(|judge| {
            judge.seats.iter().filter(is_spent).map(|seat| seat.path.to_string()).collect()
        });
        spent.iter().for_each(|path| self.ask_of(path, "is unparked", Change::unpark));
    }

    /// Asks for a change of the worker with this path.
    fn ask_of(&self, path: &str, text: &'static str, ask: fn(Change, Name<()>) -> Change) {
        if let Some((engine, name)) = self.whereabouts(path) {
            self.strikes(path, text);
            // The change happens also if nobody waits for the answer.
            drop(engine.apply(ask(Change::new(), name)));
        }
    }

    /// Returns the engine of a worker, and its name there.
    fn whereabouts(&self, path: &str) -> Option<(Engine, Name<()>)> {
        let (engine, name) = path.rsplit_once('/')?;
        Some((self.engine.engine_at(engine)?, Name::parse(name).ok()?))
    }

    /// Asks for a change of manifolds and waits for nothing.
    fn apply(&mut self, Rewiring { change, mut places }: Rewiring) {
        for place in &mut places {
            let text = std::mem::take(&mut place.text);
            self.notes.fault(&self.path_of(&self.puts[place.index].name), text);
        }
        let applied = self.engine.apply(change);
        self.asked.pending.push_back(Pending { applied, at: Instant::now(), places });
    }

    /// Compares the workers that a bounce would stop with the users of the worker.
    async fn preview_a_bounce(&mut self) -> Found {
        let Some((path, ())) = self.any(Seat::shows_up, |_| ()) else { return Ok(()) };
        let path = &path;
        let Some((engine, name)) = self.whereabouts(path) else { return Ok(()) };
        // A preview does not show what happens anyway. Meanwhile the worker may have ended.
        let is_settled = self.is_settled_soon(&engine).await?;
        if !is_settled || !self.notes.look(|judge| judge.seat(path).is_some_and(Seat::shows_up)) {
            return Ok(());
        }
        let before = self.count();
        let preview = engine.preview(Change::new().bounce(name));
        let Ok(preview) = self.drive(preview).await? else { return Ok(()) };
        if self.count() != before {
            return Ok(());
        }
        let named = [preview.bounced, preview.stopped].concat();
        let count = named.len();
        let named = BTreeSet::from_iter(named);
        if named.len() < count {
            return Err(format!(
                "P7: the preview of a bounce of {path} names one twice: {named:?}"
            )
            .into());
        }
        let bounced = self.notes.look(|judge| judge.bounced_with(path));
        if bounced.is_some() {
            self.notes.judged_a_preview();
        }
        match bounced {
            Some(Bounced { certain, possible })
                if !certain.is_subset(&named) || !named.is_subset(&possible) =>
            {
                Err(format!(
                    "P7: the preview of a bounce of {path} names {named:?}, but it would stop \
                     {certain:?}, and at most {possible:?}"
                )
                .into())
            }
            _ => Ok(()),
        }
    }

    /// Judges whether a worker is refused its own user as an input, and is allowed it if the user
    /// is taken out in the same change.
    async fn preview_a_cycle(&mut self) -> Found {
        let index = self.random.random_range(0..self.puts.len());
        if self.puts[index].is_nested {
            return Ok(());
        }
        let path = self.path_of(&self.puts[index].name);
        let before = self.count();
        let users = self.notes.look(|judge| judge.users_of(&path));
        if users.is_empty() {
            return Ok(());
        }
        let user = &users[self.random.random_range(0..users.len())];
        let Some((engine, name)) = self.whereabouts(user) else { return Ok(()) };
        let need = self.random.random_range(0..4);
        let rewire = |manifold| with_input(manifold, name.as_str(), need);
        let put = &self.puts[index].again;
        let [one, two] = [Change::new(), Change::new().uninstall(name.clone())];
        let [one, two] = [one, two].map(|change| put(change, &rewire));
        let refused = self.drive(engine.preview(one)).await?;
        let allowed = self.drive(engine.preview(two)).await?;
        if self.count() != before {
            return Ok(());
        }
        if refused.is_ok() {
            return Err(format!("P8: {path} would be let use {user}, which uses it").into());
        }
        // A manifold that is away would get its first inputs back as well.
        let is_changed = self.asked.is_away(index);
        match allowed {
            Err(ChangeError::Cycle { path: cycle }) if !is_changed => Err(format!(
                "P8: {path} would not be let use {user}, which is taken out with it: {cycle:?}"
            )
            .into()),
            _ => Ok(()),
        }
    }

    /// Judges, at rest, whether the engine forgets names that nothing uses.
    pub(super) async fn judge_names(&mut self, engine: &Engine) -> Found {
        let before = self.count();
        let Some(graph) = self.drive(engine.graph()).await? else { return Ok(()) };
        // A stuck worker may still use a name that its successor does not.
        let is_stuck = graph.nodes.iter().any(|node| node.state == WorkerState::Stuck);
        if self.count() != before || is_stuck {
            return Ok(());
        }
        let is_kept = |name: &str| graph.edges.iter().any(|edge| edge.input == name);
        let nobodies = graph.nodes.iter().filter(|node| node.name.starts_with(NOBODY));
        match { nobodies }.find(|node| !is_kept(&node.name)) {
            None => Ok(()),
            Some(node) => Err(format!(
                "P10: the name {} is kept though nothing installs or uses it",
                node.path
            )
            .into()),
        }
    }
}

/// Returns the words for one of the four kinds of inputs.
fn kind_of(need: u32) -> &'static str {
    match need {
        0 => "a required",
        1 => "an optional",
        2 => "a live",
        _ => "a live and required",
    }
}

/// Returns a manifold with one more input, of one of the four kinds.
fn with_input(manifold: Manifold, name: &str, need: u32) -> Manifold {
    let Ok(name) = Name::<()>::parse(name) else { return manifold };
    match need {
        0 => manifold.admitted(name, |(), _| Ok(())),
        1 => manifold.admitted(name.optional(), |_, _| Ok(())),
        2 => manifold.admitted(name.live(), |_, _| Ok(())),
        _ => manifold.admitted(name.live().required(), |_, _| Ok(())),
    }
}
