//! Watchers that the test drives.

use crankcase_testing::{FakeNotifyWatcher, FakeStringsWatcher, FakeWatcher, Journal};

use crate::TestResult;

#[tokio::test(start_paused = true)]
async fn everyone_who_watches_is_told() {
    let watcher = FakeWatcher::new();
    let (mut first, mut second) = (watcher.watch(), watcher.watch());

    watcher.send(7);
    watcher.send(8);

    assert_eq!((first.next().await, first.next().await), (Some(7), Some(8)));
    assert_eq!(second.next().await, Some(7));
    assert_eq!(watcher.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_begins_to_watch_is_told_what_there_is() {
    let watcher = FakeStringsWatcher::initially(vec![vec!["a".to_owned()]]);
    watcher.send(vec!["b".to_owned()]);

    let mut late = watcher.watch();
    watcher.send(vec!["c".to_owned()]);

    assert_eq!(late.next().await, Some(vec!["a".to_owned()]));
    assert_eq!(late.next().await, Some(vec!["c".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_closed_watcher_tells_what_is_left_and_ends() {
    let watcher = FakeNotifyWatcher::notify();
    let mut watching = watcher.watch();
    watcher.ping();
    watcher.close();

    assert_eq!(watching.next().await, Some(()));
    assert_eq!(watching.next().await, None);
    assert_eq!(watching.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_change_is_handled_when_the_next_one_is_asked_for() -> TestResult {
    let (watcher, journal) = (FakeWatcher::new(), Journal::new());
    let mut watching = watcher.watch();
    let worker = async {
        while let Some(number) = watching.next().await {
            journal.note(format!("{number} begins"));
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            journal.note(format!("{number} is through"));
        }
    };
    let test = async {
        watcher.send(1);
        let handled = watcher.handled().await;
        journal.note("handled");
        watcher.close();
        handled
    };

    let ((), handled) = tokio::join!(worker, test);

    assert_eq!(journal.lines(), ["1 begins", "1 is through", "handled"]);
    Ok(handled?)
}

#[tokio::test(start_paused = true)]
async fn who_watches_no_more_is_not_waited_for() -> TestResult {
    let watcher = FakeWatcher::new();
    let (watching, mut other) = (watcher.watch(), watcher.watch());
    watcher.send(1);
    let worker = async {
        drop(watching);
        while other.next().await.is_some() {}
    };
    let test = async {
        let handled = watcher.handled().await;
        watcher.close();
        handled
    };

    let ((), handled) = tokio::join!(worker, test);

    assert_eq!(watcher.count(), 1);
    Ok(handled?)
}

#[tokio::test(start_paused = true)]
async fn who_is_told_is_counted() {
    let watcher = FakeWatcher::notify();

    let before = watcher.ping();
    let _both = (watcher.watch(), watcher.watch());

    assert_eq!((before, watcher.ping()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watches_is_not_handled() -> TestResult {
    let watcher = FakeWatcher::new();
    watcher.send(1);

    let failure = watcher.handled().await.err().ok_or("it was handled")?;

    assert_eq!(failure.to_string(), "nobody has watched within 600s");
    watcher.close();
    Ok(watcher.handled().await?)
}

#[tokio::test(start_paused = true)]
async fn waits_for_those_who_watch_come_to_an_end() -> TestResult {
    let watcher = FakeWatcher::new();
    let _busy = watcher.watch();
    watcher.send(1);

    let handled = watcher.handled().await.err().ok_or("it was handled")?.to_string();
    let watched = watcher.watched_by(2).await.err().ok_or("two watch")?.to_string();

    assert_eq!(handled, "1 of 1 who watch have not asked for the next change within 600s");
    assert_eq!(watched, "1 watch and not 2 within 600s");
    Ok(())
}
