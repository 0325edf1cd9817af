//! The expressions in a manifest's texts.
//!
//! The syntax is minijinja's, and so are the parser, the filters and the tests. The evaluation is
//! ours: minijinja's own cannot be bounded (its fuel counts instructions, and one instruction may
//! join or repeat texts without end), takes an undefined value as null, and finds an unknown name
//! or filter only where it is evaluated.

mod budget;
#[cfg(test)]
mod differential;
mod eval;
mod filters;
mod jinja;
mod operators;
mod parsed;
mod partial;
mod uses;
mod value;

pub(crate) use budget::Budget;
pub(crate) use eval::{Names, Stop, evaluate, evaluate_text};
pub(crate) use filters::{FILTERS, FUNCTIONS, TESTS};
pub(crate) use parsed::{Failure, Parsed, is_template};
pub(crate) use partial::{Missed, Partial};
pub(crate) use uses::{Use, bare, uses};
pub(crate) use value::{from_json, from_state, size, to_json};
