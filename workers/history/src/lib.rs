//! The record of what was changed, repaired and failed on a machine, and when.
//!
//! A [`Recorder`] writes one run: an `apply`, or an agent from its start to its end. [`History`] reads
//! what is on record, also while a run is written. Both use one SQLite file.
//!
//! It knows no resource: an [`Event`] holds names and texts.
//!
//! # Examples
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use crankcase_history::{Event, History, Query, Recorder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let file = folder.path().join("history.db");
//! let noon = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
//! let recorder = Recorder::begin(&file, ("apply", "site.yaml"), noon)?;
//! let event = Event { event: "changed".to_owned(), resource: "page".to_owned(), ..Event::default() };
//! recorder.note(event, noon);
//! recorder.end("done", noon);
//!
//! let history = History::open(&file)?.ok_or("nothing is on record")?;
//! let run = &history.runs(&Query::default())?[0];
//! assert_eq!((run.mode.as_str(), run.counts["changed"]), ("apply", 1));
//! # Ok(()) }
//! ```

mod history;
mod record;
mod recorder;
mod store;

pub use history::{History, Query};
pub use record::{Event, Recorded, Run};
pub use recorder::Recorder;
pub use store::HistoryError;
