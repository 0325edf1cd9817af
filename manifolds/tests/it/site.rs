//! Sites that are kept by an engine.

mod drift;
mod machine;
mod process;
mod swap;
