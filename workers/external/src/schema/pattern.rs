//! The regular expressions of a schema, and what they cost in memory and time.

use std::collections::HashMap;

use regex::RegexBuilder;
use serde_json::Value;

use crate::schema::maps::maps;

/// The most memory for all of them, in bytes.
const BUDGET: usize = 40 * 1024 * 1024;

/// The most memory for one of them, in bytes.
const LARGEST: usize = 10 * 1024 * 1024;

/// The sizes that are tried, in bytes: what fits into none is refused when the schema is read.
const SIZES: [usize; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, LARGEST];

/// The cost of a text, in steps of about 200 ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    each: u64,
    /// For 4 KiB of text.
    long: u64,
}

impl Cost {
    /// The most that the check costs whether a text is a regular expression.
    pub(super) const OF_A_REGEX: u64 = 10_000;

    /// The cost of an expression that can backtrack: as much as it may backtrack.
    const OF_GOING_BACK: u64 = 400;

    /// Returns the cost of a text of this many bytes.
    pub(super) fn of(self, bytes: usize) -> u64 {
        self.each.saturating_add((bytes as u64).saturating_mul(self.long) >> 12)
    }
}

/// All regular expressions of a schema.
#[derive(Debug)]
pub(super) struct Patterns {
    sizes: HashMap<String, Size>,
    /// How large each piece of them may be.
    pub(super) most: usize,
    /// How large the cache of each may be.
    pub(super) cache: usize,
}

#[derive(Debug, Clone, Copy)]
enum Size {
    Plain(usize),
    /// It can backtrack, and has this many pieces.
    GoesBack(usize),
}

impl Patterns {
    /// Measures the regular expressions of a schema.
    ///
    /// # Errors
    ///
    /// When they take too much memory.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let (mut sizes, mut taken, mut largest, mut pieces) = (HashMap::new(), 0, SIZES[3], 0);
        for pattern in written(schema) {
            if sizes.contains_key(pattern) {
                continue;
            }
            let size = Size::of(pattern);
            match size {
                Size::Plain(size) => {
                    taken += size;
                    largest = largest.max(size);
                }
                Size::GoesBack(count) => pieces += count,
            }
            if taken + largest.saturating_mul(pieces) > BUDGET {
                let most = BUDGET / 1024 / 1024;
                return Err(format!("its regular expressions take more than {most} MiB"));
            }
            sizes.insert(pattern.to_owned(), size);
        }
        let most = (BUDGET - taken).checked_div(pieces).unwrap_or(LARGEST).min(LARGEST);
        let cache = (BUDGET / 4 / sizes.len().max(1)).clamp(16 * 1024, 1024 * 1024);
        Ok(Self { sizes, most, cache })
    }

    /// Returns the cost of one of them.
    pub(super) fn cost(&self, pattern: &str) -> Cost {
        let per_text = |size: usize| (size as u64).saturating_mul(4096) / 2048;
        match self.sizes.get(pattern) {
            Some(Size::Plain(size)) => Cost { each: 1, long: per_text(*size) },
            Some(Size::GoesBack(_)) | None => {
                Cost { each: Cost::OF_GOING_BACK, long: per_text(SIZES[1]) }
            }
        }
    }
}

impl Size {
    fn of(pattern: &str) -> Self {
        for size in SIZES {
            match RegexBuilder::new(pattern).size_limit(size).build() {
                Ok(_) => return Self::Plain(size),
                Err(regex::Error::CompiledTooBig(_)) => {}
                // Look-around and back-references need another engine.
                Err(_) => return Self::GoesBack(1 + 2 * pattern.matches(['(', '\\']).count()),
            }
        }
        Self::Plain(LARGEST)
    }
}

/// Returns all that may be a regular expression.
fn written(schema: &Value) -> Vec<&str> {
    let mut patterns = Vec::new();
    for (_, map) in maps(schema) {
        patterns.extend(map.get("pattern").and_then(Value::as_str));
        if let Some(Value::Object(members)) = map.get("patternProperties") {
            patterns.extend(members.keys().map(String::as_str));
        }
    }
    patterns
}
