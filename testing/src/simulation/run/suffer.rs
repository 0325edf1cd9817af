//! The faults of a run that strike no worker from inside: their times, new values, jumps of the clock.

use std::pin::pin;
use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, sleep_until};

use super::Run;
use crate::simulation::faults::{Faults, about};
use crate::simulation::finding::Found;

/// How many disturbances there are for each look at the reports.
const COMPARED: u32 = 16;

impl Run {
    /// Returns the end of the calls in a run whose faults stop: after at least a quarter of the
    /// run, and at most three quarters.
    ///
    /// A call may put right what a worker has done wrong, as a bounce by hand does. So there are
    /// none in the last quarter of the run, before the faults stop.
    pub(in crate::simulation) fn calls_end(&mut self) -> Instant {
        let share = self.random.random_range(0.25..0.75);
        Instant::now() + self.bounds.lasts.mul_f64(share)
    }

    /// Lets the faults strike for as long as the run lasts. If the calls end before that, their
    /// effects are undone at that time, and no input gets another value any more.
    pub(in crate::simulation) async fn suffer(
        &mut self,
        faults: &Faults,
        calls_end: Option<Instant>,
    ) -> Found {
        let mut end = Instant::now() + self.bounds.lasts;
        let has_inputs = !self.inputs.is_empty();
        let values_every = if has_inputs { faults.values_every } else { Duration::ZERO };
        let means = [faults.calls_every, values_every, faults.jumps_every];
        let [call, value, jump] =
            means.map(|mean| about(&mut self.random, mean).map(|after| Instant::now() + after));
        let mut next = [call, value, jump, calls_end];
        loop {
            let first = next.iter().enumerate().filter_map(|(kind, at)| Some(((*at)?, kind))).min();
            let Some((at, kind)) = first.filter(|(at, _)| *at < end) else {
                return self.drive(sleep_until(end)).await;
            };
            self.drive(sleep_until(at)).await?;
            match kind {
                0 => self.call().await?,
                1 => self.send_value(),
                2 => self.jump(faults.jump).await?,
                _ => {
                    self.put_back();
                    // A jump of the clock may have reached the end.
                    end = end.max(Instant::now() + self.bounds.lasts / 4);
                    next = [None, None, next[2], None];
                    continue;
                }
            }
            let after = about(&mut self.random, means[kind]);
            next[kind] = after.map(|after| Instant::now() + after);
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
            self.strikes(&self.path_of(&self.inputs[index].0), "gets another value");
            (self.inputs[index].1)(number);
        }
    }

    /// Sends each input the value that it had in the beginning.
    pub(super) fn put_values_back(&mut self) {
        for index in 0..self.inputs.len() {
            self.strikes(&self.path_of(&self.inputs[index].0), "gets its first value");
            (self.inputs[index].1)(0);
        }
    }

    async fn jump(&mut self, most: Duration) -> Found {
        let by = most.mul_f64(self.random.random());
        self.strikes("the clock", "jumps");
        let mut advance = pin!(tokio::time::advance(by));
        // The clock jumps at the first poll. Everything that is due then comes before anything
        // else.
        let notes = self.notes.clone();
        self.drive(std::future::poll_fn(move |cx| {
            let polled = advance.as_mut().poll(cx);
            notes.jumped();
            polled
        }))
        .await
    }
}
