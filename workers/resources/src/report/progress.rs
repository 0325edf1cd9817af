//! How far plan or apply has come.

use std::fmt;
use std::sync::Arc;

use crankcase_workers::name_first;
use parking_lot::Mutex;

/// How many names of what is at work are shown.
const NAMED: usize = 3;

/// How far a plan or an apply has come, for those who wait for it. Cheap to clone; clones see the
/// same.
///
/// As a text it is such as `12 of 300 done, at work on index, backup`.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    done: usize,
    /// Those that have begun and not ended, in the order in which they have begun.
    at_work: Vec<String>,
}

impl Progress {
    /// Begins anew with this many resources.
    pub(crate) fn begin(&self, total: usize) {
        *self.0.lock() = Counts { total, ..Counts::default() };
    }

    /// Does the work on a resource and counts it.
    pub(crate) async fn count<F: Future>(self, name: String, work: F) -> F::Output {
        let output = self.at_work_on(&name, work).await;
        self.0.lock().done += 1;
        output
    }

    /// Does some work on a resource, which is not all of it.
    pub(crate) async fn at_work_on<F: Future>(&self, name: &str, work: F) -> F::Output {
        self.0.lock().at_work.push(name.to_owned());
        let output = work.await;
        self.0.lock().at_work.retain(|other| other != name);
        output
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.lock();
        write!(f, "{} of {} done", counts.done, counts.total)?;
        match counts.at_work.is_empty() {
            true => Ok(()),
            false => write!(f, ", at work on {}", name_first(NAMED, counts.at_work.iter())),
        }
    }
}
