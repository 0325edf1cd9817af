//! The kind `file`: keeps a file with its content, or a folder, with mode and owners.

use std::path::PathBuf;

use crankcase_resources::dynamic::Config;
use crankcase_resources::front::Surroundings;
use crankcase_resources::{
    Actions, AttributeError, BoxError, Check, Claimed, Context, Resource, Unfinished, Watch,
    blocking,
};
use crankcase_workers::EntryPath;

use crate::command::{Argv, Command};
use crate::exec::Exec;
pub use crate::file::config::{File, InPlace, Presence, Principal};
use crate::file::config::{FilePartial, FileState};
use crate::file::error::EntryError;
use crate::file::validation::{Validation, validated};

mod change;
mod check;
mod config;
mod content;
mod diff;
mod error;
mod in_place;
mod observe;
mod reversal;
mod rights;
mod travel;
mod validation;
mod wanted;

/// What is done to a file or folder.
#[derive(Debug, Clone, Actions)]
pub enum Do {
    /// makes the folder
    CreateFolder { path: EntryPath },
    /// makes the file
    Create { path: EntryPath },
    /// writes the file anew
    Write { path: EntryPath },
    /// writes new content into the existing file
    Overwrite { path: EntryPath },
    /// sets mode, owner and group
    Adjust { path: EntryPath },
    /// removes the file or the empty folder
    Remove { path: EntryPath },
    /// removes the temporary file that a killed agent has left
    Clean { path: EntryPath },
    /// runs the command that stops a program before anything else is done
    StopFirst { command: Argv },
}

impl Resource for File {
    const NAME: &'static str = "file";
    const REVERSES: bool = true;
    type State = FileState;
    type Action = Do;

    fn rules(partial: &mut FilePartial, errors: &mut Vec<AttributeError>) {
        partial.judge(errors);
    }

    fn claims(partial: &FilePartial) -> Claimed {
        partial.claims()
    }

    fn send(config: &mut Config, surroundings: &Surroundings) -> Result<(), BoxError> {
        Ok(travel::send(config, surroundings)?)
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let (file, context) = (self.clone(), context.clone());
        blocking(move || check::check(&file, &context)).await
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        if let Do::StopFirst { command } = action {
            return stop_command(command).finish(context).await.map(drop);
        }
        let is_new = matches!(action, Do::Create { .. } | Do::Write { .. });
        let (file, action, owned) = (self.clone(), action.clone(), context.clone());
        let work = move |validation: Validation| change::act(&file, &action, &owned, validation);
        let acted = match self.validate.as_ref().filter(|_| is_new) {
            None => blocking(move || work(Validation::none())).await,
            // Boxed, as few files have one.
            Some(argv) => Box::pin(validated((argv, self.validate_timeout), context, work)).await,
        };
        acted.map_err(|err| match err.downcast_ref() {
            Some(EntryError::Stopped) => Unfinished::Interrupted,
            _ => Unfinished::Failed(err),
        })
    }

    fn absent(&self) -> Option<Self> {
        let stop_first = self.stop_first.clone();
        Some(Self { state: Presence::Absent, stop_first, ..Self::new(self.path.clone()) })
    }

    async fn reversal(&self, context: &Context) -> Result<Option<Self>, BoxError> {
        let (file, context) = (self.clone(), context.clone());
        blocking(move || reversal::reversal(&file, &context)).await
    }

    fn programs(&self) -> Vec<PathBuf> {
        let stopping = self.stop_first.iter().flat_map(|command| stop_command(command).programs());
        let validating = self.validate.as_ref().map(validation::named_programs).unwrap_or_default();
        stopping.chain(validating).collect()
    }

    async fn watch(&self, context: &Context) -> Result<Watch, BoxError> {
        let source = self.content().and_then(|content| content.path(context));
        Ok(Watch::never().path(self.path.full()).reads(source))
    }
}

/// Returns how the command is run that stops a program.
fn stop_command(command: &Argv) -> Exec {
    Exec::new(Command::Argv(command.clone()))
}
