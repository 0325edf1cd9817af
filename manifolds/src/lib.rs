//! The wiring of workers: configuration in, manifold out.
//!
//! A manifold here says which inputs a worker has, how it is made of them, and what it offers. What
//! the worker does is in the crates of the workers, which know no manifold.

pub mod file_watch;
pub mod site;
