//! The way to a person: no character that comes from elsewhere can move the cursor, hide, or turn the text
//! around it. Whoever writes a text in a line makes it `one_line`.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use crankcase_workers::{printable_json, printable_lines};
use serde::Serialize;

/// Writes texts for people. All that is unprintable is escaped, tabs and ends of lines excepted. So a colour
/// can only be set with [`colored`](Self::colored).
pub(crate) struct Out<'a> {
    to: &'a mut dyn Write,
}

impl<'a> Out<'a> {
    /// Returns what writes to a stream.
    pub(crate) fn to(to: &'a mut dyn Write) -> Self {
        Self { to }
    }

    /// Writes a text in a colour, if it has one.
    pub(crate) fn colored(
        &mut self,
        color: Option<AnsiColor>,
        text: impl Display,
    ) -> io::Result<()> {
        let Some(color) = color else { return write!(self, "{text}") };
        let style = Style::new().fg_color(Some(color.into()));
        write!(self.to, "{style}")?;
        write!(self, "{text}")?;
        write!(self.to, "{style:#}")
    }

    /// Writes data as JSON, while they are read from the value.
    pub(super) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(Json(&mut *self.to), value)?;
        self.to.write_all(b"\n")
    }
}

impl Write for Out<'_> {
    /// Takes whole texts: what is no UTF-8 is replaced.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(printable_lines(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes JSON and escapes what is unprintable. Each write has whole characters.
struct Json<'a>(&'a mut dyn Write);

impl Write for Json<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable_json(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes to people on stderr.
#[expect(clippy::disallowed_methods, reason = "what is written is printable")]
pub(crate) fn to_stderr(write: impl FnOnce(&mut Out<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut stderr = anstream::stderr().lock();
    let mut out = Out::to(&mut stderr);
    write(&mut out).and_then(|()| out.flush())
}

/// Writes to stdout: for people, or data without anything unprintable.
#[expect(clippy::disallowed_methods, reason = "what is written is printable")]
pub(super) fn to_stdout(write: impl FnOnce(&mut Out<'_>) -> io::Result<()>) -> io::Result<()> {
    let mut stdout = BufWriter::new(anstream::stdout().lock());
    let mut out = Out::to(&mut stdout);
    write(&mut out).and_then(|()| out.flush())
}

/// Returns whether stdout is a terminal.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub(crate) fn is_stdout_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether stderr is a terminal.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
pub(crate) fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use anstyle::AnsiColor;

    use super::Out;

    #[test]
    fn only_its_own_colours_reach_a_terminal() -> Result<(), Box<dyn std::error::Error>> {
        let mut written = Vec::new();
        let mut out = Out::to(&mut written);

        writeln!(out, "a\u{1b}[31m\tb\u{9b}\u{202e}\r")?;
        out.colored(Some(AnsiColor::Red), "c\u{1b}]0;d\u{7}")?;
        out.colored(None, "\u{feff}\n")?;
        out.write_all(b"\xff\n")?;

        let expected = "a\\u{1b}[31m\tb\\u{9b}\\u{202e}\\r\n\u{1b}[31mc\\u{1b}]0;d\\u{7}\u{1b}[0m\\u{feff}\n\u{fffd}\n";
        assert_eq!(String::from_utf8(written)?, expected);
        Ok(())
    }
}
