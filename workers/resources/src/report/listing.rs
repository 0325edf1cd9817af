//! Differences, actions and counts as people read them.

use std::fmt;

use crate::declare::action::Action;
use crate::report::found::Difference;

/// How many lines of a diff people see of a text that is new, the line that says where it stands
/// included. JSON has all.
const NEW_LINES: usize = 11;

/// How many they see of a text that was changed.
const CHANGED_LINES: usize = 60;

/// Writes one line per difference, and the unified diffs below.
pub(crate) fn write_differences(
    f: &mut fmt::Formatter<'_>,
    differences: &[Difference],
) -> fmt::Result {
    for difference in differences {
        writeln!(f, "    {difference}")?;
        let mut lines = difference.text.iter().flat_map(|text| text.lines());
        let most = if difference.old.is_null() { NEW_LINES } else { CHANGED_LINES };
        for line in lines.by_ref().take(most) {
            writeln!(f, "      {line}")?;
        }
        match lines.count() {
            0 => {}
            left => writeln!(f, "      ... {left} more lines")?,
        }
    }
    Ok(())
}

/// Writes one numbered line per action.
pub(crate) fn write_actions(f: &mut fmt::Formatter<'_>, actions: &[Action]) -> fmt::Result {
    for (number, action) in (1..).zip(actions) {
        writeln!(f, "    {number}. {action}")?;
    }
    Ok(())
}

/// Writes how many resources there are of each sort that has some, and ends the line.
pub(crate) fn write_counts(f: &mut fmt::Formatter<'_>, counts: &[(usize, &str)]) -> fmt::Result {
    for (count, sort) in counts.iter().filter(|(count, _)| *count > 0) {
        write!(f, ", {count} {sort}")?;
    }
    writeln!(f)
}
