//! Notifications in apply, and in the plan before it.

use crankcase_resources::run::plan;
use crankcase_resources::{ApplyOptions, Declaration, OnChange, Outcome, PlanOptions, Verdict};

use crate::probe::{Event, probe, probes};
use crate::support::{TestResult, apply_with, uses};

/// Adds a resource that the declared one notifies.
pub(crate) fn notifying(mut source: Declaration, target: &str) -> Declaration {
    source.notify.push(target.to_owned());
    source
}

#[tokio::test]
async fn a_changed_source_refreshes_what_it_notifies() -> TestResult {
    for source in ["", "valid"] {
        let (kinds, journal) = probes();
        let by_source = [probe("server", "valid"), notifying(probe("page", source), "server")];
        let mut server = uses(probe("server", "valid"), &["page"]);
        server.dependencies[0].on_change = OnChange::Notify;
        let by_edge = [server, probe("page", source)];

        for declarations in [&by_source, &by_edge] {
            let planned = plan(declarations, &kinds, &PlanOptions::default()).await?;
            let planned = planned.get("server").unwrap();

            assert_eq!(planned.refresh.is_some(), source.is_empty());
            assert_eq!(planned.verdict, Verdict::Unchanged);
        }
        let account = apply_with(&by_source, &kinds, &ApplyOptions::default()).await?;

        let is_refreshed = journal.events().contains(&Event::Refreshed("server".to_owned()));
        assert_eq!(is_refreshed, source.is_empty());
        let wanted = if is_refreshed { Outcome::Changed } else { Outcome::Unchanged };
        assert_eq!(account.get("server").unwrap().outcome, wanted);
    }
    Ok(())
}

#[tokio::test]
async fn a_notification_that_is_missed_is_told() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [
        notifying(probe("page", ""), "server"),
        probe("bad", "fails"),
        uses(probe("server", "valid"), &["bad"]),
    ];

    let account = apply_with(&declarations, &kinds, &ApplyOptions::default()).await?;

    assert_eq!(account.get("server").unwrap().missed, ["page"]);
    assert!(account.to_string().contains("not refreshed, although notified by page"));
    assert!(!journal.events().contains(&Event::Refreshed("server".to_owned())));
    Ok(())
}

#[tokio::test]
async fn a_source_that_changed_before_it_failed_notifies() -> TestResult {
    let (kinds, journal) = probes();
    let declarations = [notifying(probe("page", "lies"), "server"), probe("server", "valid")];

    drop(apply_with(&declarations, &kinds, &ApplyOptions::default()).await?);

    assert!(journal.events().contains(&Event::Refreshed("server".to_owned())));
    Ok(())
}
