//! The manifold of a catacomb.

use std::time::Duration;

use crankcase_engine::Manifold;
use crankcase_workers::{Catacomb, CatacombConfig};

/// Returns a manifold that offers the [`CatacombHandle`](crankcase_workers::CatacombHandle) through
/// which others add children, and reports them.
///
/// A child that fails takes the catacomb down, and with it all children; those who use it are
/// bounced. The worker's grace is `grace` and `abort_grace` of the config and a second more.
pub fn manifold(config: CatacombConfig) -> Manifold {
    let (grace, abort_grace) = (config.grace, config.abort_grace);
    let started = Manifold::builder().start_with(config, |config, (), ctx| async move {
        Ok(Catacomb::new_for(ctx.stop(), config))
    });
    started
        .output(Catacomb::handle)
        .report(|catacomb| {
            let children = catacomb.handle();
            move || std::future::ready(children.report())
        })
        .build()
        .grace(grace.saturating_add(abort_grace).saturating_add(Duration::from_secs(1)))
}
