//! How long something may take that concerns a program.

use std::time::Duration;

use crankcase_resources::dynamic::shown;
use crankcase_resources::{Field, Type, Wrong};
use serde_json::Value;

/// The longest time.
const MOST: Duration = Duration::from_secs(24 * 60 * 60);

/// The shortest time.
const LEAST: Duration = Duration::from_millis(1);

/// A time of 1 ms to 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl Field for Timeout {
    fn ty() -> Type {
        Type::Duration
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let timeout = Duration::take(value)?;
        if !(LEAST..=MOST).contains(&timeout) {
            return Err(format!("{} is not between 1ms and 1day", shown(value)).into());
        }
        Ok(Self(timeout))
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}
