//! The faults of a run that strike no worker from inside: their times, new values, jumps of the clock.

use std::pin::pin;
use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, sleep_until};

use super::{Found, Run};
use crate::simulation::faults::{Faults, about};

/// One of how many disturbances is followed by a look at the reports.
const COMPARED: u32 = 16;

impl Run {
    /// Lets the faults strike for as long as the run lasts.
    pub(in crate::simulation) async fn suffer(&mut self, faults: &Faults) -> Found {
        let end = Instant::now() + self.bounds.lasts;
        let has_inputs = !self.inputs.is_empty();
        let values_every = if has_inputs { faults.values_every } else { Duration::ZERO };
        let mut next = [faults.calls_every, values_every, faults.jumps_every]
            .map(|mean| about(&mut self.random, mean).map(|after| Instant::now() + after));
        loop {
            let first = next.iter().enumerate().filter_map(|(kind, at)| Some(((*at)?, kind))).min();
            let Some((at, kind)) = first.filter(|(at, _)| *at < end) else {
                return self.drive(sleep_until(end)).await;
            };
            self.drive(sleep_until(at)).await?;
            let mean = match kind {
                0 => {
                    self.call().await?;
                    faults.calls_every
                }
                1 => {
                    self.send_value();
                    faults.values_every
                }
                _ => {
                    self.jump(faults.jump).await?;
                    faults.jumps_every
                }
            };
            next[kind] = about(&mut self.random, mean).map(|after| Instant::now() + after);
            if self.random.random_range(0..COMPARED) == 0 {
                self.compare().await?;
                self.settle().await?;
            }
        }
    }

    fn send_value(&mut self) {
        let count = self.inputs.len();
        if count > 0 {
            let (index, number) = (self.random.random_range(0..count), self.random.random());
            let engine = self.engine.path().trim_end_matches('/');
            let path = format!("{engine}/{}", self.inputs[index].0);
            self.strikes(&path, "gets another value");
            (self.inputs[index].1)(number);
        }
    }

    async fn jump(&mut self, most: Duration) -> Found {
        let by = most.mul_f64(self.random.random());
        self.strikes("the clock", "jumps");
        let mut advance = pin!(tokio::time::advance(by));
        // The clock jumps when this is first polled; what is due then comes before anything else.
        let notes = self.notes.clone();
        self.drive(std::future::poll_fn(move |cx| {
            let polled = advance.as_mut().poll(cx);
            notes.jumped();
            polled
        }))
        .await
    }
}
