//! Tests that only root can run. Without root, `.ci/test` counts them as skipped.

use crankcase_history::Query;

use crate::mount::Mount;
use crate::support::TestResult;
use crate::{opened, record};

#[test]
fn a_history_is_read_on_a_full_and_on_a_read_only_disk() -> TestResult {
    let mount = Mount::new("size=1m,mode=0700")?;
    let path = mount.path().join("history.db");
    record(&path, 0, &["page"])?;
    let events = || -> TestResult<_> { Ok(opened(&path)?.events(&Query::default())?) };
    let before = events()?;

    assert!(mount.fill().is_err(), "the disk is not full");
    assert_eq!(events()?, before);
    mount.remount("ro")?;
    assert_eq!(events()?, before);
    Ok(())
}
