//! The bounds of a manifest as a whole: of all its files, variables and configs together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How large all files of a manifest may be together, in bytes.
pub(crate) const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// How many values all files may hold together, those that aliases stand for and those that anchors
/// keep included.
const MAX_NODES: usize = 1_000_000;
/// How large all values may be together, in bytes.
const MAX_VALUES: usize = 64 * 1024 * 1024;
/// How many bytes an evaluated value counts, beside those of its text.
const BYTES_PER_VALUE: usize = 16;

/// Why something went beyond a bound.
pub(crate) type Exceeded = &'static str;

/// The message about values beyond their bound.
pub(crate) const TOO_LARGE: Exceeded = "more than 64 MiB of values in all";

/// Returns how many bytes an evaluated value counts. `text` is the length of its text, if it is
/// one.
pub(crate) fn size_of(text: usize) -> usize {
    text.saturating_add(BYTES_PER_VALUE)
}

/// The bytes and values that a manifest may still take while it is loaded.
#[derive(Debug)]
pub(crate) struct Bounds {
    bytes: u64,
    nodes: usize,
    values: usize,
    is_spent: bool,
}

impl Bounds {
    pub(crate) fn new() -> Self {
        Self { bytes: MAX_BYTES, nodes: MAX_NODES, values: MAX_VALUES, is_spent: false }
    }

    /// Takes the bytes of a file.
    pub(crate) fn file(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let left = self.bytes.checked_sub(bytes as u64);
        self.bytes = left.ok_or_else(|| {
            self.is_spent = true;
            "the files of the manifest are larger than 16 MiB (16777216 bytes) together"
        })?;
        Ok(())
    }

    /// Takes `count` values as they are written, with `text` bytes of text in all.
    pub(crate) fn nodes(&mut self, count: usize, text: usize) -> Result<(), Exceeded> {
        let nodes = self.nodes.checked_sub(count);
        self.nodes = nodes.ok_or_else(|| {
            self.is_spent = true;
            "more than 1,000,000 values, those that aliases stand for included"
        })?;
        let values = self.values.checked_sub(text);
        self.values = values.ok_or_else(|| {
            self.is_spent = true;
            "more than 64 MiB of values in all, those that aliases stand for included"
        })?;
        Ok(())
    }

    /// Returns how many bytes of values may still be made.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    /// Takes a value that stays.
    pub(crate) fn value(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let values = self.values.checked_sub(bytes);
        self.values = values.ok_or_else(|| {
            self.is_spent = true;
            TOO_LARGE
        })?;
        Ok(())
    }

    /// Takes the bytes of values that were made. If they were too many, nothing more is taken.
    pub(crate) fn made(&mut self, bytes: usize, is_too_much: bool) {
        self.values = self.values.saturating_sub(bytes);
        self.is_spent |= is_too_much;
    }

    /// Returns whether something went beyond a bound, so that nothing more is taken.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent
    }
}

/// The bytes that the configs of a site hold together after their last renderings.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

/// The bytes that one config holds in the room of its site.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    held: AtomicUsize,
}

impl Share {
    pub(crate) fn new(room: &Arc<Room>) -> Self {
        Self { room: Arc::clone(room), held: AtomicUsize::new(0) }
    }

    /// Returns another share in the same room.
    pub(crate) fn beside(&self) -> Self {
        Self::new(&self.room)
    }

    /// Holds these bytes in place of those that it held before; holds none if that is too much.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), Exceeded> {
        // Added before the old part is taken away, so that the sum is never too small.
        let with_both = self.room.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let before = self.held.swap(bytes, Ordering::Relaxed);
        self.room.0.fetch_sub(before, Ordering::Relaxed);
        if with_both - before <= MAX_VALUES {
            return Ok(());
        }
        self.release();
        Err("the configs of all resources take more than 64 MiB of values")
    }

    fn release(&self) {
        let held = self.held.swap(0, Ordering::Relaxed);
        self.room.0.fetch_sub(held, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_VALUES, Room, Share};

    #[test]
    fn configs_share_one_room() {
        let room = Arc::new(Room::default());
        let (first, second) = (Share::new(&room), Share::new(&room));

        assert!(first.hold(MAX_VALUES).is_ok());
        assert!(second.hold(1).is_err(), "the room is full");
        assert!(first.hold(MAX_VALUES - 1).is_ok(), "the new part replaces the old one");
        assert!(second.hold(1).is_ok());
        drop(first);
        assert!(second.hold(MAX_VALUES).is_ok(), "what is dropped holds nothing");
    }
}
