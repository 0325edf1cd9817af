//! What a test expects of the worker.

use std::fmt::Debug;

use crankcase_engine::{EndKind, Event, EventKind, WorkerState};
use tokio::time::timeout;

use super::Harness;
use crate::failure::Failure;
use crate::subject::{SUBJECT, is_about, is_end, is_turn, line};
use crate::wait::{all_turns, settled, state_within};

/// What is said of a wait that the engine's end has ended.
const ENDED: &str = ", and the engine has ended";

impl Harness {
    /// Waits until the worker is up, and returns its generation.
    ///
    /// # Errors
    ///
    /// When it does not come up in time, or ends before it is up.
    pub async fn expect_start(&mut self) -> Result<u32, Failure> {
        let event = self.next("that it starts", is_turn).await?;
        let EventKind::Started { generation } = event.kind else {
            return Err(self.failure("that it starts", &line(&event)).await);
        };
        Ok(generation)
    }

    /// Waits until the worker has ended because it was told to.
    ///
    /// # Errors
    ///
    /// When it does not end in time, ends by itself, or is dropped because it has not ended within its
    /// grace.
    pub async fn expect_stop(&mut self) -> Result<(), Failure> {
        let is_over = |event: &Event| is_end(event) || event.kind == EventKind::Aborted;
        let event = self.next("that it stops", is_over).await?;
        match &event.kind {
            EventKind::Ended { end: EndKind::Stopped, .. } => Ok(()),
            _ => Err(self.failure("that it stops", &line(&event)).await),
        }
    }

    /// Waits until the worker has stopped and another one is up; returns its generation.
    ///
    /// # Errors
    ///
    /// When it does not in time, or ends by itself.
    pub async fn expect_bounce(&mut self) -> Result<u32, Failure> {
        self.expect_stop().await?;
        self.expect_start().await
    }

    /// Waits until the worker has ended by itself, and returns how and with which error.
    ///
    /// # Errors
    ///
    /// When it does not end in time, or was told to.
    pub async fn expect_end(&mut self) -> Result<(EndKind, Option<String>), Failure> {
        let event = self.next("that it ends by itself", is_end).await?;
        match event.kind {
            EventKind::Ended { end, ref error, .. } if end != EndKind::Stopped => {
                Ok((end, error.clone()))
            }
            _ => Err(self.failure("that it ends by itself", &line(&event)).await),
        }
    }

    /// Waits until the engine has settled, and demands that the worker has neither come up nor ended
    /// since the last expectation.
    ///
    /// # Errors
    ///
    /// When it has.
    pub async fn expect_quiet(&mut self) -> Result<(), Failure> {
        self.settled("that nothing happens to it").await?;
        let engine = self.engine.clone();
        let is_its = |event: &Event| is_about(event, &engine, &SUBJECT) && is_turn(event);
        match self.events.take_now(is_its)? {
            None => Ok(()),
            Some(event) => Err(self.failure("that nothing happens to it", &line(&event)).await),
        }
    }

    /// Waits until the engine has settled, and demands that the worker does not run for this reason,
    /// as [`Engine::why`](crankcase_engine::Engine::why) says it.
    ///
    /// # Errors
    ///
    /// When it runs, or for another reason.
    pub async fn expect_waiting(&mut self, why: &str) -> Result<(), Failure> {
        let expected = format!("that {why}");
        self.settled(&expected).await?;
        let found = self.engine.why(SUBJECT.as_str()).await.map(|why| why.to_string());
        match found {
            Some(found) if found == why => Ok(()),
            Some(found) => Err(self.failure(&expected, &found).await),
            None => Err(self.failure(&expected, "it is not installed").await),
        }
    }

    /// Waits until the worker offers this value.
    ///
    /// # Errors
    ///
    /// When it does not in time, or its manifold does not offer the type.
    pub async fn expect_output<T>(&mut self, expected: T) -> Result<(), Failure>
    where
        T: Clone + Debug + PartialEq + Send + Sync + 'static,
    {
        let mut output = self.engine.output(SUBJECT.output::<T>()).follow().await?;
        let mut last = output.get();
        let came = timeout(self.limit, async {
            while last.as_ref() != Some(&expected)
                && let Ok(next) = output.changed().await
            {
                last = next;
            }
        });
        let is_late = came.await.is_err();
        if last.as_ref() == Some(&expected) {
            return Ok(());
        }
        let mut happened = match &last {
            Some(last) => format!("it offers {last:?}"),
            None => "it offers nothing".to_owned(),
        };
        happened += &if is_late { format!(" after {:?}", self.limit) } else { ENDED.to_owned() };
        Err(self.failure(&format!("that it offers {expected:?}"), &happened).await)
    }

    /// Demands that the worker has come up this many times in all.
    ///
    /// # Errors
    ///
    /// When it has not.
    pub async fn expect_starts(&mut self, starts: u32) -> Result<(), Failure> {
        let found = self.report().await?.generation;
        if found == starts {
            return Ok(());
        }
        let expected = format!("that it was started {}", times(starts));
        Err(self.failure(&expected, &format!("it was started {}", times(found))).await)
    }

    /// Waits until the worker is in a state that lasts.
    ///
    /// # Errors
    ///
    /// When it is not in time.
    pub async fn expect_state(&mut self, state: WorkerState) -> Result<(), Failure> {
        let expected = format!("that it is {state}");
        match state_within(&self.engine, SUBJECT.as_str(), state, self.limit).await {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.failure(&expected, &failure.to_string()).await),
        }
    }

    /// Waits for the next of the worker's events that is wanted.
    async fn next(
        &mut self,
        expected: &str,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, Failure> {
        let engine = self.engine.clone();
        let is_next = |event: &Event| is_about(event, &engine, &SUBJECT) && is_wanted(event);
        let happened = match timeout(self.limit, self.events.find(is_next)).await {
            Ok(Ok(event)) => return Ok(event),
            Ok(Err(text)) => text,
            Err(_) => self.nothing().await,
        };
        Err(self.failure(expected, &happened).await)
    }

    /// Waits until everything that can run has had its turn, and the engine has settled.
    async fn settled(&mut self, expected: &str) -> Result<(), Failure> {
        // An engine at rest says so at once, though its workers may have something to do.
        all_turns().await;
        match timeout(self.limit, settled(&self.engine)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.failure(expected, "the engine has ended").await),
            Err(_) => Err(self.failure(expected, "the engine does not settle").await),
        }
    }
}

/// Says how often.
fn times(number: u32) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}
