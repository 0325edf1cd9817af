//! The error of all parts.

use std::error::Error;

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;
