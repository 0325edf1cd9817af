//! Sites that are kept by an engine.

mod double;
mod drift;
mod held_back;
mod host;
mod keys;
mod machine;
mod parts;
mod process;
mod repairs;
mod rules;
mod seeds;
mod settled;
mod swap;
mod watches;
