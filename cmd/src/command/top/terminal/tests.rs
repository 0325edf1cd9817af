//! The terminal that `top` gives back as it was, also after a panic.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

use super::Taken;

type TestResult = Result<(), Box<dyn std::error::Error>>;

/// What enters the other screen, and what leaves it.
const ENTERED: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";

/// What shows the cursor again.
const SHOWN: &str = "\u{1b}[?25h";

/// Returns both ends of a terminal.
fn terminal() -> io::Result<(File, OwnedFd)> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&controller)?;
    unlockpt(&controller)?;
    let terminal = ptsname(&controller, Vec::new())?;
    let terminal = open(&*terminal, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    Ok((controller.into(), terminal))
}

/// Writes a text on a terminal, and returns all that was written on it before.
fn written_before(text: &str, (mut controller, terminal): (&File, &OwnedFd)) -> io::Result<String> {
    File::from(terminal.try_clone()?).write_all(text.as_bytes())?;
    let (mut bytes, mut read) = ([0; 4096], String::new());
    while !read.ends_with(text) {
        let count = controller.read(&mut bytes)?;
        read += &String::from_utf8_lossy(&bytes[..count]);
    }
    read.truncate(read.len() - text.len());
    Ok(read)
}

fn is_raw(terminal: &OwnedFd) -> io::Result<bool> {
    Ok(!tcgetattr(terminal)?.local_modes.contains(LocalModes::ICANON))
}

#[test]
fn a_terminal_that_is_dropped_is_as_it_was() -> TestResult {
    let (controller, terminal) = terminal()?;
    let taken = Taken::new(terminal.try_clone()?, terminal.try_clone()?)?;
    let entered = written_before("drawn", (&controller, &terminal))?;
    assert!(is_raw(&terminal)? && entered.contains(ENTERED), "{entered:?}");

    drop(taken);

    let left = written_before("the end", (&controller, &terminal))?;
    assert!(left.contains(LEFT) && left.ends_with(SHOWN), "{left:?}");
    assert!(!is_raw(&terminal)?);
    Ok(())
}

#[test]
fn a_panic_gives_the_terminal_back_before_it_is_told_and_nothing_is_drawn_any_more() -> TestResult {
    let (controller, terminal) = terminal()?;
    let taken = Taken::new(terminal.try_clone()?, terminal.try_clone()?)?;
    let mut canvas = taken.canvas()?;
    written_before("drawn", (&controller, &terminal))?;

    let drawn = catch_unwind(AssertUnwindSafe(|| {
        canvas.backend_mut().write_all(b"half a drawing").expect("a terminal takes it");
        panic!("it is broken");
    }));
    let after = written_before("what is told of it", (&controller, &terminal))?;
    drop((canvas, taken));
    let at_last = written_before("the end", (&controller, &terminal))?;

    assert!(drawn.is_err());
    assert!(after.contains(LEFT) && after.ends_with(SHOWN), "{after:?}");
    assert!(!is_raw(&terminal)?);
    assert_eq!(at_last, "");
    Ok(())
}
