//! Declarations by hand, of the built-in kinds.
use std::error::Error;
use std::path::Path;

use crankcase_kinds::builtin;
use crankcase_resources::run::plan;
use crankcase_resources::{Account, ApplyOptions, Declaration, Plan, PlanOptions};

pub(crate) use declared::{
    Full, StateFolder, TestResult, apply_with, declare, declare_in, declare_with, failure, look,
    uses,
};

#[path = "../../../resources/tests/it/support.rs"]
mod declared;

/// Plans with the built-in kinds.
pub(crate) async fn plan_builtin(declarations: &[Declaration]) -> Result<Plan, Box<dyn Error>> {
    Ok(plan(declarations, &builtin(), &PlanOptions::default()).await?)
}

/// Applies with the built-in kinds.
pub(crate) async fn apply_builtin(declarations: &[Declaration]) -> Result<Account, Box<dyn Error>> {
    apply_with(declarations, &builtin(), &ApplyOptions::default()).await
}

/// Returns the names in a folder, in order.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
