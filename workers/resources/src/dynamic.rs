//! For kinds that are made at run time, and for what kinds in Rust need less often.

pub use crate::base::shape::Shape;
pub use crate::base::text::{cut, cut_after, nearest, shown};
pub use crate::declare::action::ActionType;
pub use crate::declare::claim::path_name;
pub use crate::declare::declaration::Config;
pub use crate::declare::known::{FileRead, KnownConfig};
pub use crate::declare::params::{Parameter, Reader, Table, Writer};
pub use crate::kind::config_report::ConfigReport;
pub use crate::kind::contract::{GroupMember, Kind, Unit};
pub use crate::kind::foresight::Foreseen;
pub use crate::kind::part::Part;
pub use crate::report::found::{Found, Stale};
pub use crate::state::facilities::Shared;
pub use crate::state::world::FactSchema;
pub use crankcase_workers::printable;
