//! The program: against a control socket that answers for a small engine, and on real files with
//! real processes.

mod asking;
mod exits;
mod machine;
mod once;
mod refusing;
mod saved_plans;
mod site_files;
mod world;
