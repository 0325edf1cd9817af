//! The proof of the machine: see `docs/proof.md`.

mod claims;
mod explore;
mod fingerprint;
mod previews;
mod properties;
mod schedule;
mod sets;
mod world;
