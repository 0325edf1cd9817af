//! Watchers that the test drives.

use crankcase_testing::{FakeNotifyWatcher, FakeStringsWatcher, FakeWatcher, Journal};

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
async fn a_change_is_handled_when_the_next_one_is_asked_for() {
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
        watcher.handled().await;
        journal.note("handled");
        watcher.close();
    };

    tokio::join!(worker, test);

    assert_eq!(journal.lines(), ["1 begins", "1 is through", "handled"]);
}

#[tokio::test(start_paused = true)]
async fn who_watches_no_more_is_not_waited_for() {
    let watcher = FakeWatcher::new();
    let watching = watcher.watch();
    watcher.send(1);
    let test = async {
        watcher.watched_by(0).await;
        watcher.handled().await;
    };

    tokio::join!(test, async { drop(watching) });

    assert_eq!(watcher.count(), 0);
}
