//! Asks the agent what the live view needs, and gives the answers their form.

use std::collections::BTreeSet;
use std::io;

use crankcase_resources::front::resource_name;
use crankcase_status::picture::{Line, Look, Picture, Span};
use crankcase_status::wire::{ControlRequest, EngineReport, Only, Selection, Subject, WorkerState};
use crankcase_status::{Client, ClientError};

use super::question::{Answer, Of, Question, Reports};
use super::row::{nested, shown};
use crate::command::control::{done, user};
use crate::command::report::with_tally;
use crate::print;

/// How many users of one worker are shown in the graph near it.
const MOST_USERS: u64 = 20;

/// How many of the workers that a change would stop are named.
const NAMED: usize = 3;

/// Asks the agent. Nothing is answered to [`Question::Connect`].
pub(super) async fn ask(client: &Client, question: &Question) -> Result<Answer, String> {
    answer(client, question).await.map_err(|error| {
        let error: anyhow::Error = error.into();
        print::first_line(&format!("{error:#}"))
    })
}

async fn answer(client: &Client, question: &Question) -> Result<Answer, ClientError> {
    match question {
        Question::Connect => Ok(Answer::Lines(Vec::new())),
        Question::Report(since) => Ok(Answer::Report(reports(client, *since).await?.into())),
        Question::Why(path) => Ok(Answer::Why(client.why(path).await?.why)),
        Question::Sheet(of, path) => Ok(Answer::Lines(lines(client, *of, path).await?)),
        Question::Preview(change, path) => {
            Ok(Answer::Preview(client.effect(*change, path, NAMED, resource_name).await?))
        }
        Question::Control(change, path, why) => {
            let request = ControlRequest { path: path.clone(), who: user(), why: why.clone() };
            let controlled = client.change(*change, &request).await?;
            Ok(Answer::Done(done(&controlled, shown)))
        }
    }
}

async fn reports(client: &Client, since: Option<u64>) -> Result<Reports, ClientError> {
    let part =
        Selection { since, without_inputs: true, without_details: true, ..Selection::default() };
    let (report, is_cut) = match engine(client, &part).await {
        Err(ClientError::TooLong { .. }) if since.is_none() => {
            let part = Selection { only: Some(Only::Trouble), ..part };
            (engine(client, &part).await?, true)
        }
        report => (report?, false),
    };
    // Inputs make a report much longer, and only say something of those that wait for them.
    let part = Selection {
        since,
        only: Some(Only::State(WorkerState::Waiting)),
        without_details: true,
        ..Selection::default()
    };
    let waiting = match has_waiting(&report) {
        true => engine(client, &part).await.ok(),
        false => None,
    };
    Ok(Reports { report, waiting, is_cut })
}

async fn engine(client: &Client, part: &Selection) -> Result<EngineReport, ClientError> {
    match client.report_part(None, part).await? {
        Subject::Engine(engine) => Ok(engine),
        _ => Err(ClientError::Broken("it reports no engine".into())),
    }
}

fn has_waiting(report: &EngineReport) -> bool {
    report.workers.values().any(|worker| {
        worker.state == WorkerState::Waiting || nested(worker).is_some_and(has_waiting)
    })
}

/// Returns what a sheet shows.
async fn lines(client: &Client, of: Of, path: &str) -> Result<Vec<Line>, ClientError> {
    let graphs = match of {
        Of::Report => {
            let subject = client.report(Some(path)).await?;
            return report_lines(&with_tally(client, subject).await)
                .map_err(|error| ClientError::Broken(error.into()));
        }
        Of::Near => client.graph_near(path, (1, MOST_USERS)).await?,
        Of::Engine => client.graph(Some(path)).await?,
    };
    let picture = Picture::of(&graphs, resource_name);
    Ok(picture.readable(&BTreeSet::new()).to_text())
}

/// Returns a report as it is printed, without colours.
fn report_lines(reported: &print::Reported) -> io::Result<Vec<Line>> {
    let mut text = Vec::new();
    print::report_all(reported, &mut print::Out::to(&mut text))?;
    let text = String::from_utf8_lossy(&text);
    let text = anstream::adapter::strip_str(&text).to_string();
    let line = |line: &str| Line { spans: vec![Span { text: line.to_owned(), look: Look::Plain }] };
    Ok(text.lines().map(line).collect())
}
