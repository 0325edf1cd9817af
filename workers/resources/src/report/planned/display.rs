//! A plan as people read it.

use std::fmt;

use crankcase_workers::one_line;

use crate::report::listing::{write_actions, write_counts, write_differences};
use crate::report::planned::{Change, Plan, PlannedResource, Verdict};

impl fmt::Display for Plan {
    /// Writes what is not as declared, and counts the rest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for planned in &self.resources {
            planned.fmt(f)?;
        }
        for released in &self.released {
            writeln!(f, "- {released} would be released: it would not be kept any more")?;
        }
        let (changes, may_change) = (self.changes(), self.may_change());
        let (left_alone, failures) = (self.left_alone(), self.failures());
        let (run_only, needs_run) = (self.run_only(), self.needs_run());
        let others = may_change + run_only + needs_run + left_alone + failures;
        let rest = self.resources.len() - changes - others;
        write!(f, "plan: {changes} to change, {may_change} may change, {rest} unchanged")?;
        let others = [
            (run_only, "supervised by run only"),
            (needs_run, "needs run"),
            (left_alone, "left alone"),
            (failures, "failed or skipped"),
            (self.released.len(), "released"),
        ];
        write_counts(f, &others)
    }
}

impl fmt::Display for PlannedResource {
    /// Writes some lines, or nothing of a resource that is as declared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, is_put_back, declares_others, verdict, refresh, .. } = self;
        match verdict {
            Verdict::Unchanged if refresh.is_none() => return Ok(()),
            Verdict::Unchanged => writeln!(f, "~ {name} ({kind}) would be refreshed")?,
            Verdict::Changes(change) => {
                let what = if *is_put_back { "be put back" } else { "change" };
                writeln!(f, "~ {name} ({kind}) would {what}")?;
                change.fmt(f)?;
            }
            Verdict::Noop(change) => {
                writeln!(f, "= {name} ({kind}) is not as declared, and is left alone (noop)")?;
                change.fmt(f)?;
            }
            Verdict::MayChange { because, reason } => {
                writeln!(
                    f,
                    "? {name} ({kind}) may change after {}: {}",
                    because.join(", "),
                    one_line(reason)
                )?;
            }
            Verdict::RunOnly => writeln!(f, "= {name} ({kind}) is supervised by run only")?,
            Verdict::NeedsRun { because } => {
                writeln!(f, "= {name} ({kind}) needs run: {because} is supervised by run only")?;
            }
            Verdict::Failed { error } => {
                writeln!(f, "! {name} ({kind}) failed: {}", one_line(error))?;
            }
            Verdict::Skipped { because } => {
                writeln!(f, "- {name} ({kind}) is skipped because of {because}")?;
            }
        }
        if let Some(refresh) = refresh {
            writeln!(f, "    notified by {}: {}", refresh.by.join(", "), refresh.action)?;
        }
        if *declares_others {
            writeln!(f, "    other resources may be declared after {name}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Change {
    /// Writes one line per difference, with the unified diffs below, and one per action.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_differences(f, &self.differences)?;
        if let Some(shutdown) = &self.shutdown {
            writeln!(f, "    before everything else: {shutdown}")?;
        }
        write_actions(f, &self.actions)
    }
}
