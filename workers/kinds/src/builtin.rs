use crankcase_resources::{Kinds, kind};

use crate::exec::Exec;
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
