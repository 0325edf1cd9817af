//! How the schedule is proven: claims for single rules.

mod claims;
