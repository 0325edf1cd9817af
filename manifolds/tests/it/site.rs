//! Sites that are kept by an engine.

mod double;
mod drift;
mod flushed;
mod given_up;
mod held_back;
mod host;
mod kept_facts;
mod keys;
mod machine;
mod parts;
mod process;
mod programs;
mod quiet;
mod ready;
mod reasons;
mod recorded;
mod reload;
mod repairs;
mod rules;
mod schedule;
mod seeds;
mod seen;
mod settled;
mod stops_first;
mod swap;
mod watches;
