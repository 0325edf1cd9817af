//! The program of a resource: its starts, and what is told of its starts and ends.

use std::pin::pin;
use std::time::Duration;

use crankcase_engine::Exit;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::base::text::chain;
use crate::declare::declaration::{Declaration, OnChange};
use crate::kind::context::Notice;
use crate::modes::reconcile::open_resource::{ProgramRefresh, Start};
use crate::modes::reconcile::reconciler::{PATIENCE, Reconciler};
use crate::report::account::{Halt, Outcome};
use crate::report::observer::{Event, EventKind};
use crate::report::said;
use crate::schedule::cause::{by_agent, by_notices, started};
use crate::schedule::state::State;
use crate::visit::announcement::flush_answers;
use crate::visit::opened::Opened;
use crate::visit::{Step, Visit};

impl<F: FnOnce(watch::Receiver<State>) + Send> Reconciler<F> {
    /// Starts the resource's program, if it is one and is not running as declared, or reloads it.
    pub(super) async fn supervise(
        &mut self,
        declaration: &Declaration,
        visit: &mut Visit,
    ) -> Result<(), Outcome> {
        self.adopt(visit).await?;
        let Some(held) = &mut self.held else { return Ok(()) };
        let before = self.links.program.ran_with();
        let ran_with = before.as_ref().map(|before| &before.config);
        let asked = refresh(declaration, &visit.notices, |name| self.handle.is_put_back(name));
        match held.start(asked, ran_with) {
            None => return self.until_ready(visit).await,
            Some(Start::Again) => {}
            Some(Start::Asked) => {
                held.opened.ask().await.map_err(|_| Outcome::NotAllowed)?;
            }
            Some(Start::Reload) => {
                held.opened.ask().await.map_err(|_| Outcome::NotAllowed)?;
                return self.reload(&visit.notices).await;
            }
        }
        self.end_survivors(visit).await?;
        let Some(held) = &mut self.held else { return Ok(()) };
        let (notices, began) = (&visit.notices, Instant::now());
        let running = held.supervise(&self.name, &self.stop, &self.setting.facilities).await;
        let config = held.opened.config_and_hidden();
        let last_end = self.links.program.last_end();
        let why = started((ran_with, &config.config), last_end, (notices, &self.why));
        match running {
            Ok(Some(running)) => {
                self.links.program.begin(running, config);
                let what = if before.is_some() { EventKind::Restarted } else { EventKind::Started };
                self.tell_start(what, &why, notices, began.elapsed());
                if !notices.is_empty() {
                    // A visit that comes before it is ready would start it anew for the same.
                    let records = self.handle.answer();
                    flush_answers(self.setting.facilities.records(), records).await;
                }
                self.until_ready(visit).await
            }
            Ok(None) => {
                self.tell_end(&why);
                Ok(())
            }
            Err(error) => {
                self.tell_end(&why);
                visit.step = Step::Supervise;
                Err(Outcome::failed(self.redact(&chain(&error))))
            }
        }
    }

    /// Has the program read its configuration anew. If that fails, the program runs on, and the
    /// next visit tries again.
    async fn reload(&mut self, notices: &[Notice]) -> Result<(), Outcome> {
        let Some(held) = &self.held else { return Ok(()) };
        let Some(handle) = held.running.handle() else { return Ok(()) };
        let config = held.opened.config();
        let began = Instant::now();
        if let Err(error) = handle.reload(&self.stop).await {
            return Err(match self.stop.is_stopped() {
                true => Outcome::Halted { at: None, by: Halt::Stop },
                false => Outcome::failed(self.redact(&error.to_string())),
            });
        }
        self.links.journal.note("reloaded its program", by_notices(notices));
        let why = started((Some(&config), &config), None, (notices, &self.why));
        let event = self.program_event(EventKind::Reloaded, &why, began.elapsed());
        let notified_by = notices.iter().map(|notice| notice.by.clone()).collect();
        let event = Event { pid: self.pid, notified_by, ..event };
        said::log_program(&event);
        self.tell(event);
        Ok(())
    }

    /// Waits until the program is ready, if there is one. The visit ends before that if the worker
    /// is told to stop, or if something new was sent to the resource: the next one waits again.
    pub(super) async fn until_ready(&mut self, visit: &mut Visit) -> Result<(), Outcome> {
        let Some(held) = &mut self.held else { return Ok(()) };
        let Some(program) = &mut held.running.program else { return Ok(()) };
        let stopped = Err(Outcome::Halted { at: None, by: Halt::Stop });
        let ready = {
            let mut ready = pin!(program.ready());
            let mut outdated = pin!(self.handle.outdated());
            let soon = tokio::select! {
                biased;
                () = self.stop.wait() => return stopped,
                ready = ready.as_mut() => Some(ready),
                () = outdated.as_mut() => return give_way(&held.opened).await,
                () = tokio::time::sleep(PATIENCE) => None,
            };
            if let Some(ready) = soon {
                ready
            } else {
                let missing = self.links.program.status().and_then(|status| status.waits_for);
                let reason = format!("its program is not ready: {}", missing.unwrap_or_default());
                let reason = self.setting.facilities.secrets().redact(&reason).into_owned();
                self.links.health.degraded(reason);
                tokio::select! {
                    biased;
                    () = self.stop.wait() => return stopped,
                    ready = ready => ready,
                    () = outdated => return give_way(&held.opened).await,
                }
            }
        };
        let Err(exit) = ready else { return Ok(()) };
        self.note_own_end(&exit);
        visit.step = Step::Supervise;
        Err(Outcome::failed(self.redact(&exit.to_string())))
    }

    /// Resumes the health checks of the program, or pauses them while the resource is left alone,
    /// so that no check ends the program then.
    pub(super) fn follow_health(&self, declaration: &Declaration) {
        let Some(program) = self.held.as_ref().and_then(|held| held.running.handle()) else {
            return;
        };
        match self.is_paused || declaration.noop {
            true => program.pause_checks(),
            false => program.resume_checks(),
        }
    }

    /// Notes that the program has ended by itself.
    pub(super) fn note_own_end(&mut self, exit: &Exit) {
        self.asked_by = None;
        drop(self.held.as_mut().and_then(|held| held.running.program.take()));
        self.links.program.end(exit);
        let why = self.redact(&exit.to_string());
        if let Some(ended) = self.ended(&why) {
            if self.links.schedule.crash_loops().admits_end(&self.name, &why) {
                said::log_crash(&ended);
            }
            self.tell(ended);
        }
        "its program has ended".clone_into(&mut self.why);
    }

    pub(super) fn tell_start(
        &mut self,
        what: EventKind,
        why: &str,
        notices: &[Notice],
        took: Duration,
    ) {
        let why = self.redact(why);
        let text = match what {
            EventKind::Restarted => "restarted its program",
            EventKind::Adopted => "adopted its program",
            _ => "started its program",
        };
        let origin = match (notices, what) {
            ([], EventKind::Started) => by_agent("it did not run"),
            ([], _) => by_agent(&why),
            _ => by_notices(notices),
        };
        self.links.journal.note(text, origin);
        let event = self.program_event(what, &why, took);
        let notified_by = notices.iter().map(|notice| notice.by.clone()).collect();
        self.pid = self.held.as_ref().and_then(|held| held.running.pid());
        let event = Event { pid: self.pid, notified_by, ..event };
        let is_no_retry =
            !notices.is_empty() || self.asked_by.is_some() || what == EventKind::Adopted;
        if is_no_retry || self.links.schedule.crash_loops().admits_restart(&self.name) {
            said::log_program(&event);
        }
        self.tell(event);
    }
}

impl<F> Reconciler<F> {
    /// Tells that the program was left running for the next agent.
    pub(super) fn tell_left(&mut self) {
        let pid = self.pid.take();
        self.links.journal.note("left its program running", by_agent("the agent ends"));
        said::log_left(&self.name, pid);
    }

    /// Tells that the program has ended, unless there was none.
    pub(super) fn tell_end(&mut self, why: &str) {
        if let Some(ended) = self.ended(why) {
            said::log_program(&ended);
            self.tell(ended);
        }
    }

    /// Notes that the program has ended. Returns the event, unless there was no program.
    fn ended(&mut self, why: &str) -> Option<Event> {
        let pid = Some(self.pid.take()?);
        self.links.journal.note("its program has ended", by_agent(why));
        Some(Event { pid, ..self.program_event(EventKind::Ended, why, Duration::ZERO) })
    }

    fn program_event(&self, what: EventKind, why: &str, took: Duration) -> Event {
        let kind = &self.links.declaration.get().kind;
        Event::new(what, (&self.name, kind), (why, took))
    }
}

/// Ends a visit that is outdated: the schedule, which is asked, has another one follow.
async fn give_way(opened: &Opened) -> Result<(), Outcome> {
    let _again = opened.ask().await;
    Err(Outcome::NotAllowed)
}

/// Returns the refresh that the notifications ask of a program. It is a reload if the program is
/// declared to reload after a change of each of the resources that they come from. One that has left
/// the manifest and is put back asks for what all dependencies that notify ask for.
fn refresh(
    declaration: &Declaration,
    notices: &[Notice],
    is_put_back: impl Fn(&str) -> bool,
) -> Option<ProgramRefresh> {
    let used = || declaration.dependencies.iter();
    let all_reload = || {
        let mut notifying = used().filter(|used| used.on_change.notifies());
        notifying.all(|used| used.on_change == OnChange::Reload)
    };
    let asks_to_reload = |notice: &Notice| {
        let mut of_source = used().filter(|used| used.resource == notice.by);
        of_source.any(|used| used.on_change == OnChange::Reload)
            || (is_put_back(&notice.by) && all_reload())
    };
    match notices {
        [] => None,
        _ if notices.iter().all(asks_to_reload) => Some(ProgramRefresh::Reload),
        _ => Some(ProgramRefresh::Restart),
    }
}
