//! The process that listens at an address.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use super::identity::program_name;

/// The state of a socket that listens, in the tables of the kernel.
const LISTENS: &str = "0A";

/// A process that listens at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: i32,
    /// The name of its program, of which the kernel keeps 15 bytes.
    pub(super) program: String,
}

impl Holder {
    /// Returns the process that listens at an address, if this agent may see it. If several
    /// processes share the socket, returns the one with the lowest pid. Blocks for `/proc`.
    pub(super) fn of(address: SocketAddr) -> Option<Self> {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
        let tables = tables.iter().flatten();
        let sockets: Vec<_> = tables.flat_map(|table| listening(table, address)).collect();
        if sockets.is_empty() {
            return None;
        }
        let entries = fs::read_dir("/proc").ok()?;
        let mut pids: Vec<i32> =
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        let pid = pids.into_iter().find(|pid| holds(*pid, &sockets))?;
        Some(Self { pid, program: program_name(pid)? })
    }
}

/// Returns the sockets of a table of the kernel that listen at an address, as descriptors name them.
fn listening(table: &str, address: SocketAddr) -> Vec<String> {
    let found = table.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = local(fields.next()?)?;
        let (state, inode) = (fields.nth(1)?, fields.nth(5)?);
        let is_any = local.ip().is_unspecified() || address.ip().is_unspecified();
        let is_there = local.port() == address.port() && (is_any || local.ip() == address.ip());
        (state == LISTENS && is_there).then(|| format!("socket:[{inode}]"))
    });
    found.collect()
}

/// Reads an address of a table of the kernel: words in the order of this machine, and the port.
fn local(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = (0..ip.len()).step_by(8).map(|at| ip.get(at..at + 8));
    let words = words.map(|word| u32::from_str_radix(word?, 16).ok());
    let words = words.collect::<Option<Vec<_>>>()?;
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let ip = match <[u8; 4]>::try_from(&bytes[..]) {
        Ok(bytes) => IpAddr::from(bytes),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?),
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Returns whether a process has one of the sockets open, as far as that may be seen.
fn holds(pid: i32, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{Holder, listening};

    #[test]
    fn those_who_listen_at_an_address_or_at_any_are_found() -> Result<(), std::net::AddrParseError>
    {
        let row = |local: u32, port: &str, state: &str, inode: u32| {
            let local = format!("{local:08X}:{port}");
            format!("0: {local} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1 0 100 0 0 10 0\n")
        };
        let own = u32::from_ne_bytes([127, 0, 0, 1]);
        let table = [
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n".to_owned(),
            row(own, "1F90", "0A", 1),
            row(own, "1F90", "01", 2),
            row(own, "1F91", "0A", 3),
            row(0, "1F90", "0A", 4),
            row(u32::from_ne_bytes([127, 0, 0, 2]), "1F90", "0A", 5),
        ];
        let any = "0: 00000000000000000000000000000000:1F90 0:0 0A 0:0 00:0 0 0 0 6 1\n";
        let table = table.concat() + any;

        let found = listening(&table, "127.0.0.1:8080".parse()?);

        assert_eq!(found, ["socket:[1]", "socket:[4]", "socket:[6]"]);
        Ok(())
    }

    #[test]
    fn a_process_that_listens_is_found_with_its_name() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let program = std::fs::read_to_string("/proc/self/comm")?;

        let found = Holder::of(listener.local_addr()?);

        let pid = i32::try_from(std::process::id()).map_err(std::io::Error::other)?;
        assert_eq!(found, Some(Holder { pid, program: program.trim_end().to_owned() }));
        Ok(())
    }
}
