//! Resource types that are programs or containers, in any language.
//!
//! A manifest names such a type as `acme/gcp-disk:2.1`, `docker:..`, `podman:..` or
//! `program:./types/disk`. The program says how its resources are looked at, looks at them, and
//! names the calls of itself or of other programs that make them as declared. It speaks JSON on its
//! stdin and stdout. Images that were written for Deployster work as they are: their protocol is
//! version 0 here. See docs/external.md.
//!
//! [`External`] makes kinds of them; give it to
//! [`Kinds::from_source`](crankcase_resources::Kinds::from_source).

mod cache;
mod call;
mod call_record;
mod calls;
mod containers;
mod engine;
mod external_type;
mod kind;
mod known;
mod line_limit;
mod messages;
mod plugs;
mod prepared;
mod protocol;
mod reference;
mod resource;
mod schema;
mod settings;
mod source;
mod type_name;
mod unknown;
mod v0;
mod v1;
mod waking;

pub use calls::Calls;
pub use protocol::protocol;
pub use settings::{Pull, Settings};
pub use source::External;
