//! How the schedule is proven: claims for single rules, and random sites under a naive model.
//!
//! `CRANKCASE_SCHEDULE_STEPS` is the number of steps of a site that is kept as declared; there is
//! one pass for each hundred of them. `CRANKCASE_SEED` lives one life again.

mod claims;
mod keep;
mod model;
mod pass;
mod random;
mod sites;
mod world;
