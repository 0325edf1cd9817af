//! What a service tells its manager.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crankcase_workers::{ServiceManager, ServiceState};

use crate::running::TestResult;

/// Returns what was sent to a socket last.
fn received(socket: &UnixDatagram) -> Result<String, Box<dyn std::error::Error>> {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer)?;
    Ok(String::from_utf8(buffer[..length].to_vec())?)
}

#[test]
fn states_are_told_at_a_path_as_lines_of_one_message() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path)?;
    let manager = ServiceManager::at(path.as_os_str())?;

    manager.tell(&[ServiceState::Ready, ServiceState::Status("a\nREADY=0".to_owned())])?;
    assert_eq!(received(&socket)?, "READY=1\nSTATUS=a READY=0");
    manager.tell(&[ServiceState::Stopping])?;
    assert_eq!(received(&socket)?, "STOPPING=1");
    manager.tell(&[ServiceState::Status("ä".repeat(1000))])?;
    assert_eq!(received(&socket)?, format!("STATUS={}", "ä".repeat(500)));
    assert_eq!(manager.watchdog(), None);
    Ok(())
}

#[test]
fn states_are_told_at_an_abstract_name() -> TestResult {
    let name = format!("crankcase-it-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let manager = ServiceManager::at(format!("@{name}").as_ref())?;

    manager.tell(&[ServiceState::Watchdog])?;

    assert_eq!(received(&socket)?, "WATCHDOG=1");
    Ok(())
}

#[test]
fn a_manager_that_does_not_read_or_is_gone_holds_up_nobody() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path)?;
    let manager = ServiceManager::at(path.as_os_str())?;

    let refused = (0..100_000).find_map(|_| manager.tell(&[ServiceState::Watchdog]).err());

    assert_eq!(refused.map(|err| err.kind()), Some(std::io::ErrorKind::WouldBlock));
    drop(socket);
    assert!(manager.tell(&[ServiceState::Ready]).is_err());
    Ok(())
}

#[test]
fn an_address_that_is_none_is_named() {
    for address in ["notify", "@", "vsock:2:1234"] {
        let refused = ServiceManager::at(address.as_ref()).expect_err("it is no address");
        let expected = "expected a path, or @ and an abstract name";
        assert_eq!(refused.to_string(), format!("NOTIFY_SOCKET is {address:?}; {expected}"));
    }
}
