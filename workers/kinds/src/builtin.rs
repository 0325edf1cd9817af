//! The list of the built-in kinds.

use crankcase_resources::{Kinds, kind};

use crate::exec::Exec;
use crate::fact::Fact;
use crate::file::File;
use crate::noop::Noop;
use crate::print::Print;
use crate::process::Process;

/// Returns the built-in kinds; more are added by [`Kinds::with`].
pub fn builtin() -> Kinds {
    Kinds::default()
        .with(kind::<Exec>())
        .with(kind::<File>())
        .with(Noop)
        .with(kind::<Print>())
        .with(kind::<Process>().supervised())
}

/// Returns the built-in kinds and `fact`, for an agent that has [facts](crankcase_resources::run::World).
pub fn with_facts() -> Kinds {
    builtin().with(kind::<Fact>())
}
