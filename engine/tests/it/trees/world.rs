//! Workers that check, while they live and end, what must hold between them.

use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crankcase_engine::manifold::Up;
use crankcase_engine::owner::Linger;
use crankcase_engine::{Exit, Manifold, Name, Stop};
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// How long a worker has to stop.
const GRACE: Duration = Duration::from_secs(2);

/// What every worker offers: itself, as long as it runs.
#[derive(Clone)]
pub(super) struct Token {
    worker: Arc<Running>,
}

/// One running worker.
#[derive(Default)]
struct Running {
    path: &'static str,
    /// Who runs with its token.
    users: AtomicUsize,
    has_ended: AtomicBool,
    /// It ended because it was told to.
    was_stopped: AtomicBool,
    /// Its future was dropped, and something of it is left.
    lingers: AtomicBool,
}

/// How a worker ends when it is told to.
#[derive(Clone, Copy)]
enum Parting {
    /// Slowly enough that who does not wait for it is seen.
    After(Duration),
    /// Only when its future is dropped.
    Never,
    /// Long after its future was dropped: it is stuck.
    Stuck(Duration),
}

/// What is left of a worker that is stuck, and until when.
struct Leftover {
    until: Instant,
    worker: Arc<Running>,
    _linger: Linger,
}

/// What all workers of a tree share.
#[derive(Clone)]
pub(super) struct World {
    random: Arc<Mutex<SmallRng>>,
    /// The present worker of each path.
    present: Arc<Mutex<HashMap<&'static str, Arc<Running>>>>,
    /// All who have ever run.
    all: Arc<Mutex<Vec<Arc<Running>>>>,
    /// What makes a worker end by itself.
    dying: Arc<Mutex<HashMap<&'static str, Arc<Notify>>>>,
    stuck: Arc<Mutex<Vec<Leftover>>>,
    broken: Arc<Mutex<Vec<String>>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))),
            present: Arc::default(),
            all: Arc::default(),
            dying: Arc::default(),
            stuck: Arc::default(),
            broken: Arc::default(),
        }
    }

    /// Lets the present worker of a path end by itself.
    pub(super) fn strike(&self, path: &'static str) {
        self.death_of(path).notify_waiters();
    }

    fn death_of(&self, path: &'static str) -> Arc<Notify> {
        Arc::clone(self.dying.lock().entry(path).or_default())
    }

    fn parting(&self) -> Parting {
        let mut random = self.random.lock();
        match random.random_range(0..40) {
            0 => Parting::Never,
            1 => Parting::Stuck(Duration::from_millis(random.random_range(0..60_000))),
            2..10 => Parting::After(Duration::from_millis(random.random_range(0..1_500))),
            _ => Parting::After(Duration::from_millis(7)),
        }
    }

    /// Lets those end after all who have been stuck long enough.
    pub(super) fn release(&self, until: Instant) {
        let mut stuck = self.stuck.lock();
        let (over, left) = stuck.drain(..).partition(|leftover| leftover.until <= until);
        *stuck = left;
        drop(stuck);
        let over: Vec<Leftover> = over;
        for leftover in over {
            leftover.worker.lingers.store(false, Ordering::SeqCst);
            leftover.worker.has_ended.store(true, Ordering::SeqCst);
        }
    }

    pub(super) fn break_promise(&self, what: String) {
        self.broken.lock().push(what);
    }

    /// Returns what did not hold, up to now.
    pub(super) fn broken(&self) -> Vec<String> {
        self.broken.lock().clone()
    }

    /// Returns how many run with the token of the present worker of a path.
    pub(super) fn users_of(&self, path: &str) -> usize {
        self.present.lock()[path].users.load(Ordering::SeqCst)
    }

    /// Checks that nobody lives who is not stuck.
    pub(super) fn check_all_ended(&self) {
        let all = self.all.lock();
        let lives = |worker: &&Arc<Running>| {
            !worker.has_ended.load(Ordering::SeqCst) && !worker.lingers.load(Ordering::SeqCst)
        };
        for worker in all.iter().filter(lives) {
            self.break_promise(format!("{} outlives the engine", worker.path));
        }
    }

    /// Checks that those who are left behind are those who are stuck, or the engines that hold them.
    pub(super) fn check_left_behind(&self, left_behind: &[String]) {
        let stuck = self.stuck.lock();
        let holds = |path: &String, stuck: &Leftover| {
            let rest = stuck.worker.path.strip_prefix(&**path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        for leftover in stuck.iter() {
            if !left_behind.iter().any(|path| holds(path, leftover)) {
                self.break_promise(format!("{} is left behind unnamed", leftover.worker.path));
            }
        }
        for path in left_behind {
            if !stuck.iter().any(|leftover| holds(path, leftover)) {
                self.break_promise(format!("{path} is named, and nobody there is stuck"));
            }
        }
    }

    /// Returns a manifold whose workers check that who uses them ends before they do.
    pub(super) fn manifold(&self, path: &'static str, inputs: &[&'static str]) -> Manifold {
        let inputs: Vec<Name<Token>> = inputs.iter().map(|name| Name::new(name)).collect();
        let builder = Manifold::builder().inputs(inputs).offers::<(Token,)>();
        let run = |(world, path): (Self, _), inputs, up: Up<(Token,)>| async move {
            let death = world.death_of(path);
            let life = Life::begin(&world, path, inputs);
            let stop = up.ready((Token { worker: Arc::clone(&life.worker) },));
            tokio::select! {
                () = stop.wait() => {
                    life.part(&stop).await;
                    Ok(())
                }
                () = death.notified() => Err(Exit::failed("died")),
            }
        };
        builder.run_with((self.clone(), path), run).grace(GRACE)
    }
}

/// The life of one worker, which ends when its future does.
struct Life {
    world: World,
    worker: Arc<Running>,
    inputs: Vec<Token>,
}

impl Life {
    fn begin(world: &World, path: &'static str, inputs: Vec<Token>) -> Self {
        for Token { worker } in &inputs {
            worker.users.fetch_add(1, Ordering::SeqCst);
            // The engine may not know yet of one that has died.
            if worker.was_stopped.load(Ordering::SeqCst) {
                world.break_promise(format!("{path} starts with {} that is gone", worker.path));
            }
        }
        let worker = Arc::new(Running { path, ..Running::default() });
        if let Some(before) = world.present.lock().insert(path, Arc::clone(&worker))
            && !before.has_ended.load(Ordering::SeqCst)
        {
            world.break_promise(format!("{path} runs twice"));
        }
        world.all.lock().push(Arc::clone(&worker));
        Self { world: world.clone(), worker, inputs }
    }

    /// Ends, in its own way, because it was told to.
    async fn part(&self, stop: &Stop) {
        self.check_users();
        self.worker.was_stopped.store(true, Ordering::SeqCst);
        match self.world.parting() {
            Parting::After(delay) => sleep(delay).await,
            Parting::Never => pending().await,
            Parting::Stuck(delay) => {
                self.worker.lingers.store(true, Ordering::SeqCst);
                let until = Instant::now() + delay;
                let worker = Arc::clone(&self.worker);
                let leftover = Leftover { until, worker, _linger: stop.linger() };
                self.world.stuck.lock().push(leftover);
                pending::<()>().await;
            }
        }
    }

    fn check_users(&self) {
        if self.worker.users.load(Ordering::SeqCst) > 0 {
            self.world.break_promise(format!("{} was stopped before its users", self.worker.path));
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if self.worker.was_stopped.load(Ordering::SeqCst) {
            self.check_users();
        }
        if !self.worker.lingers.load(Ordering::SeqCst) {
            self.worker.has_ended.store(true, Ordering::SeqCst);
        }
        for Token { worker } in &self.inputs {
            worker.users.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
