//! The calls of external types that this process makes.

use std::sync::LazyLock;

use crankcase_external::Calls;

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
    let more = open.len().saturating_sub(SHOWN);
    let shown = open[..open.len() - more].join(", ");
    match (open.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(shown),
        (false, more) => Some(format!("{shown} and {more} more")),
    }
}
