//! What keys do.

use crankcase_status::wire::{Act, WorkerChange};

use super::{Model, Next};
use crate::command::top::keys::Key;
use crate::command::top::pace::Pace;
use crate::command::top::prompt::{Prompt, Typed, Wish};
use crate::command::top::question::{Of, Question};
use crate::command::top::row::shown;
use crate::command::top::sheet::Sheet;

impl Model {
    /// Takes a key.
    pub(in crate::command::top) fn key(&mut self, key: &Key) -> Next {
        if *key == Key::Interrupt {
            return Next::Quit;
        }
        // Only the drawing is another one then.
        if *key == Key::Resized {
            return Next::Go;
        }
        // Nothing is typed into what is not seen.
        if self.is_hidden {
            self.prompt = None;
            return if *key == Key::Character('q') { Next::Quit } else { Next::Go };
        }
        self.message = None;
        if let Some(prompt) = self.prompt.take() {
            self.typed(prompt, key);
            return Next::Go;
        }
        match key {
            Key::Character('q') => return Next::Quit,
            Key::Character('g') => self.open(Of::Near),
            Key::Enter => self.open(Of::Report),
            Key::Character('b') => self.wish(WorkerChange::Act(Act::Bounce)),
            Key::Character('p') => self.wish(WorkerChange::Act(Act::Park)),
            Key::Character('u') => self.wish(WorkerChange::Act(Act::Unpark)),
            Key::Character('P') => self.wish(WorkerChange::Pause),
            Key::Character('r') => self.wish(WorkerChange::Resume),
            _ => match &mut self.sheet {
                Some(_) if *key == Key::Escape => self.sheet = None,
                Some(sheet) => sheet.key(key, self.page),
                None => self.key_of_table(key),
            },
        }
        Next::Go
    }

    fn typed(&mut self, prompt: Prompt, key: &Key) {
        match prompt.typed(key) {
            Typed::On(prompt) => {
                if let Prompt::Filter(filter) = &prompt {
                    self.table.set_filter(filter);
                }
                self.prompt = Some(prompt);
            }
            Typed::Off => self.message = Some("nothing was done".to_owned()),
            Typed::Filtered(filter) => self.table.set_filter(&filter),
            Typed::Confirmed(wish, reason) => {
                let (verb, path) = (wish.verb(), shown(&wish.path));
                self.message = Some(format!("asked to {verb} {path} ..."));
                self.confirmed.push(Question::Control(wish.change, wish.path, reason));
            }
        }
    }

    fn key_of_table(&mut self, key: &Key) {
        let page = isize::try_from(self.page).unwrap_or(isize::MAX);
        match key {
            Key::Up | Key::Character('k') => self.table.step(-1),
            Key::Down | Key::Character('j') => self.table.step(1),
            Key::PageUp => self.table.step(-page),
            Key::PageDown => self.table.step(page),
            Key::Home => self.table.step(isize::MIN),
            Key::End => self.table.step(isize::MAX),
            Key::Character('t') => self.table.turn(),
            Key::Character('/') => {
                self.prompt = Some(Prompt::Filter(self.table.filter().to_owned()));
            }
            Key::Escape => self.table.set_filter(""),
            _ => {}
        }
    }

    /// Returns the worker that keys are about: that of the screen, or the picked one.
    fn subject(&self) -> Option<String> {
        let open = self.sheet.as_ref().map(|sheet| sheet.path.clone());
        open.or_else(|| self.table.picked().map(|row| row.path.clone()))
    }

    /// Returns whether the worker that keys are about is paused.
    pub(in crate::command::top) fn is_paused(&self) -> bool {
        let row = self.subject().and_then(|path| self.table.row(&path));
        row.is_some_and(|row| row.state == "paused")
    }

    fn open(&mut self, of: Of) {
        let Some(path) = self.subject() else { return };
        let is_engine = self.table.row(&path).is_some_and(|row| row.is_engine);
        let of = if of == Of::Near && is_engine { Of::Engine } else { of };
        self.sheet = Some(Sheet::new(of, path));
        // Whatever is still asked for another one is not waited for.
        self.paces.sheet = Pace::default();
    }

    fn wish(&mut self, change: WorkerChange) {
        if self.is_read_only {
            return;
        }
        if self.lost.is_some() {
            self.message = Some("there is no agent to ask".to_owned());
            return;
        }
        let Some(path) = self.subject() else { return };
        self.prompt = Some(Prompt::Reason(Wish { change, path, preview: None }, String::new()));
        self.is_wish_asked = false;
    }
}
