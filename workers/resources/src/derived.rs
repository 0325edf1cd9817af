//! What derived code uses; not for people.

pub use crate::declare::action::unknown as unknown_action;
pub use crate::declare::params::absent;
pub use serde_json::{Value, json};
