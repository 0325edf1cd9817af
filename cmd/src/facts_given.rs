//! The input of a change of facts, and the error when the change is refused.

use std::fmt;
use std::path::PathBuf;

use crankcase_facts::wire::{Conflict, Refusal, RefusalCode, Wrong};
use crankcase_facts::{Change, Invalid, Schemas, Snapshot};
use crankcase_manifest::{DataError, DataFiles, ManifestError};
use crankcase_workers::Secrets;

use crate::print::{first_of, short};

/// The facts were not changed. The refusal has the reason, for example a conflict with the stored facts.
#[derive(Debug, thiserror::Error)]
pub(crate) struct Refused(pub(crate) Refusal);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.owned.is_empty() {
            f.write_str("; name what is to be overwritten with --overwrite PATH")?;
        }
        let (degraded, more) = first_of(&self.0.degraded);
        degraded.iter().chain(&more).try_for_each(|it| write!(f, "; {it}"))?;
        if !self.0.conflicts.is_empty() {
            let conflicts: Vec<_> = self.0.conflicts.iter().map(Shown).collect();
            let (conflicts, more) = first_of(&conflicts);
            conflicts.iter().chain(&more).try_for_each(|it| write!(f, "; {it}"))?;
            f.write_str("; take over in the document what is to stay, or put it in the place of all with \"facts load\"")?;
        }
        Ok(())
    }
}

/// Shows a conflict to people: its path, and the value of each side.
struct Shown<'a>(&'a Conflict);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { path, base, document, stored, .. } = self.0;
        let sides =
            [("the last document says", base), ("the new one", document), ("the store", stored)];
        let sides = sides.map(|(who, value)| {
            format!("{who} {}", value.as_ref().map_or_else(|| "nothing".to_owned(), short))
        });
        write!(f, "{path}: {}", sides.join(", "))
    }
}

/// The input of a change, with the place of each value in its files.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) files: DataFiles,
    /// The path of the input in the document of the change, such as `/ops/0/2`. Empty if the input is the document.
    pub(crate) within: String,
    /// The secrets of the input.
    pub(crate) secrets: Secrets,
    /// Whether any fact is a secret. If so, error messages show no line of the input that might hold one.
    has_secrets: bool,
}

impl Given {
    /// Reads the input from files. If any of the `stored` facts is a secret, errors show no lines.
    pub(crate) fn read(paths: &[PathBuf], stored: &Snapshot) -> Result<Self, ManifestError> {
        Self::of(DataFiles::read(paths), stored)
    }

    /// Takes an input that was read already. If any of the `stored` facts is a secret, errors show no lines.
    pub(crate) fn of(
        files: Result<DataFiles, ManifestError>,
        stored: &Snapshot,
    ) -> Result<Self, ManifestError> {
        let has_secrets = stored.schemas().has_sensitive();
        let files =
            files.map_err(|error| if has_secrets { error.without_lines() } else { error })?;
        Ok(Self { files, within: String::new(), secrets: Secrets::default(), has_secrets })
    }

    /// Notes the secrets of a change, so that no message shows them.
    pub(crate) fn note_secrets(&self, change: &Change, stored: &Snapshot) {
        let stored = (stored.facts(), stored.schemas());
        change.secrets(stored, &mut |text| self.secrets.add(text));
    }

    /// Returns the error for a refused change. If the input is wrong, the error has the places in its files.
    pub(crate) fn refuse(&self, refusal: Refusal) -> anyhow::Error {
        if refusal.code != RefusalCode::Invalid || !refusal.degraded.is_empty() {
            return Refused(refusal).into();
        }
        let errors: Vec<_> = refusal.violations.iter().map(|wrong| self.error(wrong)).collect();
        self.files.refuse(errors, refusal.omitted, &self.secrets).into()
    }

    /// Returns the error for an input that cannot be read as a change.
    pub(crate) fn invalid(&self, invalid: Invalid) -> anyhow::Error {
        self.refuse(Refusal::of(&invalid.into(), &Schemas::default()))
    }

    fn error(&self, wrong: &Wrong) -> DataError {
        let document = wrong.document.as_deref();
        let pointer = document.map(|it| it.strip_prefix(&self.within).unwrap_or_default());
        let message = match &wrong.path {
            Some(path) => format!("{path}: {}", wrong.message),
            None => wrong.message.clone(),
        };
        let mut error = DataError::new("", &message);
        error.pointer = pointer.map(str::to_owned);
        error.value.clone_from(&wrong.value);
        error.help.clone_from(&wrong.help);
        // A problem of the document itself may be on the same line as a secret.
        error.is_secret = wrong.is_secret || self.has_secrets && wrong.path.is_none();
        error
    }
}

#[cfg(test)]
mod tests {
    use crankcase_facts::wire::Refusal;
    use crankcase_facts::{Conflict, Degraded, FactsError, PointerError, Schemas};

    use super::Refused;

    #[test]
    fn a_refusal_names_the_first_of_many_that_it_would_degrade() {
        let degraded = |index| Degraded { name: Some(format!("r{index}")), message: "x".into() };
        let error = FactsError::Degrades((0..25).map(degraded).collect());

        let refused = Refused(Refusal::of(&error, &Schemas::default())).to_string();

        assert!(refused.ends_with("; r18: x; r19: x; and 5 more"), "{refused}");
    }

    #[test]
    fn a_refusal_shows_the_first_of_many_conflicts() -> Result<(), PointerError> {
        let conflict = |index| {
            let path = format!("/f{index}").parse()?;
            Ok(Conflict { path, base: None, document: None, stored: None })
        };
        let error =
            FactsError::Conflicts((0..25).map(conflict).collect::<Result<_, PointerError>>()?);

        let refused = Refused(Refusal::of(&error, &Schemas::default())).to_string();

        let all = "the last document says nothing, the new one nothing, the store nothing";
        assert!(refused.contains(&format!("; /f19: {all}; and 5 more; take over")), "{refused}");
        assert!(!refused.contains("/f20"), "{refused}");
        Ok(())
    }
}
