//! A hosts file: lines of an address and its names, with comments.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;
use std::path::Path;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Hosts {
    lines: Vec<String>,
}

impl Hosts {
    /// Reads a file; one that does not exist has no lines.
    pub(crate) fn read(file: &Path) -> io::Result<Self> {
        match fs::read_to_string(file) {
            Ok(text) => Ok(text.as_str().into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
        }
    }

    /// Returns the address of a name: that of the first line that has it.
    pub(crate) fn get(&self, name: &str) -> Option<IpAddr> {
        let mut entries = self.lines.iter().filter_map(|line| entry(line));
        entries.find(|(_, names)| names.contains(&name)).map(|(address, _)| address)
    }

    /// Gives names their addresses: takes them out of all lines, and adds lines of their own.
    pub(crate) fn set(&mut self, wanted: &BTreeMap<String, IpAddr>) {
        self.lines.retain_mut(|line| {
            let Some((address, names)) = entry(line) else { return true };
            let others: Vec<_> =
                names.iter().filter(|name| !wanted.contains_key(**name)).copied().collect();
            if others.len() < names.len() {
                let comment = line.find('#').map(|at| format!(" {}", &line[at..]));
                let kept = format!("{address} {}{}", others.join(" "), comment.unwrap_or_default());
                let is_kept = !others.is_empty();
                *line = kept;
                return is_kept;
            }
            true
        });
        self.lines.extend(wanted.iter().map(|(name, address)| format!("{address} {name}")));
    }

    /// Writes the file as a whole: who reads it meanwhile sees the old one.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        let new = file.with_extension("new");
        let mut written = File::create(&new)?;
        for line in &self.lines {
            writeln!(written, "{line}")?;
        }
        if let Ok(old) = fs::metadata(file) {
            written.set_permissions(old.permissions())?;
        }
        written.sync_all()?;
        fs::rename(new, file)
    }
}

impl From<&str> for Hosts {
    fn from(text: &str) -> Self {
        Self { lines: text.lines().map(str::to_owned).collect() }
    }
}

/// Reads the address and the names of a line, if it has any.
fn entry(line: &str) -> Option<(IpAddr, Vec<&str>)> {
    let mut words = line.split('#').next()?.split_whitespace();
    let address = words.next()?.parse().ok()?;
    Some((address, words.collect()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{AddrParseError, IpAddr};

    use super::Hosts;

    #[test]
    fn other_names_and_comments_stay() -> Result<(), AddrParseError> {
        let mut hosts =
            Hosts::from("# mine\n127.0.0.1 localhost\n10.0.0.1 db web # two\n10.0.0.2 db\n::1\n");
        let wanted: BTreeMap<String, IpAddr> = [("db".to_owned(), "10.0.0.9".parse()?)].into();
        assert_eq!(hosts.get("db"), Some("10.0.0.1".parse()?));

        hosts.set(&wanted);

        let expected = "# mine\n127.0.0.1 localhost\n10.0.0.1 web # two\n::1\n10.0.0.9 db\n";
        assert_eq!(hosts, expected.into());
        assert_eq!(
            (hosts.get("db"), hosts.get("web")),
            (Some(wanted["db"]), Some("10.0.0.1".parse()?))
        );
        Ok(())
    }
}
