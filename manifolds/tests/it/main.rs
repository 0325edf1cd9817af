//! Sites that are kept by an engine, with real files and real processes.
mod drift;
mod machine;
mod process;
mod swap;
