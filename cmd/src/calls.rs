//! The calls of external types that this process makes.

use std::sync::LazyLock;

use crankcase_external::Calls;
use crankcase_workers::name_first;

/// The most calls that one line names.
const SHOWN: usize = 3;

static CALLS: LazyLock<Calls> = LazyLock::new(Calls::default);

/// Returns the calls of this process. It has one set, as it ends once.
pub(crate) fn calls() -> Calls {
    CALLS.clone()
}

/// Says which calls are under way; nothing if none is.
pub(crate) fn under_way() -> Option<String> {
    let open = CALLS.open();
    (!open.is_empty()).then(|| name_first(SHOWN, open.iter()))
}
