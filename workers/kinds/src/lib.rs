//! The built-in kinds of resources: `exec`, `file`, `noop`, `print` and `process`.
//!
//! Each keeps to the contract of [`Kind`](crankcase_resources::Kind) and needs nothing else of the
//! core: a kind of a user's own is written in the same way.
mod builtin;
mod command;
mod exec;
mod file;
mod noop;
mod print;
mod process;

pub use builtin::builtin;
