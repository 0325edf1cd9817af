//! What is wrong with a manifest, for programs; the shape is documented in `docs/manifest.md`.

use std::path::Path;

use crankcase_manifest::{ManifestError, Problem};
use crankcase_resources::Site;
use serde::Serialize;

use crate::plan_file::IsSavedPlan;

/// What came of loading a site.
#[derive(Debug, Serialize)]
pub(crate) struct Checked {
    valid: bool,
    /// How many resources there are, if it is valid.
    pub(crate) resources: Option<usize>,
    problems: Vec<Line>,
    /// How many more problems there are than are listed.
    omitted: usize,
}

/// One thing that is wrong.
#[derive(Debug, Serialize)]
struct Line {
    /// The file; null for what was given on the command line. A name need not be text, and data is.
    file: Option<String>,
    /// The line and the column in characters, both from 1; null for a file as a whole.
    line: Option<usize>,
    column: Option<usize>,
    message: String,
    /// What would be right, in words.
    help: Option<String>,
    /// The value at fault.
    value: Option<String>,
    /// What to write in its place.
    suggestion: Option<String>,
}

impl From<&Site> for Checked {
    fn from(site: &Site) -> Self {
        let resources = Some(site.declarations().len());
        Self { valid: true, resources, problems: Vec::new(), omitted: 0 }
    }
}

impl From<&ManifestError> for Checked {
    fn from(error: &ManifestError) -> Self {
        let problems = error.problems().iter().map(Line::from).collect();
        let omitted = error.omitted();
        Self { valid: false, resources: None, problems, omitted }
    }
}

impl From<&IsSavedPlan> for Checked {
    fn from(plan: &IsSavedPlan) -> Self {
        let problem = Line {
            file: Some(text(&plan.path)),
            line: None,
            column: None,
            message: "is a saved plan, not a manifest".to_owned(),
            help: Some(plan.help()),
            value: None,
            suggestion: None,
        };
        let problems = vec![problem];
        Self { valid: false, resources: None, problems, omitted: 0 }
    }
}

impl From<&Problem> for Line {
    fn from(problem: &Problem) -> Self {
        let Problem { file, place, message, help, value, suggestion, .. } = problem.clone();
        let file = file.as_deref().map(text);
        let (line, column) = place.map(|place| (place.line, place.column)).unzip();
        Self { file, line, column, message, help, value, suggestion }
    }
}

/// Returns a path as text; what is not UTF-8 is replaced.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
