//! The output of actions: where an account and an event show it.

use crankcase_resources::{Done, Outcome};

use crate::world::{TestResult, World};

/// Returns a type whose action runs this line.
fn acting(mend: &str) -> String {
    format!(
        r#"#!/bin/sh
case ${{1-init}} in
init) echo '{{"protocol": 1, "calls": {{"check": {{"args": ["check"]}}}}}}' ;;
check) echo '{{"status": "STALE", "actions": [{{"name": "mend", "args": ["mend"]}}]}}' ;;
mend) {mend} ;;
esac
"#
    )
}

const SITE: &str = "resources: {r1: {type: \"program:./it\"}}\n";

/// The failure of an action.
struct Failure<'a> {
    /// The last words of the error.
    error: &'a str,
    /// All lines of the action's output.
    log: &'a [&'a str],
}

/// Requires that an action fails like this, and that the account and the event show all lines of its output.
async fn fails(site: &str, script: &str, expected: Failure<'_>) -> TestResult {
    let world = World::new(site, script)?;

    let (account, events) = world.apply().await?;

    let Outcome::Failed { at: Some(Done { log: said, .. }), error } = &account.resources[0].outcome
    else {
        return Err(format!("{script}: {account}").into());
    };
    assert!(error.ends_with(expected.error), "{script}: {error}");
    assert_eq!(said, expected.log, "{script}");
    assert_eq!(events.len(), 1, "{script}: {events:?}");
    assert_eq!(events[0].done.iter().map(|done| &done.log).collect::<Vec<_>>(), [said], "{script}");
    Ok(())
}

#[tokio::test]
async fn all_that_a_failed_action_has_said_is_in_the_account_and_the_event() -> TestResult {
    let lines: Vec<String> = (1..=40).map(|number| format!("line {number}")).collect();
    let mut log: Vec<&str> = vec!["on stdout"];
    log.extend(lines.iter().map(String::as_str));
    let many = "echo on stdout; for n in $(seq 40); do echo line $n >&2; done; exit 3";

    let error = "command terminated with exit code #3!; it said last: line 40";
    fails(SITE, &acting(many), Failure { error, log: &log }).await?;
    let quiet = "echo no luck; echo; exit 4";
    let error = "exit code #4!; it said last: no luck";
    fails(SITE, &acting(quiet), Failure { error, log: &["no luck", ""] }).await?;
    let killed = "echo begun; kill -9 $$";
    let error = "was ended by signal 9; it said last: begun";
    fails(SITE, &acting(killed), Failure { error, log: &["begun"] }).await?;
    let error = "command terminated with exit code #5!";
    fails(SITE, &acting("exit 5"), Failure { error, log: &[] }).await
}

#[tokio::test]
async fn all_that_a_late_action_has_said_is_in_the_account_and_the_event() -> TestResult {
    let late = "echo out; echo begun >&2; exec sleep 1000";
    let script = acting(late).replace("\"calls\"", r#""timeouts": {"action": "2s"}, "calls""#);
    let log: &[&str] = &["out", "begun"];
    let of_type = "took longer than 2s and was ended; it said last: begun";
    let limited = SITE.replace("it\"", "it\", meta: {timeout: 1s}");
    let of_resource = "it took longer than its timeout of 1s and was told to stop: interrupted; it said last: begun";

    let (one, other) = tokio::join!(
        fails(SITE, &script, Failure { error: of_type, log }),
        fails(&limited, &script, Failure { error: of_resource, log }),
    );

    one.and(other)
}

#[tokio::test]
async fn of_more_than_a_mebibyte_of_a_stream_the_middle_is_left_out() -> TestResult {
    // 8 bytes each: 3,200,000 of each stream.
    let many = "seq -f 'a%06.0f' 400000; seq -f 'b%06.0f' 400000 >&2";
    let world = World::new(SITE, &acting(many))?;

    let (account, events) = world.apply().await?;

    let log = &account.resources[0].done[0].log;
    let bytes: usize = log.iter().map(|line| line.len() + 1).sum();
    assert!((2_090_000..2_098_000).contains(&bytes), "{bytes}");
    let (first, last) = (log.first().map(String::as_str), log.last().map(String::as_str));
    assert_eq!((first, last), (Some("a000001"), Some("b400000")));
    for line in ["a065536", "a400000", "b000001", "b065536"] {
        assert!(log.iter().any(|it| it == line), "{line}");
    }
    let left_out: Vec<_> = log.iter().filter(|line| line.starts_with("...")).collect();
    assert_eq!(left_out, ["... 2151432 bytes are left out ..."; 2]);
    assert_eq!(&events[0].done[0].log, log);
    Ok(())
}
