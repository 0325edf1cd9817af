//! The machine, as the `host` of expressions.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

/// How much of a file is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024;
/// The most addresses, and the most disks, that a host lists.
const MAX_LISTED: usize = 1_000;

/// The source of `host` in expressions. Cheap to clone.
#[derive(Clone)]
pub struct Host(Arc<dyn Fn() -> Value + Send + Sync>);

impl Host {
    /// Returns a host that reads this machine: `name`, `system`, `addresses`, `processors`,
    /// `memory` and `disks`, as `docs/manifest.md` describes them. A value that cannot be read is
    /// null or empty.
    pub fn of_machine() -> Self {
        Self::new(machine)
    }

    /// Returns a host with the values that `read` returns. `read` may block for a moment.
    pub fn new(read: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Reads the machine, with some file reads and system calls.
    pub fn read(&self) -> Arc<Value> {
        Arc::new(self.0())
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

fn machine() -> Value {
    let names = rustix::system::uname();
    let info = rustix::system::sysinfo();
    // The kernel counts memory in units. Its numbers have 32 or 64 bits, as the machine has.
    let memory = u128::from(info.totalram) * u128::from(info.mem_unit);
    let os_release = text(Path::new("/etc/os-release")).unwrap_or_default();
    let processors = std::thread::available_parallelism().ok();
    json!({
        "name": names.nodename().to_string_lossy(),
        "system": {
            "os": named("ID", &os_release),
            "release": named("VERSION_ID", &os_release),
            "kernel": names.release().to_string_lossy(),
            "architecture": names.machine().to_string_lossy(),
        },
        "addresses": addresses(),
        "processors": processors,
        "memory": u64::try_from(memory).unwrap_or(u64::MAX),
        "disks": disks(Path::new("/sys/block")),
    })
}

/// Returns the addresses of all interfaces, without loopback and link-local ones.
fn addresses() -> Vec<String> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_default().into_iter();
    let known = interfaces.filter(|found| !found.is_loopback() && !found.is_link_local());
    // Sorted, because the system lists them in no order.
    let addresses: BTreeSet<_> = known.map(|interface| interface.ip()).collect();
    addresses.into_iter().take(MAX_LISTED).map(|address| address.to_string()).collect()
}

/// Returns the disks that have a size, by name, without loop devices and RAM disks.
fn disks(folder: &Path) -> Vec<Value> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_LISTED);
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names.retain(|name| !["loop", "ram", "zram"].iter().any(|other| name.starts_with(other)));
    let disk = |name: String| {
        let sectors: u64 = text(&folder.join(&name).join("size"))?.trim().parse().ok()?;
        // The kernel counts sectors of 512 bytes, also if the disk has larger ones.
        (sectors > 0).then(|| json!({"name": name, "size": sectors.saturating_mul(512)}))
    };
    names.into_iter().filter_map(disk).collect()
}

/// Returns the value of a variable in a file of shell variables, such as `/etc/os-release`.
fn named<'a>(name: &str, file: &'a str) -> Option<&'a str> {
    let value = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
    Some(value.trim_matches(['"', '\'']))
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::{Host, disks, named};

    #[test]
    fn a_disk_has_a_size_and_is_no_file() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        for (name, size) in [("vdb", "2048\n"), ("sr0", "0\n"), ("loop0", "8\n"), ("sda", "16\n")] {
            fs::create_dir(folder.path().join(name))?;
            fs::write(folder.path().join(name).join("size"), size)?;
        }

        let found = disks(folder.path());

        let expected =
            [json!({"name": "sda", "size": 8192}), json!({"name": "vdb", "size": 1_048_576})];
        assert_eq!(found, expected);
        Ok(())
    }

    #[test]
    fn the_system_is_named_with_or_without_quotes() {
        let file = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"13\"\nID=debian\n";

        assert_eq!(named("ID", file), Some("debian"));
        assert_eq!(named("VERSION_ID", file), Some("13"));
        assert_eq!(named("VARIANT", file), None);
    }

    #[test]
    fn the_machine_has_all_that_the_manual_names() {
        let host = Host::of_machine().read();

        let keys: Vec<_> = host.as_object().into_iter().flat_map(|host| host.keys()).collect();
        assert_eq!(keys, ["name", "system", "addresses", "processors", "memory", "disks"]);
        assert!(host["memory"].as_u64() > Some(0) && host["processors"].as_u64() > Some(0));
        assert!(host["name"].is_string() && host["system"]["architecture"].is_string());
    }
}
