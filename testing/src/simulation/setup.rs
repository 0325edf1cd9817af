//! The setup of one run: its manifolds, its inputs and its demands.

use std::fmt;
use std::ops::Range;

use crankcase_engine::{Change, Changing, Manifold, Name, Nested, Policy};
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

use super::faults::Random;
use super::record::Notes;
use super::view::View;
use super::view::in_full;

/// A demand that must hold at every moment, with its text.
pub(super) struct Invariant {
    pub(super) text: String,
    pub(super) holds: Box<dyn FnMut(&View<'_>) -> bool>,
}

/// Sends one of an input's values, chosen by a random number.
pub(super) type SendValue = Box<dyn FnMut(u64)>;

/// Rewires a manifold.
pub(super) type Rewire<'a> = &'a dyn Fn(Manifold) -> Manifold;

/// Puts a manifold in the place of its present one.
pub(super) struct Put {
    pub(super) name: String,
    /// Set for a nested engine, which is never rewired.
    pub(super) is_nested: bool,
    /// Adds the manifold to a change again, rewired.
    pub(super) again: Box<dyn Fn(Change, Rewire<'_>) -> Change>,
}

/// The setup of one run of a [`Simulation`](super::Simulation).
///
/// It is made anew for every run, so that runs share nothing.
pub struct Setup {
    seed: u64,
    random: Random,
    notes: Notes,
    pub(super) change: Change,
    pub(super) invariants: Vec<Invariant>,
    /// The demands that must come to hold once the faults have stopped.
    pub(super) recovered: Vec<Invariant>,
    pub(super) inputs: Vec<(String, SendValue)>,
    pub(super) spared: Vec<String>,
    /// The paths that need not come up.
    pub(super) resting: Vec<String>,
    /// The policies by which waits are judged.
    pub(super) policies: Vec<(String, Policy)>,
    pub(super) puts: Vec<Put>,
}

impl Setup {
    pub(super) fn new(seed: u64, notes: Notes) -> Self {
        Self {
            seed,
            random: Random::seed_from_u64(seed),
            notes,
            change: Change::new(),
            invariants: Vec::new(),
            recovered: Vec::new(),
            inputs: Vec::new(),
            spared: Vec::new(),
            resting: Vec::new(),
            policies: Vec::new(),
            puts: Vec::new(),
        }
    }

    /// Returns the run's seed, to seed the random choices of manifolds.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a random number that the seed decides, to vary what is simulated.
    ///
    /// # Panics
    ///
    /// If the range is empty.
    pub fn number(&mut self, range: Range<u64>) -> u64 {
        self.random.random_range(range)
    }

    /// Installs a manifold.
    pub fn install<T>(&mut self, name: Name<T>, manifold: impl Into<Manifold>)
    where
        T: Clone + Send + Sync + 'static,
    {
        let manifold = manifold.into();
        let put = (name.clone(), manifold.clone());
        self.puts.push(Put {
            name: name.as_str().to_owned(),
            is_nested: false,
            again: Box::new(move |change, rewire| {
                let (name, manifold) = put.clone();
                change.install_or_replace(name, rewire(manifold))
            }),
        });
        self.change = std::mem::take(&mut self.change).install(name, manifold);
    }

    /// Installs a nested engine, with its imports and exports; it is made anew whenever it is
    /// installed. The paths of the workers in it begin with its own path.
    ///
    /// Faults strike the workers in it. The worker that is the nested engine itself is
    /// [spared](Self::spare): it is bounced, parked and replaced by hand like any other, and gets
    /// no other inputs. The workers that pass values over its border are the engine's own, and left
    /// alone.
    ///
    /// # Examples
    ///
    /// ```
    /// use crankcase_engine::{Change, Engine, Manifold, Name, Nested};
    /// use crankcase_testing::Simulation;
    ///
    /// const LIMIT: Name<u32> = Name::new("limit");
    /// const TENANT: Name<Engine> = Name::new("tenant");
    /// const STORE: Name<u32> = Name::new("store");
    ///
    /// fn store() -> Manifold {
    ///     Manifold::builder().inputs(LIMIT).offers::<(u32,)>().run(|limit, up| async move {
    ///         up.ready((limit,)).wait().await;
    ///         Ok(())
    ///     })
    /// }
    ///
    /// fn tenant() -> Nested {
    ///     Nested::new(|| Change::new().install(STORE, store())).import(LIMIT, LIMIT)
    /// }
    ///
    /// # fn main() -> Result<(), crankcase_testing::Broken> {
    /// let simulation = Simulation::new(|setup| {
    ///     setup.input(LIMIT, vec![1, 2, 3]);
    ///     setup.install_nested(TENANT, tenant);
    ///     setup.invariant("the store lives in its tenant", |view| {
    ///         !view.is_live("/tenant/store") || view.is_live("/tenant")
    ///     });
    ///     setup.recovered("the store is up", |view| view.is_up("/tenant/store"));
    /// });
    /// simulation.safety(0..20)?;
    /// simulation.liveness(0..20)?;
    /// # Ok(()) }
    /// ```
    pub fn install_nested<T>(&mut self, name: Name<T>, nested: impl Fn() -> Nested + 'static)
    where
        T: Clone + Send + Sync + 'static,
    {
        self.change = std::mem::take(&mut self.change).install_nested(name.clone(), nested());
        self.puts.push(Put {
            name: name.as_str().to_owned(),
            is_nested: true,
            again: Box::new(move |change, _| {
                change.install_or_replace_nested(name.clone(), nested())
            }),
        });
    }

    /// Installs a stub that offers one value for ever. It comes and goes like any worker.
    pub fn value<T>(&mut self, name: Name<T>, value: T)
    where
        T: Clone + Send + Sync + 'static,
    {
        let stub =
            Manifold::builder().offers::<(T,)>().run_with(value, |value, (), up| async move {
                up.ready((value,)).wait().await;
                Ok(())
            });
        self.install(name, stub);
    }

    /// Installs a flapping input: a stub whose value changes at random to another one of these, and
    /// which comes and goes like any worker.
    ///
    /// It begins with the first of the values. A run without faults has only this value, and the
    /// input gets it back before the faults of a [`liveness`](super::Simulation::liveness) run
    /// stop.
    ///
    /// # Panics
    ///
    /// Without values.
    pub fn input<T>(&mut self, name: Name<T>, values: Vec<T>)
    where
        T: Clone + PartialEq + Send + Sync + 'static,
    {
        assert!(!values.is_empty(), "input {:?} needs a value", name.as_str());
        let sender = watch::Sender::new(values[0].clone());
        let receiver = sender.subscribe();
        self.inputs.push((
            name.as_str().to_owned(),
            Box::new(move |number| {
                let index = usize::try_from(number % values.len() as u64).unwrap_or(0);
                sender.send_replace(values[index].clone());
            }),
        ));
        let stub = Manifold::builder().offers::<(Changing<T>,)>().run_with(
            receiver,
            |receiver, (), up| async move {
                up.ready((Changing::new(receiver),)).wait().await;
                Ok(())
            },
        );
        self.install(name, stub);
    }

    /// Demands that something always holds. The text says what must hold.
    ///
    /// The simulation looks at it after each event of an engine, once the tasks that were ready at
    /// that moment have had a turn. So it does not see a state that begins and ends within one
    /// turn, nor a change without an event before the next event. Let workers note such changes in
    /// a state of their own, and look at that state here.
    pub fn invariant(
        &mut self,
        text: impl Into<String>,
        holds: impl FnMut(&View<'_>) -> bool + 'static,
    ) {
        self.invariants.push(Invariant { text: text.into(), holds: Box::new(holds) });
    }

    /// Demands that something comes to hold once the faults have stopped. The text says what must
    /// hold. It is of use in [`liveness`](super::Simulation::liveness) runs.
    pub fn recovered(
        &mut self,
        text: impl Into<String>,
        holds: impl FnMut(&View<'_>) -> bool + 'static,
    ) {
        self.recovered.push(Invariant { text: text.into(), holds: Box::new(holds) });
    }

    /// Lets no fault strike the worker with this path itself. It is bounced, parked and replaced by
    /// hand like any other, and its inputs may fail.
    pub fn spare(&mut self, path: &str) {
        self.spared.push(in_full(path).into_owned());
    }

    /// Allows the manifold with this path to come up in no run. For any other manifold that is a
    /// failure, because nothing is judged of a worker that does nothing.
    pub fn may_rest(&mut self, path: &str) {
        self.resting.push(in_full(path).into_owned());
    }

    /// Demands that the waits of the worker with this path follow this policy: its bounce delay,
    /// and its backoff. For other workers, it is only judged that a wait is over when a worker is
    /// started, and that a worker that is bounced because of another one does not wait. So a
    /// manifold with a `max_bounce_delay` needs this: with it every bounce waits.
    pub fn waits(&mut self, path: &str, policy: Policy) {
        self.policies.push((in_full(path).into_owned(), policy));
    }

    /// Returns a handle that writes into the trace of the run.
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("seed", &self.seed)
            .field("change", &self.change)
            .finish_non_exhaustive()
    }
}
