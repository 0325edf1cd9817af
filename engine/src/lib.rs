//! A supervised dependency-injection worker engine.
mod exit;
mod stop;
mod worker;

pub use exit::{Exit, Outcome};
pub use stop::Stop;
pub use worker::Worker;
