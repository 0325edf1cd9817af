//! Looks at reports, and at whether an engine is at rest.

use std::time::Duration;

use crankcase_engine::EngineState;
use tokio::time::timeout;

use super::{Found, Run};
use crate::simulation::judge::Judge;

/// For how long it is waited for a rest while faults strike.
const SETTLING: Duration = Duration::from_secs(2);

impl Run {
    /// Compares the engines' reports with what is known, if nothing happens while they are taken.
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

    /// Waits a little for rest, and judges whether it is one.
    pub(super) async fn settle(&mut self) -> Found {
        let engine = self.engine.clone();
        if self.drive(timeout(SETTLING, engine.settled())).await?.is_err() {
            return Ok(());
        }
        let at = self.notes.elapsed();
        let path = engine.path().trim_end_matches('/');
        Ok(self.notes.look(|judge| judge.judge_settled(path, at))?)
    }

    /// Waits until nothing will happen without a further cause, and judges whether that is right.
    pub(super) async fn rest(&mut self) -> Found {
        let (engine, limit) = (self.engine.clone(), self.bounds.settles_within);
        let settled = self.drive(timeout(limit, engine.settled())).await?;
        if settled.is_err() {
            return Err(format!("P5: it has not settled within {limit:?}").into());
        }
        for engine in self.engine.engines() {
            if self.drive(timeout(limit, engine.settled())).await?.is_err() {
                return Err(
                    format!("P5: {} has not settled within {limit:?}", engine.path()).into()
                );
            }
            let before = self.count();
            let report = self.drive(engine.report()).await?;
            if self.count() == before && report.state != EngineState::Stopped {
                self.judge(&report, true)?;
                self.judge_names(&engine).await?;
            }
        }
        Ok(self.notes.look(Judge::judge_owed)?)
    }
}
