use minijinja::value::{Value, ValueKind};

/// How much work one resource's texts may take: about one unit for each step and each value, and
/// one for every 64 bytes of text.
const WORK: usize = 1_000_000;
/// How many bytes are one unit of work.
const BYTES_PER_UNIT: usize = 64;
/// How deep the values that expressions make may nest.
const MAX_DEPTH: usize = 64;

/// Bounds the time and memory that an evaluation takes.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

/// Why an evaluation went beyond its bounds.
pub(crate) type Exceeded = &'static str;

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: WORK }
    }

    /// Returns how much work was done.
    pub(crate) fn spent(&self) -> usize {
        WORK - self.left
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

    /// Takes a walk through a whole value, which an operator or a filter is about to do.
    pub(crate) fn walk(&mut self, value: &Value) -> Result<(), Exceeded> {
        self.walk_at(value, 0)
    }

    fn walk_at(&mut self, value: &Value, depth: usize) -> Result<(), Exceeded> {
        if depth > MAX_DEPTH {
            return Err("the value nests deeper than 64 levels");
        }
        self.steps(1)?;
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
