//! The daemon as a process, its settings file, and a client.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;
use std::{fs, thread};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tempfile::TempDir;

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A test that waits for longer has failed.
const GUARD: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
pub(crate) enum Wiring {
    Crankcase,
    Plain,
}

/// Where a daemon has its settings and its notes.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    /// Replaces the settings, as editors do.
    pub(crate) fn write(&self, store: &str, tenants: &[(&str, usize)]) -> Result {
        self.write_at("127.0.0.1:0", store, tenants)
    }

    pub(crate) fn write_at(&self, listen: &str, store: &str, tenants: &[(&str, usize)]) -> Result {
        let store = self.0.path().join(store);
        let mut text = format!("listen = {listen:?}\nstore = {store:?}\npoll_every = '10ms'\n");
        text.push_str("[tenants]\n");
        for (tenant, limit) in tenants {
            writeln!(text, "{tenant} = {{ limit = {limit} }}")?;
        }
        let new = self.0.path().join("new");
        fs::write(&new, text)?;
        Ok(fs::rename(new, self.settings())?)
    }

    fn settings(&self) -> PathBuf {
        self.0.path().join("settings.toml")
    }
}

/// A running daemon. It is killed when this is dropped.
pub(crate) struct Daemon {
    child: Child,
    lines: Receiver<String>,
    log: Vec<String>,
    address: String,
}

/// Writes the fields of a line as `key=value`, whichever wiring has written it: Crankcase's log for people
/// has `; key: value`.
fn with_fields(line: &str) -> String {
    let mut parts = line.split("; ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| match part.split_once(": ") {
        Some((key, value)) => format!("{line} {key}={value}"),
        None => format!("{line}; {part}"),
    })
}

impl Daemon {
    /// Starts a daemon, and waits until it listens.
    pub(crate) fn start(wiring: Wiring, folder: &Folder) -> Result<Self> {
        let mut daemon = Self::spawn(wiring, folder)?;
        daemon.listens()?;
        Ok(daemon)
    }

    pub(crate) fn spawn(wiring: Wiring, folder: &Folder) -> Result<Self> {
        let binary = match wiring {
            Wiring::Crankcase => env!("CARGO_BIN_EXE_daemon"),
            Wiring::Plain => env!("CARGO_BIN_EXE_plain"),
        };
        let mut command = Command::new(binary);
        command.arg(folder.settings()).env_remove("RUST_LOG").stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = child.stderr.take().ok_or("there is no stderr")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut lines = BufReader::new(stderr).lines().map_while(std::io::Result::ok);
            lines.try_for_each(|line| sender.send(with_fields(&line)))
        });
        Ok(Self { child, lines, log: Vec::new(), address: String::new() })
    }

    /// Waits for the next line of the log that has this text.
    pub(crate) fn line(&mut self, text: &str) -> Result<&str> {
        loop {
            let line = self.lines.recv_timeout(GUARD);
            let line = line.map_err(|err| format!("no {text:?} in {:#?}: {err}", self.log))?;
            let is_it = line.contains(text);
            self.log.push(line);
            if is_it {
                return Ok(self.log.last().map_or("", String::as_str));
            }
        }
    }

    /// Waits until it listens at an address, where clients connect from now on.
    pub(crate) fn listens(&mut self) -> Result {
        let line = self.line("listens address=")?;
        self.address = line.rsplit('=').next().unwrap_or_default().to_owned();
        Ok(())
    }

    pub(crate) fn connect(&self) -> Result<Client> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(GUARD))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) -> Result {
        Ok(kill_process(Pid::from_child(&self.child), Signal::TERM)?)
    }

    /// Asks it to end, expects that it does so well, and returns its log.
    pub(crate) fn end(self) -> Result<String> {
        self.terminate()?;
        self.ended()
    }

    /// Expects that it ends well, and returns its log.
    pub(crate) fn ended(self) -> Result<String> {
        let (status, log) = self.wait()?;
        if status.success() { Ok(log) } else { Err(format!("{status}: {log}").into()) }
    }

    /// Waits for its end, and returns its log.
    pub(crate) fn wait(mut self) -> Result<(ExitStatus, String)> {
        loop {
            match self.lines.recv_timeout(GUARD) {
                Ok(line) => self.log.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("it does not end: {:#?}", self.log).into());
                }
            }
        }
        Ok((self.child.wait()?, self.log.join("\n")))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended before.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns these texts in the order in which the log has them, each as often as it is there.
pub(crate) fn order<'a>(log: &str, texts: &[&'a str]) -> Vec<&'a str> {
    let text_of = |line: &str| texts.iter().copied().find(|text| line.contains(text));
    log.lines().filter_map(text_of).collect()
}

/// A client with one connection for all of its requests.
pub(crate) struct Client(BufReader<TcpStream>);

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// What is answered of a tenant.
#[derive(Deserialize)]
struct Tenant {
    started: u64,
    notes: Vec<String>,
}

impl Client {
    pub(crate) fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: daemon\r\n\r\n"))?;
        self.receive()
    }

    /// Returns the number of the tenant's desk, once it is higher than this.
    pub(crate) fn started(&mut self, tenant: &str, after: u64) -> Result<u64> {
        let answer = self.get(&format!("/tenants/{tenant}?after={after}"))?;
        Ok(serde_json::from_str::<Tenant>(&answer.body)?.started)
    }

    pub(crate) fn notes(&mut self, tenant: &str) -> Result<Vec<String>> {
        let answer = self.get(&format!("/tenants/{tenant}"))?;
        Ok(serde_json::from_str::<Tenant>(&answer.body)?.notes)
    }

    /// Begins to add a note, and waits until the daemon waits for its text.
    pub(crate) fn begin(&mut self, tenant: &str, length: usize) -> Result {
        self.send(&format!(
            "POST /tenants/{tenant} HTTP/1.1\r\nhost: daemon\r\ncontent-length: {length}\r\n\
             expect: 100-continue\r\n\r\n"
        ))?;
        match self.receive()?.status {
            100 => Ok(()),
            status => Err(format!("a note was answered with {status} before it was sent").into()),
        }
    }

    /// Adds a note, and expects that it is taken.
    pub(crate) fn add(&mut self, tenant: &str, note: &str) -> Result {
        let length = note.len();
        self.send(&format!(
            "POST /tenants/{tenant} HTTP/1.1\r\nhost: daemon\r\ncontent-length: {length}\r\n\r\n{note}"
        ))?;
        match self.receive()?.status {
            201 => Ok(()),
            status => Err(format!("the note {note:?} was answered with {status}").into()),
        }
    }

    pub(crate) fn send(&mut self, text: &str) -> Result {
        Ok(self.0.get_mut().write_all(text.as_bytes())?)
    }

    pub(crate) fn receive(&mut self) -> Result<Answer> {
        let mut head = Vec::new();
        while head.last().is_none_or(|line: &String| !line.is_empty()) {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            head.push(line.trim_end().to_owned());
        }
        let status = head[0].split(' ').nth(1).ok_or("there is no status")?.parse()?;
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap_or("0").parse()?];
        self.0.read_exact(&mut body)?;
        Ok(Answer { status, body: String::from_utf8(body)? })
    }
}
