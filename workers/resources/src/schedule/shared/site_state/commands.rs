//! The commands of the machine to a site that is kept.

use std::sync::Arc;

use super::SiteState;
use crate::kind::context::Notice;
use crate::schedule::cause::Why;
use crate::schedule::shared::unanswered::Unanswered;
use crate::schedule::shared::visit::BegunVisit;
use crate::schedule::{self, Because, Command, Id};
use crate::state::{Notification, Record};

impl SiteState {
    /// Carries out the commands of the machine.
    pub(in crate::schedule::shared) fn take_commands(&mut self) {
        while let Some(command) = self.machine.next() {
            match command {
                Command::Visit { ticket, delivered, because } => {
                    let notices = delivered.iter().map(|by| self.notice(ticket.id, *by));
                    let mut notices = notices.collect::<Vec<_>>();
                    notices.sort_by(|one, other| one.by.cmp(&other.by));
                    let because = because.map(|because| self.why(because));
                    let entry = self.entries.get_mut(ticket.id);
                    entry.delivered = delivered;
                    entry.visit = Some(Box::new(BegunVisit { ticket, notices, because }));
                    entry.wake.notify_one();
                }
                Command::Answer { tickets, answer } => {
                    self.questions.answer(&tickets, answer, self.last_record);
                }
                Command::Write(record) => self.write(record),
                Command::Wake { id } => self.entries.get(id).wake.notify_one(),
                // Only one pass skips.
                Command::Skip { .. } => {}
            }
        }
    }

    fn notice(&mut self, target: Id, source: Id) -> Notice {
        let said = self.notices.get_mut(&(target, source)).and_then(Unanswered::deliver);
        said.unwrap_or_else(|| {
            Notice::new(&self.entries.get(source).name, Vec::new(), Arc::default())
        })
    }

    fn why(&self, because: Because) -> Why {
        match because {
            Because::NewState(id) => Why::NewState(self.entries.name(id)),
            Because::Repaired(id) => Why::Repaired(self.entries.name(id)),
            Because::LookFailed(id) => Why::LookFailed(self.entries.name(id)),
        }
    }

    fn write(&mut self, record: schedule::Record) {
        if let schedule::Record::Acknowledged { target, source } = record {
            self.notices.remove(&(target, source));
        }
        let Some(records) = &self.records else { return };
        let notification = |target, source| Notification {
            target: self.entries.name(target),
            source: self.entries.name(source),
        };
        self.last_record = records.push([match record {
            schedule::Record::Pending { target, source } => {
                Record::Pending(notification(target, source))
            }
            schedule::Record::Acknowledged { target, source } => {
                Record::Acknowledged(notification(target, source))
            }
        }]);
    }
}
