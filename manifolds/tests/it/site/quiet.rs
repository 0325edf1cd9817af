//! Files that a resource reads, while somebody edits them.
//!
//! With a paused clock a wait ends at once, and the watcher sees what was written before it ends.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use async_trait::async_trait;
use crankcase_resources::dynamic::{Found, Unit};
use crankcase_resources::{BoxError, Context, Watch};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::site::double::with_double;
use crate::site::machine::{Machine, TestResult, within};

const QUIET: Duration = Duration::from_millis(500);

/// The first content of the file.
const FIRST: &str = "old";

/// The texts that were read, each with its time.
type Looks = Vec<(String, Instant)>;

/// A resource that reads one file and keeps another; it is always as declared.
#[derive(Debug, Default)]
struct Reader {
    looks: watch::Sender<Looks>,
}

#[async_trait]
impl Unit for Reader {
    async fn check(&self, context: &Context) -> Result<Found, BoxError> {
        let text = fs::read_to_string(context.folder().join("source"))?;
        self.looks.send_modify(|looks| looks.push((text, Instant::now())));
        Ok(Found::Valid(json!({})))
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let path = |name: &str| context.folder().join(name);
        Ok(Watch::never().path(path("kept")).reads([path("source")]))
    }
}

/// Returns a machine with a resource that has read its file once, and what it reads.
async fn reading() -> TestResult<(Machine, watch::Receiver<Looks>)> {
    reading_after(QUIET).await
}

/// Returns the same, with another quiet time.
async fn reading_after(quiet: Duration) -> TestResult<(Machine, watch::Receiver<Looks>)> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("source"), FIRST)?;
    let reader = Reader::default();
    let mut looks = reader.looks.subscribe();
    let setting = (quiet, with_double(reader));
    let machine = Machine::quiet(folder, "resources: {it: {type: double}}", setting).await?;
    machine.running("it").await?;
    within(looks.wait_for(|looks| !looks.is_empty())).await?;
    Ok((machine, looks))
}

/// Has the machine see what was written. Returns when it was written.
async fn noticed() -> Instant {
    let written = Instant::now();
    for _ in 0..5 {
        sleep(Duration::from_millis(1)).await;
    }
    written
}

/// Waits for the first look that reads something new, checks that the file was left alone from this moment until then,
/// and returns what it has read.
async fn edited(looks: &mut watch::Receiver<Looks>, written: Instant) -> TestResult<String> {
    let is_new = |(text, _): &&(String, Instant)| text != FIRST;
    let wait = looks.wait_for(|looks| looks.iter().any(|look| is_new(&look)));
    let looks = within(wait).await?.clone();
    let (text, at) = looks.iter().find(is_new).ok_or("nothing new was read")?;
    assert!(*at >= written + QUIET, "{looks:?}");
    Ok(text.clone())
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_when_it_was_left_alone_after_the_last_of_several_writes() -> TestResult {
    let (machine, mut looks) = reading().await?;

    for text in ["new", "newer"] {
        machine.write("source", text)?;
        noticed().await;
        sleep(Duration::from_millis(400)).await;
    }
    machine.write("source", "newest")?;
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "newest");
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_still_open_for_writing_is_not_read() -> TestResult {
    let (machine, mut looks) = reading().await?;

    let mut file = File::create(machine.path("source"))?;
    file.write_all(b"half ")?;
    noticed().await;
    sleep(Duration::from_secs(2)).await;
    file.write_all(b"whole")?;
    drop(file);
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "half whole");
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_file_that_stays_open_for_writing_is_read_after_5_s() -> TestResult {
    let (machine, mut looks) = reading().await?;

    let mut file = File::create(machine.path("source"))?;
    file.write_all(b"half")?;
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "half");
    assert!(written.elapsed() >= Duration::from_secs(5));
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_quiet_time_ends_before_an_unwatched_file_is_looked_at_again() -> TestResult {
    let (machine, mut looks) = reading_after(Duration::from_secs(60)).await?;

    machine.write("source", "new")?;
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "new");
    // Each look at an unwatched file counts as an edit, and is 30 s after the one before.
    assert!(written.elapsed() < Duration::from_secs(30), "{:?}", written.elapsed());
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_visit_for_another_reason_does_not_read_what_is_being_edited() -> TestResult {
    let (machine, mut looks) = reading().await?;

    machine.write("source", "half")?;
    machine.write("kept", "drift")?;
    noticed().await;
    machine.write("source", "whole")?;
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "whole");
    machine.stop().await
}

#[tokio::test(start_paused = true)]
async fn a_resource_with_another_config_does_not_read_what_is_being_edited() -> TestResult {
    let (machine, mut looks) = reading().await?;

    machine.write("source", "half")?;
    noticed().await;
    machine.swap("resources: {it: {type: double, config: {is: another}}}").await?;
    noticed().await;
    machine.write("source", "whole")?;
    let written = noticed().await;

    assert_eq!(edited(&mut looks, written).await?, "whole");
    machine.stop().await
}
