//! What a service manager is told of an agent.

use std::ffi::OsStr;
use std::path::Path;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::UnixDatagram;

use crate::process::{Agent, Error, TestResult, guarded};

/// A service manager that has started an agent.
struct Manager {
    folder: TempDir,
    socket: UnixDatagram,
    seen: Vec<String>,
}

impl Manager {
    fn new() -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let socket = UnixDatagram::bind(folder.path().join("notify"))?;
        Ok(Self { folder, socket, seen: Vec::new() })
    }

    fn start(&self, ways: &[&str], watchdog: Option<&str>) -> Result<Agent, Error> {
        let socket = self.folder.path().join("notify");
        let mut variables = vec![("NOTIFY_SOCKET", socket.as_os_str())];
        variables.extend(watchdog.map(|micros| ("WATCHDOG_USEC", OsStr::new(micros))));
        Agent::spawn_with(&self.state_dir(), ways, &variables)
    }

    fn state_dir(&self) -> std::path::PathBuf {
        Path::join(self.folder.path(), "state")
    }

    /// Waits until it has been told this line.
    async fn until(&mut self, line: &str) -> TestResult {
        self.until_times(1, line).await
    }

    /// Waits until it has been told this line so many times.
    async fn until_times(&mut self, times: usize, line: &str) -> TestResult {
        let mut buffer = [0; 4096];
        while self.seen.iter().filter(|seen| *seen == line).count() < times {
            let length = guarded(self.socket.recv(&mut buffer)).await?;
            let message = String::from_utf8(buffer[..length].to_vec())?;
            self.seen.extend(message.lines().map(str::to_owned));
        }
        Ok(())
    }

    fn has_seen(&self, line: &str) -> bool {
        self.seen.iter().any(|seen| seen == line)
    }
}

#[tokio::test]
async fn it_is_told_when_the_agent_is_ready_and_when_it_stops() -> TestResult {
    let mut manager = Manager::new()?;
    let mut agent = manager.start(&["late"], None)?;
    agent.until("the late worker waits").await?;
    manager.until("STATUS=2 of 3 workers run; late is starting").await?;
    assert!(!manager.has_seen("READY=1"), "{:?}", manager.seen);

    agent.send(Signal::HUP)?;

    manager.until("READY=1").await?;
    manager.until("STATUS=3 of 3 workers run").await?;
    assert!(!manager.has_seen("STOPPING=1"), "{:?}", manager.seen);
    agent.send(Signal::TERM)?;
    manager.until("STOPPING=1").await?;
    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(0), "{log}");
    Ok(())
}

#[tokio::test]
async fn it_is_told_of_a_stop_that_a_fatal_error_began() -> TestResult {
    let mut manager = Manager::new()?;
    let mut agent = manager.start(&["fatal", "deaf"], None)?;
    manager.until("READY=1").await?;

    agent.send(Signal::HUP)?;

    manager.until("STOPPING=1").await?;
    agent.until("not listening").await?;
    agent.send(Signal::KILL)?;
    agent.end().await?;
    Ok(())
}

#[tokio::test]
async fn what_it_has_not_read_is_told_again() -> TestResult {
    let mut manager = Manager::new()?;
    let others = std::os::unix::net::UnixDatagram::unbound()?;
    others.set_nonblocking(true)?;
    let place = manager.folder.path().join("notify");
    // As if other services had filled its queue.
    while others.send_to(b"STATUS=busy", &place).is_ok() {}
    let mut agent = manager.start(&[], None)?;
    agent.until("the service manager does not read: told later").await?;
    agent.until("ready").await?;

    manager.until("READY=1").await?;

    agent.send(Signal::TERM)?;
    manager.until("STOPPING=1").await?;
    let (status, log) = agent.end().await?;
    assert_eq!(status.code(), Some(0), "{log}");
    Ok(())
}

#[tokio::test]
async fn an_agent_whose_manifolds_do_not_fit_is_never_ready() -> TestResult {
    let mut manager = Manager::new()?;

    let (status, log) = manager.start(&["mistyped"], None)?.end().await?;

    assert_eq!(status.code(), Some(65), "{log}");
    manager.until("STOPPING=1").await?;
    assert!(!manager.has_seen("READY=1"), "{:?}", manager.seen);
    Ok(())
}

#[tokio::test]
async fn the_watchdog_is_told_while_the_engine_answers_and_no_longer() -> TestResult {
    let mut manager = Manager::new()?;
    let mut agent = manager.start(&["wedging"], Some("100000"))?;
    manager.until_times(3, "WATCHDOG=1").await?;
    manager.until("READY=1").await?;

    agent.send(Signal::HUP)?;

    agent.until("the engine does not answer: no watchdog beat").await?;
    agent.send(Signal::KILL)?;
    agent.end().await?;
    Ok(())
}

#[tokio::test]
async fn a_manager_that_cannot_be_told_is_no_obstacle() -> TestResult {
    let folder = tempfile::tempdir()?;
    let cases = [
        ("NOTIFY_SOCKET", "vsock:2:1", "expected a path, or @ and an abstract name"),
        ("NOTIFY_SOCKET", "/nowhere/at/all", "cannot tell the service manager"),
    ];
    for (name, value, expected) in cases {
        let variables = [(name, OsStr::new(value))];
        let mut agent = Agent::spawn_with(folder.path(), &[], &variables)?;

        agent.until_all(&[expected, "the control socket listens"]).await?;

        agent.send(Signal::TERM)?;
        assert_eq!(agent.end().await?.0.code(), Some(0));
    }
    Ok(())
}
