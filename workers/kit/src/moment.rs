//! Waits until a moment, or for ever.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// As good as for ever, and not too long for a clock to add.
const LONG: Duration = Duration::from_secs(365 * 86_400);

/// Returns the moment that is so much later; one that the clock cannot express is a year away.
pub(crate) fn after(moment: Instant, wait: Duration) -> Instant {
    moment.checked_add(wait).unwrap_or_else(|| moment + LONG)
}

/// Waits until a moment, or for ever without one. Cancel safe.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}
