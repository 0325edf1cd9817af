//! The budget of an evaluation: the work that it may take, and the size of what it makes.

use minijinja::value::{Value, ValueKind};

use crate::manifest::bounds::{Exceeded, TOO_LARGE, size_of};
use crate::manifest::expression::partial::Partial;

/// How much work one resource's texts may take: about one unit for each step and each value, and
/// one for every 64 bytes of text.
const WORK: usize = 1_000_000;
/// How many bytes are one unit of work.
const BYTES_PER_UNIT: usize = 64;
/// How deep the values that expressions make may nest.
pub(super) const MAX_DEPTH: usize = 64;
/// The message about a value that nests deeper.
pub(super) const TOO_DEEP: Exceeded = "the value nests deeper than 64 levels";
/// How large the values of one rendered config may be together, in bytes.
const MAX_CONFIG: usize = 16 * 1024 * 1024;

/// Bounds the time and memory that an evaluation takes.
#[derive(Debug)]
pub(crate) struct Budget {
    /// How many steps are left.
    left: usize,
    /// How many bytes of values may be made.
    most: usize,
    /// How many were made.
    made: usize,
    /// The message about values beyond that.
    too_large: Exceeded,
}

impl Budget {
    /// Returns the budget of one config.
    pub(crate) fn new() -> Self {
        let too_large = "the config takes more than 16 MiB of values";
        Self { left: WORK, most: MAX_CONFIG, made: 0, too_large }
    }

    /// Returns the budget of one config, in a site that may still take `values` bytes of values.
    pub(crate) fn of_config(values: usize) -> Self {
        if values < MAX_CONFIG { Self::of_values(values) } else { Self::new() }
    }

    /// Returns a budget that may make `values` bytes of values: all that a site may still take.
    pub(crate) fn of_values(values: usize) -> Self {
        Self { left: WORK, most: values, made: 0, too_large: TOO_LARGE }
    }

    /// Returns how much work was done.
    pub(crate) fn spent(&self) -> usize {
        WORK - self.left
    }

    /// Takes the making of a value that stays. `text` is the length of its text, if it is one.
    pub(crate) fn value(&mut self, text: usize) -> Result<(), Exceeded> {
        self.made = self.made.saturating_add(size_of(text));
        if self.is_overdrawn() { Err(self.too_large) } else { Ok(()) }
    }

    /// Returns how many bytes of values were made.
    pub(crate) fn made(&self) -> usize {
        self.made
    }

    /// Returns whether more values were asked for than it has.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.made > self.most
    }

    /// Takes some steps.
    pub(crate) fn steps(&mut self, count: usize) -> Result<(), Exceeded> {
        match self.left.checked_sub(count) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err("the expressions take too much work (more than 1,000,000 steps or 61 MiB)")
            }
        }
    }

    /// Takes the making of a text.
    pub(crate) fn text(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.steps(bytes / BYTES_PER_UNIT)
    }

    /// Takes the work of a walk through a whole value, before an operator or a filter walks.
    pub(crate) fn walk(&mut self, value: &Value) -> Result<(), Exceeded> {
        self.walk_at(value, 0)
    }

    fn walk_at(&mut self, value: &Value, depth: usize) -> Result<(), Exceeded> {
        if depth > MAX_DEPTH {
            return Err(TOO_DEEP);
        }
        self.steps(1)?;
        if let Some(partial) = value.downcast_object_ref::<Partial>() {
            // A walk through the value is no use of it.
            return partial.known.values().try_for_each(|inner| self.walk_at(inner, depth + 1));
        }
        match value.kind() {
            ValueKind::String => self.text(value.as_str().map_or(0, str::len)),
            ValueKind::Bytes => self.text(value.as_bytes().map_or(0, <[u8]>::len)),
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
                let is_map = value.kind() == ValueKind::Map;
                let Ok(items) = value.try_iter() else { return Ok(()) };
                for item in items {
                    if is_map && let Ok(inner) = value.get_item(&item) {
                        self.walk_at(&inner, depth + 1)?;
                    }
                    self.walk_at(&item, depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
