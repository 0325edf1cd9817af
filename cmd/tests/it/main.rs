//! The program, against a control socket that answers for a small engine.

mod asking;
mod exits;
mod world;
