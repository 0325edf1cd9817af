use std::sync::Arc;

use crankcase_resources::Kinds;

use crate::exec::Exec;
use crate::file::File;
use crate::noop::Noop;
use crate::print::Print;
use crate::process::Process;

/// Returns the built-in kinds; more are added by [`Kinds::with`].
pub fn builtin() -> Kinds {
    Kinds::default()
        .with(Arc::new(Exec))
        .with(Arc::new(File))
        .with(Arc::new(Noop))
        .with(Arc::new(Print))
        .with(Arc::new(Process))
}
