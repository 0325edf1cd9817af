//! The program: against a control socket that answers for a small engine, and on real files with
//! real processes.

mod agent;
mod asking;
mod asking_types;
mod browser;
mod confirm;
mod deep;
mod deployster;
mod door;
mod exits;
mod external;
mod facts;
mod facts_in_agent;
mod history;
mod hostile_texts;
mod hostile_types;
mod interrupted_types;
mod keeping;
mod kept_facts;
mod machine;
#[cfg(feature = "mcp")]
mod mcp;
mod needs_containers;
mod needs_root;
mod once;
mod page;
mod pages;
mod pipes;
mod processes;
mod protocol_1;
mod readme;
mod refusing;
mod released;
mod reloading;
mod rules;
mod saved_plans;
mod secrets;
mod seeing;
mod site_files;
mod state_folder;
mod tainted;
mod top;
mod types;
mod world;
mod write_a_type;
mod wrong_facts;
