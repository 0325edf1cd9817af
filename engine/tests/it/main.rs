//! The engine's integration tests: behaviour through the public API.

mod nested;
mod smoke;
