//! tmp
#![allow(dead_code)]
mod node;
mod problem;
mod scalar;
mod source;
mod yaml;
pub use problem::{ManifestError, Problem};
/// tmp
pub fn bench(path: &std::path::Path) -> String {
    let mut p = problem::Problems::default();
    let n = source::read(path, &mut p).and_then(|s| yaml::parse(&s, &mut p));
    let d = n.map(|n| n.description());
    format!("{d:?} {:?}", p.finish().map_err(|e| e.to_string()))
}
