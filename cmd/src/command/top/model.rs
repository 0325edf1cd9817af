//! All that the live view shows, as data that keys, answers and events change.

mod typing;

use std::collections::VecDeque;
use std::mem::take;
use std::time::{Duration, SystemTime};

use crankcase_status::wire::{Event, EventLine, Why};
use tokio::time::Instant;

use super::explained::Explained;
use super::news::News;
use super::pace::Pace;
use super::prompt::Prompt;
use super::question::{Answer, Question, Reports};
use super::sheet::Sheet;
use super::table::Table;

/// How many events are kept, for the screens of workers.
const KEPT: usize = 1000;

/// From when on a missing answer is told.
const PATIENCE: Duration = Duration::from_secs(3);

/// All that is shown. Only keys and the agent's answers and events change it.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) table: Table,
    /// Since when there has been no connection, and why; `None` while there is one.
    pub(super) lost: Option<(SystemTime, String)>,
    /// Whether only the workers in trouble are known.
    pub(super) is_cut: bool,
    pub(super) events: VecDeque<Event>,
    pub(super) explained: Option<Explained>,
    /// The screen of one worker or graph, if one is open.
    pub(super) sheet: Option<Sheet>,
    pub(super) prompt: Option<Prompt>,
    /// The message about the last wish, until the next key.
    pub(super) message: Option<String>,
    pub(super) is_read_only: bool,
    /// How many rows are on a screen.
    pub(super) page: usize,
    /// Whether the screen is too small to show it.
    pub(super) is_hidden: bool,
    life: Option<String>,
    /// Whether a whole report is needed.
    needs_whole: bool,
    /// What has happened and may not be in the table.
    news: News,
    /// Those of the report that is asked for.
    asked_gone: Vec<String>,
    /// What was confirmed and is to be asked.
    confirmed: Vec<Question>,
    /// The number of the last event when it was last asked why.
    why_asked_after: Option<u64>,
    /// Whether it has been asked what the wish of the prompt bounces.
    is_wish_asked: bool,
    paces: Paces,
}

#[derive(Debug, Default)]
struct Paces {
    connect: Pace,
    report: Pace,
    why: Pace,
    sheet: Pace,
}

/// Whether the view goes on after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Quit,
}

impl Model {
    pub(super) fn new(is_read_only: bool) -> Self {
        Self {
            table: Table::default(),
            lost: None,
            is_cut: false,
            events: VecDeque::new(),
            explained: None,
            sheet: None,
            prompt: None,
            message: None,
            is_read_only,
            page: 1,
            is_hidden: false,
            life: None,
            needs_whole: true,
            news: News::default(),
            asked_gone: Vec::new(),
            confirmed: Vec::new(),
            why_asked_after: None,
            is_wish_asked: false,
            paces: Paces::default(),
        }
    }

    /// Takes note of a connection to an agent with this life.
    pub(super) fn connected(&mut self, life: &str) {
        if self.life.as_deref().is_some_and(|before| before != life) {
            self.message = Some("the agent was restarted".to_owned());
        }
        self.life = Some(life.to_owned());
        self.lost = None;
        self.needs_whole = true;
        self.events.clear();
        self.news = News::default();
        self.paces = Paces::default();
        if let Some(explained) = &mut self.explained {
            explained.is_stale = true;
        }
        if let Some(sheet) = &mut self.sheet {
            sheet.is_stale = true;
        }
    }

    /// Takes note that there is no connection any more, or still none. Nothing that was asked is answered.
    pub(super) fn disconnected(&mut self, why: &str, (now, wall): (Instant, SystemTime)) {
        let since = self.lost.take().map_or(wall, |(since, _)| since);
        self.lost = Some((since, why.to_owned()));
        self.paces = Paces::default();
        self.paces.connect.answered(now);
        self.prompt = self.prompt.take().filter(|prompt| matches!(prompt, Prompt::Filter(_)));
        self.confirmed.clear();
    }

    /// Takes a line of the stream of events.
    pub(super) fn event(&mut self, line: EventLine) {
        let event = match line {
            EventLine::Event(event) => event,
            EventLine::Missed { .. } => {
                // Before the first event, it is what the agent does not have any more.
                self.needs_whole |= !self.events.is_empty();
                return;
            }
        };
        self.note_change(&event);
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    fn note_change(&mut self, event: &Event) {
        let path = &event.path;
        if let Some(sheet) = &mut self.sheet {
            sheet.is_stale |= sheet.is_about(path);
        }
        if let Some(explained) = &mut self.explained {
            explained.is_stale |= explained.is_about(path);
        }
        // The agent's own engine has no row.
        if path.matches('/').count() >= 2 {
            self.needs_whole |= self.news.note(event);
        }
    }

    /// Returns what is to be asked now; each question has to be answered before it is asked again.
    pub(super) fn questions(&mut self, now: Instant) -> Vec<Question> {
        if self.lost.is_some() {
            let is_ready = self.paces.connect.is_ready(now);
            return if is_ready { vec![self.begin(Question::Connect, now)] } else { Vec::new() };
        }
        let mut questions = take(&mut self.confirmed);
        let first = self.news.first();
        if self.paces.report.is_ready(now) && (self.needs_whole || first.is_some()) {
            let since = first.filter(|_| !self.needs_whole);
            self.asked_gone = self.news.ask();
            self.needs_whole = false;
            questions.push(self.begin(Question::Report(since), now));
        }
        if let Some(path) = self.unexplained().filter(|_| self.paces.why.is_ready(now)) {
            self.why_asked_after = self.events.back().map(|event| event.sequence);
            questions.push(self.begin(Question::Why(path), now));
        }
        if let Some(sheet) = &mut self.sheet
            && sheet.is_stale
            && self.paces.sheet.is_ready(now)
        {
            sheet.is_stale = false;
            let question = Question::Sheet(sheet.of, sheet.path.clone());
            questions.push(self.begin(question, now));
        }
        if !self.is_wish_asked
            && let Some(wish) = self.prompt.as_mut().and_then(Prompt::wish)
        {
            questions.push(Question::Preview(wish.change, wish.path.clone()));
            self.is_wish_asked = true;
        }
        questions
    }

    /// Returns the picked worker if it is not known why it is as it is.
    fn unexplained(&self) -> Option<String> {
        // A report that is asked for may bring another state, and then it would be asked twice.
        let is_idle = self.sheet.is_none() && !self.paces.report.is_asked();
        let row = self.table.picked().filter(|_| is_idle)?;
        let is_explained = self.explained.as_ref().is_some_and(|it| it.explains(row));
        (!is_explained).then(|| row.path.clone())
    }

    fn begin(&mut self, question: Question, now: Instant) -> Question {
        if let Some(pace) = self.pace(&question) {
            pace.ask(now);
        }
        question
    }

    fn pace(&mut self, question: &Question) -> Option<&mut Pace> {
        match question {
            Question::Connect => Some(&mut self.paces.connect),
            Question::Report(_) => Some(&mut self.paces.report),
            Question::Why(_) => Some(&mut self.paces.why),
            Question::Sheet(..) => Some(&mut self.paces.sheet),
            Question::Preview(..) | Question::Control(..) => None,
        }
    }

    /// Returns when there may be something to ask.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let Paces { connect, report, why, sheet } = &self.paces;
        [connect, report, why, sheet].into_iter().filter_map(|pace| pace.due(now)).min()
    }

    /// Returns for how long the agent has not answered, if that is long.
    pub(super) fn waits(&self, now: Instant) -> Option<Duration> {
        let Paces { report, why, sheet, .. } = &self.paces;
        let waits = [report, why, sheet].into_iter().map(|pace| pace.waits(now)).max();
        waits.filter(|waits| *waits > PATIENCE)
    }

    /// Takes an answer of the agent.
    pub(super) fn answered(
        &mut self,
        question: &Question,
        answer: Result<Answer, String>,
        now: Instant,
    ) {
        if let Some(pace) = self.pace(question) {
            pace.answered(now);
        }
        match (question, answer) {
            (_, Ok(Answer::Report(reports))) => self.reported(question, &reports),
            (Question::Report(_), Err(error)) => {
                self.needs_whole = true;
                self.message = Some(error);
            }
            (Question::Why(path), Ok(Answer::Why(why))) => self.explain((path, Ok(why)), now),
            (Question::Why(path), Err(error)) => self.explain((path, Err(error)), now),
            (Question::Sheet(of, path), answer) => {
                let sheet = self.sheet.as_mut();
                if let Some(sheet) = sheet.filter(|it| (it.of, &it.path) == (*of, path)) {
                    sheet.filled(answer);
                }
            }
            (Question::Preview(change, path), answer) => {
                let wish = self.prompt.as_mut().and_then(Prompt::wish);
                if let Some(wish) = wish.filter(|it| (it.change, &it.path) == (*change, path)) {
                    wish.preview = Some(match answer {
                        Ok(Answer::Preview(text)) => Ok(text),
                        Ok(_) => Ok(String::new()),
                        Err(error) => Err(error),
                    });
                }
            }
            (Question::Control(..), Ok(Answer::Done(done))) => self.message = Some(done),
            (Question::Control(..), Err(error)) => self.message = Some(error),
            _ => {}
        }
    }

    fn reported(&mut self, question: &Question, reports: &Reports) {
        let gone = take(&mut self.asked_gone);
        if *question == Question::Report(None) {
            self.is_cut = reports.is_cut;
            self.news.all_reported(&reports.report.at);
            self.table.replace(&reports.report);
        } else {
            self.news.reported(&reports.report.at);
            self.table.merge(&reports.report, &gone);
        }
        if let Some(waiting) = &reports.waiting {
            self.table.merge(waiting, &[]);
        }
    }

    fn explain(&mut self, (path, why): (&str, Result<Why, String>), at: Instant) {
        let mut explained = Explained::new((path, self.table.row(path)), why, at);
        // What has happened since it was asked may be in the answer or not.
        let asked_after = self.why_asked_after;
        let mut since = self.events.iter().rev().take_while(|it| Some(it.sequence) > asked_after);
        explained.is_stale = since.any(|event| explained.is_about(&event.path));
        self.explained = Some(explained);
    }
}

#[cfg(test)]
mod tests;
