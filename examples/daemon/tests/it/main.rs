//! The same tests for both wirings of the daemon, as processes.

mod daemon;
mod wiring;

use std::net::TcpListener;

use crate::daemon::{Daemon, Folder, Result, Wiring};

/// Makes a module with these tests for each wiring.
macro_rules! for_both {
    ($($test:ident),* $(,)?) => {
        mod crankcase {
            $(#[test]
            fn $test() -> crate::Result { crate::$test(crate::Wiring::Crankcase) })*
        }

        mod plain {
            $(#[test]
            fn $test() -> crate::Result { crate::$test(crate::Wiring::Plain) })*
        }
    };
}

for_both! {
    tenants_come_and_go_alone,
    a_changed_limit_reaches_its_tenant_only,
    a_bad_file_is_reported_and_changes_nothing,
    a_poller_that_panics_comes_back,
    another_store_restarts_its_users_and_no_others,
    another_address_moves_the_server_alone,
    an_ordered_end_keeps_every_note,
    a_request_that_hangs_does_not_hold_up_the_end,
    a_busy_port_ends_the_daemon_with_one_error,
}

fn tenants_come_and_go_alone(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3), ("globex", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    let acme = client.started("acme", 0)?;
    client.started("globex", 0)?;

    folder.write("notes", &[("acme", 3), ("initech", 3)])?;
    client.started("initech", 0)?;
    daemon.line("closed the desk tenant=globex")?;

    assert_eq!(client.get("/tenants/globex")?.status, 404);
    assert_eq!(client.started("acme", 0)?, acme);
    daemon.end()?;
    Ok(())
}

fn a_changed_limit_reaches_its_tenant_only(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3), ("globex", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    let started = (client.started("acme", 0)?, client.started("globex", 0)?);
    daemon.line("keeps the newest notes tenant=globex limit=3")?;
    for tenant in ["acme", "globex"] {
        for note in ["one", "two", "three"] {
            client.add(tenant, note)?;
        }
    }

    folder.write("notes", &[("acme", 1), ("globex", 3)])?;
    daemon.line("keeps the newest notes tenant=acme limit=1")?;

    assert_eq!(client.notes("acme")?, ["three"]);
    assert_eq!(client.notes("globex")?, ["one", "two", "three"]);
    assert_eq!((client.started("acme", 0)?, client.started("globex", 0)?), started);
    let log = daemon.end()?;
    assert_eq!(log.matches("keeps the newest notes tenant=globex").count(), 1, "{log}");
    Ok(())
}

fn a_bad_file_is_reported_and_changes_nothing(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    let acme = client.started("acme", 0)?;

    folder.write("notes", &[("globex", 0)])?;
    daemon.line("tenants.globex.limit is 0; expected at least 1")?;
    let health = client.get("/health")?;
    assert_eq!(health.status, 503);
    assert!(health.body.contains("tenants.globex.limit is 0"), "{}", health.body);
    assert_eq!(client.started("acme", 0)?, acme);

    folder.write("notes", &[("acme", 3), ("globex", 1)])?;
    client.started("globex", 0)?;
    assert_eq!(client.get("/health")?.status, 200);
    assert_eq!(client.started("acme", 0)?, acme);
    daemon.end()?;
    Ok(())
}

fn a_poller_that_panics_comes_back(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    let acme = client.started("acme", 0)?;
    daemon.line("polls every=")?;

    client.add("acme", "panic")?;
    daemon.line("polls every=")?;
    client.add("acme", "after all")?;
    let seen = daemon.line("has seen tenant=acme text=")?;
    assert!(seen.contains("after all"), "{seen}");

    assert_eq!(client.started("acme", 0)?, acme);
    assert_eq!(client.get("/health")?.status, 200);
    daemon.end()?;
    Ok(())
}

fn another_store_restarts_its_users_and_no_others(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    let first = client.started("acme", 0)?;
    client.add("acme", "kept")?;

    folder.write("others", &[("acme", 3)])?;
    let second = client.started("acme", first)?;
    assert!(client.notes("acme")?.is_empty());

    folder.write("notes", &[("acme", 3)])?;
    client.started("acme", second)?;
    assert_eq!(client.notes("acme")?, ["kept"]);
    let log = daemon.end()?;
    assert_eq!(log.matches("listens address=").count(), 1, "{log}");
    // The users have let go of one store before the next one is opened.
    let order = ["opened the store", "opened the desk", "closed the desk"];
    assert_eq!(daemon::order(&log, &order), [order, order, order].concat(), "{log}");
    Ok(())
}

fn another_address_moves_the_server_alone(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let acme = daemon.connect()?.started("acme", 0)?;

    folder.write_at("127.0.0.2:0", "notes", &[("acme", 3)])?;
    daemon.listens()?;

    assert_eq!(daemon.connect()?.started("acme", 0)?, acme);
    daemon.end()?;
    Ok(())
}

fn an_ordered_end_keeps_every_note(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let mut daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    client.started("acme", 0)?;
    client.add("acme", "one")?;
    client.begin("acme", "two".len())?;
    daemon.terminate()?;
    daemon.line("takes no more connections")?;
    client.send("two")?;
    assert_eq!(client.receive()?.status, 201);
    let log = daemon.ended()?;
    // The tenants were there until the server had ended.
    let order = ["serves no more", "closed the desk"];
    assert_eq!(daemon::order(&log, &order), order, "{log}");

    let daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    client.started("acme", 0)?;
    assert_eq!(client.notes("acme")?, ["one", "two"]);
    daemon.end()?;
    Ok(())
}

fn a_request_that_hangs_does_not_hold_up_the_end(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    folder.write("notes", &[("acme", 3)])?;
    let daemon = Daemon::start(wiring, &folder)?;
    let mut client = daemon.connect()?;
    client.started("acme", 0)?;
    client.begin("acme", 9)?;
    daemon.terminate()?;

    let (status, log) = daemon.wait()?;

    let (code, said) = match wiring {
        Wiring::Crankcase => (1, "worker /daemon/http did not stop in time"),
        Wiring::Plain => (0, "dropped requests that did not end in time"),
    };
    assert_eq!(status.code(), Some(code), "{log}");
    assert!(log.contains(said), "{log}");
    Ok(())
}

fn a_busy_port_ends_the_daemon_with_one_error(wiring: Wiring) -> Result {
    let folder = Folder::new()?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    folder.write_at(&address, "notes", &[("acme", 3)])?;

    let (status, log) = Daemon::spawn(wiring, &folder)?.wait()?;

    assert_eq!(status.code(), Some(1), "{log}");
    let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{log}");
    assert!(errors[0].contains(&format!("cannot listen at {address}: Address already in use")));
    Ok(())
}
