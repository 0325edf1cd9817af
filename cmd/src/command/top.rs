//! The live view of a running agent in a terminal.
//!
//! `model` is what is shown, as plain data that keys and answers change; `screen` draws it; `asking` asks the agent,
//! and `terminal` takes the terminal and gives it back. The loop here connects them.

mod asking;
mod explained;
mod frames;
mod keys;
mod model;
mod news;
mod pace;
mod paint;
mod prompt;
mod question;
mod row;
mod screen;
mod sheet;
mod table;
mod terminal;
mod words;

use std::future::pending;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use anyhow::Context;
use crankcase_status::wire::EventLine;
use crankcase_status::{Client, ClientError, Follower};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::frames::Frames;
use self::keys::Key;
use self::model::{Model, Next};
use self::question::{Answer, Question};
use self::screen::View;
use self::terminal::{Canvas, Taken};
use crate::exit::{self, ExitError};
use crate::global::Global;
use crate::interrupts::Interrupts;
use crate::observing::now as wall_now;
use crate::print;

/// How it is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Without the keys that bounce, park, unpark, pause and resume workers
    #[arg(long)]
    read_only: bool,
}

pub(crate) async fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    require_terminal(global)?;
    // Before the terminal is taken: that nobody answers is said as by any other command.
    let client = global.connect().await?;
    let follower = follow(&client).await?;
    let mut interrupts = Interrupts::listen()?;
    #[expect(clippy::disallowed_methods, reason = "what is drawn are cells of printable text")]
    let taken = Taken::new(
        io::stdin().as_fd().try_clone_to_owned().context("cannot take the terminal")?,
        io::stdout().as_fd().try_clone_to_owned().context("cannot take the terminal")?,
    );
    let taken = taken.context("cannot take the terminal")?;
    let mut top = Top::new(global, &args, &taken)?;
    top.connect(client, follower);
    tokio::select! {
        biased;
        () = interrupts.next() => Ok(exit::INTERRUPTED),
        ended = top.run() => ended.map(|()| exit::DONE),
    }
}

fn require_terminal(global: &Global) -> Result<(), ExitError> {
    let missing = if global.output.is_data() {
        "not as data"
    } else if !io::stdin().is_terminal() {
        "standard input is none"
    } else if !print::is_stdout_terminal() {
        "standard output is none"
    } else {
        return Ok(());
    };
    let text = format!(
        "top draws on a terminal, and {missing}; \"crankcase report\" prints the same once"
    );
    Err(ExitError::new(exit::USAGE, text))
}

/// Begins to follow the events, with those that the agent still has.
async fn follow(client: &Client) -> Result<Follower, ClientError> {
    client.events_since(0, None).await
}

/// The outcome of a request to the agent.
#[derive(Debug)]
enum Outcome {
    Connected(Client, Follower),
    Unconnected(String),
    Answered(Question, Result<Answer, String>),
}

/// The loop, and all that it waits for.
struct Top<'a> {
    global: &'a Global,
    model: Model,
    canvas: Canvas,
    is_colored: bool,
    keys: mpsc::Receiver<Key>,
    connection: Option<(Client, Follower)>,
    asked: JoinSet<Outcome>,
    frames: Frames,
}

impl<'a> Top<'a> {
    fn new(global: &'a Global, args: &Args, taken: &Taken) -> anyhow::Result<Self> {
        // A value that is empty asks for nothing, see https://no-color.org.
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Self {
            global,
            model: Model::new(args.read_only),
            canvas: taken.canvas().context("cannot draw on the terminal")?,
            is_colored: !no_color,
            keys: terminal::keys().context("cannot read the keys")?,
            connection: None,
            asked: JoinSet::new(),
            frames: Frames::default(),
        })
    }

    fn connect(&mut self, client: Client, follower: Follower) {
        self.model.connected(follower.life());
        self.connection = Some((client, follower));
    }

    fn disconnect(&mut self, why: &str) {
        self.connection = None;
        // Nothing that was asked of it counts any more.
        self.asked = JoinSet::new();
        self.model.disconnected(why, (Instant::now(), wall_now()));
    }

    /// Runs until it is asked to quit.
    async fn run(&mut self) -> anyhow::Result<()> {
        loop {
            let now = Instant::now();
            for question in self.model.questions(now) {
                self.ask(question);
            }
            self.draw_if_due(now)?;
            let frame = self.frames.next(now);
            let wake = self.model.due(now).map_or(frame, |due| due.min(frame));
            tokio::select! {
                biased;
                key = self.keys.recv() => {
                    let key = key.context("the keys cannot be read any more")?;
                    if self.model.key(&key) == Next::Quit {
                        return Ok(());
                    }
                }
                Some(outcome) = self.asked.join_next() => self.take(outcome?),
                line = next(&mut self.connection) => self.follow(line),
                // Ages have changed, or a question is due.
                () = sleep_until(wake) => continue,
            }
            self.frames.change();
        }
    }

    fn draw_if_due(&mut self, now: Instant) -> anyhow::Result<()> {
        if !self.frames.take(now) {
            return Ok(());
        }
        let (model, is_colored) = (&mut self.model, self.is_colored);
        let view = View { now, wall: wall_now(), is_colored };
        let drawing = self.canvas.draw(|frame| {
            let area = frame.area();
            model.is_hidden = screen::is_too_small((area.width.into(), area.height.into()));
            model.page = screen::page(model, area.height.into());
            screen::draw(model, frame.buffer_mut(), view);
        });
        drawing.map(drop).context("cannot draw on the terminal")
    }

    /// Begins to ask something.
    fn ask(&mut self, question: Question) {
        match &self.connection {
            Some((client, _)) => {
                let client = client.clone();
                self.asked.spawn(async move {
                    let answer = asking::ask(&client, &question).await;
                    Outcome::Answered(question, answer)
                });
            }
            None => {
                let global = self.global.clone();
                self.asked.spawn(async move { look(&global).await });
            }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Connected(client, follower) => self.connect(client, follower),
            Outcome::Unconnected(why) => self.disconnect(&why),
            Outcome::Answered(question, answer) => {
                self.model.answered(&question, answer, Instant::now());
            }
        }
    }

    fn follow(&mut self, line: Result<Option<EventLine>, ClientError>) {
        match line {
            Ok(Some(line)) => self.model.event(line),
            Ok(None) => self.disconnect("the agent has ended"),
            Err(error) => self.disconnect(&error.to_string()),
        }
    }
}

/// Waits for the next event.
async fn next(
    connection: &mut Option<(Client, Follower)>,
) -> Result<Option<EventLine>, ClientError> {
    match connection {
        Some((_, follower)) => follower.next().await,
        None => pending().await,
    }
}

/// Looks for an agent.
async fn look(global: &Global) -> Outcome {
    let found = async {
        let client = global.connect().await?;
        let follower = follow(&client).await?;
        anyhow::Ok((client, follower))
    };
    match found.await {
        Ok((client, follower)) => Outcome::Connected(client, follower),
        Err(error) => Outcome::Unconnected(format!("{error:#}")),
    }
}
