//! Looks at reports, and at whether an engine is at rest.

use std::time::Duration;

use crankcase_engine::{Engine, EngineState};
use tokio::time::timeout;

use super::Run;
use crate::simulation::finding::Found;
use crate::simulation::judge::Judge;

/// How long a run waits for rest while faults strike.
const SETTLING: Duration = Duration::from_secs(2);

impl Run {
    /// Compares the engines' reports with what the judge knows, if nothing happens while they are
    /// taken.
    pub(super) async fn compare(&mut self) -> Found {
        for engine in self.engine.engines() {
            let before = self.count();
            let report = self.drive(engine.report()).await?;
            // An engine that has ended meanwhile may have a successor at its path.
            if self.count() == before && report.state != EngineState::Stopped {
                self.judge(&report, false)?;
            }
        }
        Ok(())
    }

    /// Waits a little for rest, and judges whether the engine is right to call it one.
    pub(super) async fn settle(&mut self) -> Found {
        let engine = self.engine.clone();
        if !self.is_settled_soon(&engine).await? {
            return Ok(());
        }
        let at = self.notes.elapsed();
        let path = engine.path().trim_end_matches('/');
        Ok(self.notes.look(|judge| judge.judge_settled(path, at))?)
    }

    /// Waits a little for rest, and returns whether it has come.
    pub(super) async fn is_settled_soon(&mut self, engine: &Engine) -> Found<bool> {
        Ok(matches!(self.drive(timeout(SETTLING, engine.settled())).await?, Ok(Ok(()))))
    }

    /// Waits until nothing will happen without a further cause, and judges whether that is right.
    ///
    /// Returns the path of an engine that stops, if there is one. It is not at rest before it has ended,
    /// and its outer engine may not know yet.
    pub(super) async fn rest(&mut self) -> Found<Option<String>> {
        let (engine, mut stopping) = (self.engine.clone(), None);
        self.settles(&engine).await?;
        for engine in self.engine.engines() {
            if !self.settles(&engine).await? {
                stopping = Some(engine.path().to_owned());
                continue;
            }
            let before = self.count();
            let report = self.drive(engine.report()).await?;
            if self.count() == before && report.state != EngineState::Stopped {
                self.judge(&report, true)?;
                self.judge_names(&engine).await?;
            }
        }
        self.notes.look(Judge::judge_owed)?;
        Ok(stopping)
    }

    /// Waits until an engine has settled; returns whether it has. An engine that stops does not
    /// settle.
    async fn settles(&mut self, engine: &Engine) -> Found<bool> {
        let limit = self.bounds.settles_within;
        match self.drive(timeout(limit, engine.settled())).await? {
            Ok(settled) => Ok(settled.is_ok()),
            Err(_) => Err(format!("P5: {} has not settled within {limit:?}", engine.path()).into()),
        }
    }
}
