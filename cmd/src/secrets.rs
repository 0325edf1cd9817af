//! What this process writes nowhere.

use std::sync::LazyLock;

use crankcase_workers::Secrets;

static SECRETS: LazyLock<Secrets> = LazyLock::new(Secrets::default);

/// Returns the secrets of this process. It has one set, as it has one log.
pub(crate) fn secrets() -> Secrets {
    SECRETS.clone()
}
