//! Manifolds with real files and real processes.

mod site;
