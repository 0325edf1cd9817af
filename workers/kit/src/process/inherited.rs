//! Keeps from children what nobody has given them.

use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// The first descriptor after stdin, stdout and stderr.
const FIRST: i32 = 3;

/// The signals that are not real-time: of those, the C library keeps some for itself.
const STANDARD: RangeInclusive<i32> = 1..=31;

/// Signals that stay as they are.
///
/// The standard library gives SIGPIPE back to children. Nothing handles SIGTTIN and SIGTTOU: what
/// reads or writes a terminal in the background would begin again and again. The others are faults,
/// which the kernel lets nobody ignore.
const LEFT: [Signal; 6] =
    [Signal::PIPE, Signal::TTIN, Signal::TTOU, Signal::ILL, Signal::FPE, Signal::SEGV];

static ARE_HANDLED: AtomicBool = AtomicBool::new(false);

/// Makes the next child inherit no descriptor, and no ignored standard signal.
///
/// # Panics
///
/// Panics outside of a tokio runtime with its I/O driver enabled.
pub(super) fn keep_from_children() -> io::Result<()> {
    // Each time, as others may have opened some since: one call.
    close_fds::set_fds_cloexec_threadsafe(FIRST, &[]);
    if !ARE_HANDLED.load(Ordering::Acquire) {
        handle_ignored(&fs::read_to_string("/proc/self/status")?)?;
        ARE_HANDLED.store(true, Ordering::Release);
    }
    Ok(())
}

/// Handles the signals that are ignored, by doing nothing. What is ignored stays so in a program that
/// is executed, and what is handled does not.
fn handle_ignored(status: &str) -> io::Result<()> {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let ignored = ignored.ok_or_else(|| io::Error::other("no SigIgn in /proc/self/status"))?;
    for number in STANDARD.filter(|number| ignored >> (number - 1) & 1 == 1) {
        if !LEFT.iter().any(|left| left.as_raw() == number) {
            let handled = signal(SignalKind::from_raw(number)).map(drop);
            handled.map_err(|err| {
                io::Error::new(
                    err.kind(),
                    format!("cannot handle the ignored signal {number}: {err}"),
                )
            })?;
        }
    }
    Ok(())
}
