use std::sync::Arc;

use async_trait::async_trait;
use crankcase_engine::WithCauses;
use crankcase_resources::{
    Action, ActionContext, AttributeError, BoxError, Check, CheckContext, Claim, Claimed, Config,
    Description, Field, Kind, KnownConfig, PATH, Params, Resource, Stale, Table, Unfinished, Watch,
    judge, read, state,
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::blocking::blocking;
use crate::exec::config::{ExecConfig, ExecState};
use crate::exec::run::{Finished, RunError, run};

mod config;
mod output;
mod run;

/// The `exec` kind: runs a command unless a guard says that there is no need.
///
/// `creates` and `unless` are also goals: where one is given, all guards are asked again after the
/// command, and none may see a need to run any more. Without them the command runs once per apply,
/// and with `onlyif` only if that succeeds. A notification runs it again, whatever the guards say.
#[derive(Debug)]
pub(crate) struct Exec;

impl Kind for Exec {
    fn name(&self) -> &'static str {
        "exec"
    }

    fn summary(&self) -> &'static str {
        "runs a command, unless a guard says that there is no need"
    }

    fn table(&self) -> &Table {
        ExecConfig::table()
    }

    fn states(&self) -> &Table {
        ExecState::table()
    }

    fn judge(&self, known: &KnownConfig<'_>) -> Vec<AttributeError> {
        judge::<ExecConfig>(known)
    }

    fn claims(&self, known: &KnownConfig<'_>) -> Claimed {
        let mut claimed = crate::command::claims(known);
        if let Some(path) = known.text("creates").filter(|path| path.starts_with('/')) {
            let path = path.trim_end_matches('/');
            claimed.claims.push(Claim::makes(PATH, path));
            let above = path.rsplit_once('/').filter(|(above, _)| !above.is_empty());
            claimed.claims.extend(above.map(|(above, _)| Claim::needs(PATH, above)));
        }
        claimed
    }

    fn validate(&self, config: &Config) -> Result<Arc<dyn Resource>, Vec<AttributeError>> {
        let config = Arc::new(read::<ExecConfig>(config)?);
        Ok(Arc::new(Command { config, ran: Arc::default() }))
    }
}

/// A command as declared.
#[derive(Debug)]
struct Command {
    config: Arc<ExecConfig>,
    /// The state after the command ran in this run.
    ran: Arc<Mutex<Option<ExecState>>>,
}

/// Why a guarded command need not run.
type Guarded = Option<&'static str>;

impl Command {
    async fn guarded(&self, context: &CheckContext) -> Result<Guarded, BoxError> {
        if let Some(path) = self.config.creates.clone() {
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
            [("unless", &self.config.unless, true), ("onlyif", &self.config.onlyif, false)]
        {
            let Some(guard) = guard else { continue };
            let finished = run(guard, &self.config, (&context.stop, context.ledger.as_ref()))
                .await
                .map_err(|err| BoxError::from(format!("guard {name}: {}", WithCauses(&err))))?;
            match finished.code {
                Some(code) if (code == 0) == wanted => return Ok(Some(name)),
                Some(_) => {}
                None => return Err(format!("guard {name} {}", finished.end()).into()),
            }
        }
        Ok(None)
    }

    fn action(&self) -> Action {
        let (config, ran) = (Arc::clone(&self.config), Arc::clone(&self.ran));
        let command = config.command.words();
        let description = Description::new("run").with("command", command);
        Action::new(description, move |context| async move {
            let finished = finish(&config, &context).await?;
            *ran.lock() = Some(finished.state());
            Ok(())
        })
    }

    fn stale(&self) -> Stale {
        let stale = Stale::new(None);
        let stale = match (&self.config.creates, &self.config.unless) {
            (None, None) => stale.differs("ran", false, true),
            (Some(path), _) => stale.differs("creates", Value::Null, path.give()),
            (None, Some(_)) => stale.differs("unless", "fails", "succeeds"),
        };
        stale.action(self.action())
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

async fn finish(config: &ExecConfig, context: &ActionContext) -> Result<Finished, Unfinished> {
    let finished = match run(&config.command, config, (context.stop(), context.ledger())).await {
        Ok(finished) => finished,
        Err(RunError::Stopped { output }) => {
            context.log(&output);
            return Err(Unfinished::Interrupted);
        }
        Err(err) => {
            if let RunError::TimedOut { output, .. } = &err {
                context.log(output);
            }
            return Err(err.into());
        }
    };
    context.log(&finished.stdout);
    context.log(&finished.stderr);
    if finished.code == Some(0) {
        return Ok(finished);
    }
    Err(format!("the command {}", finished.end()).into())
}

#[async_trait]
impl Resource for Command {
    async fn check(&self, context: &CheckContext) -> Result<Check, BoxError> {
        let ran = self.ran.lock().clone();
        let has_goal = self.config.creates.is_some() || self.config.unless.is_some();
        match ran {
            Some(ran) if !has_goal => return Ok(Check::Valid(state(ran))),
            _ => {}
        }
        if self.guarded(context).await?.is_none() {
            return Ok(Check::Stale(self.stale()));
        }
        let not_run = || ExecState {
            ran: false,
            exit_code: None,
            stdout: String::new(),
            stderr: String::new(),
        };
        Ok(Check::Valid(state(ran.unwrap_or_else(not_run))))
    }

    fn refresh(&self, done: &[Description]) -> Option<Action> {
        done.is_empty().then(|| self.action())
    }

    fn watch(&self, _: &CheckContext) -> Watch {
        let creates = self.config.creates.as_ref();
        creates.map_or(Watch::Never, |path| Watch::Paths(vec![path.as_ref().to_owned()]))
    }
}
