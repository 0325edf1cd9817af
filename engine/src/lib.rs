//! A supervised dependency-injection worker engine.
mod backoff;
mod error;
mod exit;
mod machine;
mod policy;
mod stop;
mod worker;

pub use backoff::{Backoff, Intensity};
pub use error::ConfigError;
pub use exit::{BoxError, Exit, Outcome, Panicked};
pub use policy::Policy;
pub use stop::{Stop, Stopper};
pub use worker::Worker;
