//! What a harness says when an expectation is not met.

use super::Harness;
use crate::failure::Failure;
use crate::subject::SUBJECT;

impl Harness {
    /// Says that nothing has happened in time, and why.
    pub(super) async fn nothing(&self) -> String {
        let why = self.engine.why(SUBJECT.as_str()).await;
        let why = why.map(|why| format!("; {why}")).unwrap_or_default();
        format!("nothing within {:?}{why}", self.limit)
    }

    /// Says what was expected, what happened in its place, and all that happened before.
    pub(super) async fn failure(&mut self, expected: &str, happened: &str) -> Failure {
        let mut text = format!("expected {expected}\nhappened: {happened}\n");
        // What came after the last look is told too.
        add(&mut text, "the engine's events:", self.events.all_lines());
        add(&mut text, "\nthe journal:", self.journal.lines());
        let report = self.engine.report().await.to_string();
        add(&mut text, "\nthe report:", report.lines().map(str::to_owned).collect());
        Failure::new(text)
    }
}

fn add(text: &mut String, title: &str, lines: Vec<String>) {
    text.push_str(title);
    for line in lines {
        text.push_str("\n  ");
        text.push_str(&line);
    }
}
