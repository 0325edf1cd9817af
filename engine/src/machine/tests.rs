//! The proof of the machine: see `docs/proof.md`.

mod properties;
mod schedule;
mod world;
