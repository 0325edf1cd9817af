//! How soon a change of a file reaches who depends on it, as a ratio to bare reads of inotify in the
//! same run.
//!
//! `cargo bench -p crankcase-workers --bench file_watch` runs all measures; a word after `--` runs
//! those whose names contain it. Floor and watcher alternate for five rounds on the same
//! current-thread runtime; medians are compared. Each has 10,000 files in 100 folders of its own, on
//! one inotify instance, and what changes is one byte in one of them, written through a file that is
//! open already.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails may panic")]

mod files;
mod floor;
#[path = "../../../../engine/benches/engine/rounds.rs"]
mod rounds;
mod subject;
mod table;

use crate::files::Files;
use crate::subject::Subject;
use crate::table::Table;

fn main() {
    let mut args = std::env::args().skip(1);
    let table = Table::new(args.find(|arg| !arg.starts_with('-')).unwrap_or_default());
    table.head();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (floor_files, subject_files) = (Files::make(), Files::make());
    runtime.block_on(async {
        let subject = Subject::start(&subject_files).await;
        let measured = async || subject.change(&subject_files).await;
        let name = "a change reaches a dependent, against a read in a bare task";
        table.compare(name, 3.0, async || floor::task(&floor_files).await, measured).await;
        let name = "a change reaches a dependent, against a blocking read";
        table.compare(name, 3.0, async || floor::blocking(&floor_files), measured).await;
        subject.stop().await;
    });
}
