//! An account of apply as people read it.

use std::fmt;

use crankcase_workers::one_line;

use crate::base::text::excerpt;
use crate::report::account::{Account, Accounted, Done, Halt, Outcome};
use crate::report::listing::{write_actions, write_counts, write_differences};

impl fmt::Display for Account {
    /// Writes what was not as declared, and counts all, each once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for accounted in &self.resources {
            accounted.fmt(f)?;
        }
        for released in &self.released {
            writeln!(f, "- {released} was released: it is not kept any more")?;
        }
        write!(f, "apply: {} changed, {} unchanged", self.changes(), self.unchanged())?;
        let others = [
            (self.run_only(), "supervised by run only"),
            (self.needs_run(), "needs run"),
            (self.left_alone(), "left alone"),
            (self.failures(), "failed or skipped"),
            (self.refused() - self.left_for_plan(), "not approved"),
            (self.left_for_plan(), "left for another plan"),
            (self.unverified(), "changed and not looked at again"),
            (self.halted(), "not attempted or interrupted"),
            (self.released.len(), "released"),
        ];
        write_counts(f, &others)
    }
}

impl fmt::Display for Accounted {
    /// Writes some lines, or nothing of a resource that was as declared.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outcome == Outcome::Unchanged {
            return Ok(());
        }
        let Self { name, kind, .. } = self;
        match &self.outcome {
            Outcome::Unchanged => {}
            Outcome::Changed if self.is_put_back => writeln!(f, "~ {name} ({kind}) was put back")?,
            Outcome::Changed => writeln!(f, "~ {name} ({kind}) changed")?,
            Outcome::MayChange { because, reason } => {
                let (because, reason) = (because.join(", "), one_line(reason));
                writeln!(f, "? {name} ({kind}) may change after {because}: {reason}")?;
            }
            Outcome::Noop => {
                writeln!(f, "= {name} ({kind}) is not as declared, and is left alone (noop)")?;
            }
            Outcome::RunOnly => writeln!(f, "= {name} ({kind}) is supervised by run only")?,
            Outcome::NeedsRun { because } => {
                writeln!(f, "= {name} ({kind}) needs run: {because} is supervised by run only")?;
            }
            Outcome::Failed { at: Some(at), error } => {
                writeln!(f, "! {name} ({kind}) failed at {}: {}", at.action, one_line(error))?;
            }
            Outcome::Failed { at: None, error } => {
                writeln!(f, "! {name} ({kind}) failed: {}", one_line(error))?;
            }
            Outcome::Halted { by, .. } if self.is_unverified() => {
                writeln!(f, "~ {name} ({kind}) changed, and was not looked at again: {by}")?;
            }
            Outcome::Halted { by, .. } => writeln!(f, "- {name} ({kind}) is unfinished: {by}")?,
            Outcome::NotAttempted { by } => {
                writeln!(f, "- {name} ({kind}) was not attempted: {by}")?;
            }
            Outcome::Refused { because } => {
                writeln!(f, "- {name} ({kind}) is left as it is: {}", one_line(because))?;
            }
            Outcome::Skipped { because } => {
                writeln!(f, "- {name} ({kind}) was skipped because of {because}")?;
            }
            Outcome::NotAllowed => writeln!(f, "- {name} ({kind}) waits for another resource")?,
        }
        self.write_details(f)
    }
}

impl Accounted {
    fn write_details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_differences(f, &self.differences)?;
        for done in &self.done {
            write_done(f, "done", done)?;
        }
        for begun in &self.begun {
            write_done(f, "begun", begun)?;
        }
        match &self.outcome {
            Outcome::Failed { at: Some(at), .. } => write_done(f, "failed", at)?,
            Outcome::Halted { at: Some(at), .. } => write_done(f, "interrupted", at)?,
            _ => {}
        }
        if !self.remaining.is_empty() {
            writeln!(f, "    not done:")?;
            write_actions(f, &self.remaining)?;
        }
        if !self.missed.is_empty() {
            writeln!(f, "    not refreshed, although notified by {}", self.missed.join(", "))?;
        }
        Ok(())
    }
}

fn write_done(f: &mut fmt::Formatter<'_>, how: &str, done: &Done) -> fmt::Result {
    writeln!(f, "    {how}: {}", done.action)?;
    let (head, left_out, tail) = excerpt(&done.log);
    for line in head {
        writeln!(f, "      | {line}")?;
    }
    if left_out > 0 {
        writeln!(f, "      ... {left_out} lines are left out")?;
    }
    for line in tail {
        writeln!(f, "      | {line}")?;
    }
    Ok(())
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "apply was told to stop",
            Self::FailFast => "another resource failed",
            Self::NotLoadedAgain => "the site was not loaded again",
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::declare::action::Action;
    use crate::report::account::{Account, Accounted, Done, Halt, Outcome};

    /// Returns a resource that has done one action, which has logged this.
    fn done(outcome: Outcome, log: Vec<String>) -> Accounted {
        Accounted {
            is_put_back: false,
            is_each_time: false,
            name: "loud".to_owned(),
            kind: "exec".to_owned(),
            outcome,
            differences: Vec::new(),
            done: vec![Done { action: Action::new("run"), log }],
            begun: Vec::new(),
            remaining: Vec::new(),
            missed: Vec::new(),
        }
    }

    #[test]
    fn a_stop_after_the_last_action_interrupts_nothing() {
        let halted = || done(Outcome::Halted { at: None, by: Halt::Stop }, Vec::new());
        let between = Accounted { remaining: vec![Action::new("run")], ..halted() };
        let not_refreshed = Accounted { missed: vec!["conf".to_owned()], ..halted() };
        let resources = vec![halted(), between, not_refreshed];

        let text = Account { resources, released: Vec::new() }.to_string();

        let first = "~ loud (exec) changed, and was not looked at again: apply was told to stop\n";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(text.matches("- loud (exec) is unfinished: ").count(), 2, "{text}");
        let counts =
            "0 unchanged, 1 changed and not looked at again, 2 not attempted or interrupted\n";
        assert!(text.ends_with(counts), "{text}");
    }

    #[test]
    fn of_much_output_the_beginning_and_the_end_are_shown() {
        let log = (0..1_000).map(|line| format!("line {line}")).collect();
        let accounted = done(Outcome::Changed, log);

        let text = accounted.to_string();

        let around = "      | line 49\n      ... 900 lines are left out\n      | line 950\n";
        assert!(text.contains(around), "{text}");
        assert!(text.ends_with("      | line 999\n"), "{text}");
        assert_eq!(text.lines().count(), 2 + 100 + 1);
    }
}
