//! The kind `exec`: runs a command, unless a guard says that there is no need.

use std::io;
use std::path::PathBuf;

use crankcase_engine::WithCauses;
use crankcase_resources::dynamic::{Foreseen, path_name};
use crankcase_resources::{
    Actions, AttributeError, BoxError, Check, Claim, Claimed, Context, Field, PATH, Partial,
    Resource, Stale, Unfinished, Watch, blocking,
};
use crankcase_workers::{Finished, ProcessError};
use parking_lot::Mutex;
use serde_json::Value;

use crate::command::ended::{RunError, ends, last_lines};
use crate::command::{self, Command};
use crate::exec::config::ExecPartial;
pub use crate::exec::config::{Exec, MaxOutput};
use crate::exec::config::{ExecState, ExecStatePartial, SHELL};
use crate::exec::run::run;

mod config;
mod run;

/// The state after the command ran.
type Ran = Mutex<Option<ExecStatePartial>>;

/// Why a guarded command need not run.
type Guarded = Option<&'static str>;

/// What an `exec` does.
#[derive(Debug, Actions)]
pub enum Do {
    /// runs the command
    Run { command: Vec<String> },
}

impl Resource for Exec {
    const NAME: &'static str = "exec";
    type State = ExecState;
    type Action = Do;

    fn rules(partial: &mut ExecPartial, errors: &mut Vec<AttributeError>) {
        let Partial::Given(is_shell) = partial.shell else { return };
        let guards = [("unless", &partial.unless), ("onlyif", &partial.onlyif)];
        let guards = guards.map(|(name, guard)| (name, guard.as_given().and_then(Option::as_ref)));
        for (name, command) in [("command", partial.command.as_given())].into_iter().chain(guards) {
            let amiss = command.and_then(|command| command.amiss(is_shell));
            errors.extend(amiss.map(|message| AttributeError::new(name, message)));
        }
    }

    fn claims(partial: &ExecPartial) -> Claimed {
        let words = |command: &Command| command.argv(SHELL);
        let of_guard = |guard: &Option<Command>| guard.as_ref().map(words).unwrap_or_default();
        let [unless, onlyif] =
            [&partial.unless, &partial.onlyif].map(|it| it.as_ref().map(of_guard));
        let commands = [partial.command.as_ref().map(words), unless, onlyif];
        let mut claimed = command::claims(&commands, &partial.setting);
        claimed.is_open |= partial.creates.is_unknown();
        let creates = partial.creates.as_given().and_then(Option::as_ref);
        if let Some(path) = creates.and_then(|path| path_name(path.as_ref())) {
            let above = path.rsplit_once('/').map(|(above, _)| above.to_owned());
            let above = above.filter(|above| !above.is_empty());
            claimed.claims.extend(above.map(|above| Claim::needs(PATH, above)));
            claimed.claims.push(Claim::makes(PATH, path));
        }
        claimed
    }

    async fn check(&self, context: &Context) -> Result<Check<Self>, BoxError> {
        let ran = context.memory::<Ran>().lock().clone();
        let has_goal = self.creates.is_some() || self.unless.is_some();
        match ran {
            Some(ran) if !has_goal => return Ok(Check::valid(ran)),
            _ => {}
        }
        if self.guarded(context).await?.is_none() {
            self.require_startable(context).await?;
            return Ok(self.stale().into());
        }
        Ok(Check::valid(ran.unwrap_or_else(ExecStatePartial::not_run)))
    }

    async fn act(&self, action: &Do, context: &Context) -> Result<(), Unfinished> {
        let Do::Run { command } = action;
        if *command != self.command.words() {
            return Err("the command is another one than the declared".into());
        }
        let finished = self.finish(context).await?;
        *context.memory::<Ran>().lock() = Some(ExecStatePartial::of(&finished, self.max_output));
        Ok(())
    }

    fn programs(&self) -> Vec<PathBuf> {
        let is_named = |command: &&Command| match command {
            Command::Argv(argv) => argv.0.first().is_some_and(|program| program.contains('/')),
            Command::Line(_) => false,
        };
        let commands = [Some(&self.command), self.unless.as_ref(), self.onlyif.as_ref()];
        let named = commands.into_iter().flatten().filter(is_named);
        named.flat_map(|command| self.process(command).programs()).collect()
    }

    fn refresh(&self, done: &[Do], _: &Context) -> Option<Do> {
        done.is_empty().then(|| self.action())
    }

    async fn watch(&self, _: &Context) -> Result<Watch, BoxError> {
        let creates = self.creates.iter().map(|path| path.as_ref().to_owned());
        Ok(Watch::never().paths(creates))
    }
}

impl Exec {
    fn action(&self) -> Do {
        Do::Run { command: self.command.words() }
    }

    async fn guarded(&self, context: &Context) -> Result<Guarded, BoxError> {
        if let Some(path) = self.creates.clone() {
            match path_name(path.as_ref()).and_then(|name| context.foresees(PATH, &name)) {
                Some(Foreseen::There) => return Ok(Some("creates")),
                Some(_) => return Err(format!("whether there is {path:?} is known later").into()),
                None => {}
            }
            let exists = blocking(move || match path.as_ref().symlink_metadata() {
                Ok(_) => Ok(true),
                Err(err) if is_absent(&err) => Ok(false),
                Err(err) => Err(format!("cannot look at {:?}: {err}", path.as_ref())),
            });
            if exists.await? {
                return Ok(Some("creates"));
            }
        }
        for (name, guard, wanted) in
            [("unless", &self.unless, true), ("onlyif", &self.onlyif, false)]
        {
            let Some(guard) = guard else { continue };
            if context.follows_changes() {
                return Err(format!("guard {name} may see what changes before it").into());
            }
            let finished = run(guard, self, (context, true))
                .await
                .map_err(|err| BoxError::from(format!("guard {name}: {}", WithCauses(&err))))?;
            match finished.status.code() {
                Some(code) if (code == 0) == wanted => return Ok(Some(name)),
                Some(_) => {}
                None => {
                    let last = last_lines(&finished.stderr);
                    return Err(format!("guard {name} {}{last}", finished.end()).into());
                }
            }
        }
        Ok(None)
    }

    /// Refuses a command that cannot be started, unless a resource before this one makes what it lacks.
    async fn require_startable(&self, context: &Context) -> Result<(), BoxError> {
        let process = self.process(&self.command);
        let looked = process.clone();
        let Err(error) = blocking(move || Ok::<_, BoxError>(looked.look())).await? else {
            return Ok(());
        };
        let is_made = |path: &PathBuf| {
            let foreseen = path_name(path).and_then(|name| context.foresees(PATH, &name));
            foreseen == Some(Foreseen::There)
        };
        let is_foreseen = match &error {
            ProcessError::Folder { folder, .. } => is_made(folder),
            ProcessError::NoAccount { what, account, .. } => {
                context.foresees(what, account) == Some(Foreseen::There)
            }
            ProcessError::Execute { .. } => process.programs().iter().any(is_made),
            _ => false,
        };
        let program = &self.command.argv(SHELL)[0];
        if is_foreseen { Ok(()) } else { Err(RunError::start(program, error).into()) }
    }

    fn stale(&self) -> Stale<Self> {
        let stale = Stale::absent();
        let stale = match (&self.creates, &self.unless) {
            (None, None) if self.onlyif.is_none() => stale.differs("ran", false, true).each_time(),
            (None, None) => stale.differs("ran", false, true),
            (Some(path), _) => stale.differs("creates", Value::Null, path.give()),
            (None, Some(_)) => stale.differs("unless", "fails", "succeeds"),
        };
        stale.act(self.action())
    }

    /// Runs the command to its end, which must be a good one.
    pub(super) async fn finish(&self, context: &Context) -> Result<Finished, Unfinished> {
        let finished = match run(&self.command, self, (context, false)).await {
            Ok(finished) => finished,
            Err(RunError::Stopped { output }) => {
                context.log(&ends(&output));
                return Err(Unfinished::Interrupted);
            }
            Err(err) => {
                if let RunError::TimedOut { output, .. } = &err {
                    context.log(&ends(output));
                }
                return Err(err.into());
            }
        };
        context.log(&ends(&finished.stdout));
        context.log(&ends(&finished.stderr));
        if finished.status.success() {
            return Ok(finished);
        }
        Err(format!("the command {}{}", finished.end(), last_lines(&finished.stderr)).into())
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
