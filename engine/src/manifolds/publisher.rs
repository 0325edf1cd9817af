//! The publisher of a changing output, which learns when the followers read a value.

use std::sync::{Arc, Weak};
use std::{fmt, mem};

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::manifolds::closure::Changing;
use crate::worker::acknowledgement::{Acknowledgement, Acknowledgements};

/// Publishes the values of a changing output, and learns when the followers read a value.
///
/// A value takes a moment to reach its followers: it passes through the worker's task and the
/// engine's loop. A worker that sets a value and then tells somebody in another way, such as by a
/// channel, may be faster than the value. The other one then still reads the value before. So await
/// [`publish`](Self::publish) first.
///
/// A closure offers [`changing`](Self::changing) in its tuple of outputs. A worker with separate
/// steps declares its publisher with [`publishing`](crate::manifold::StagedBuilder::publishing).
/// The publisher may outlive its worker: the next worker that offers it begins with its last value.
///
/// # Guarantees
///
/// When `publish` has returned `Ok`, no follower in the publisher's engine reads an older value of
/// this publisher: no [`Live`](crate::Live) input, no [`LiveSet`](crate::LiveSet), no output that
/// is followed from outside, and no worker that starts from then on. A follower of a selected part
/// reads the part of that value. A worker that requires the value is bounced, and is not waited
/// for.
///
/// There are two limits. In other engines, which have the value by an import or an export, it comes
/// later. And while no worker offers a value, because the publisher's worker has ended since, a
/// [`Latest`](crate::Latest) gives the last value that it has given before, which may be an older
/// one.
///
/// # Examples
///
/// ```
/// use crankcase_engine::{Changing, Engine, Latest, Manifold, Name, Publisher};
/// use tokio::sync::watch;
///
/// const STATE: Name<u32> = Name::new("state");
/// const READER: Name<u32> = Name::new("reader");
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (tell, told) = watch::channel(false);
/// let state = Manifold::builder().offers::<(Changing<u32>,)>().run(move |(), up| {
///     let tell = tell.clone();
///     async move {
///         let publisher = Publisher::new(1);
///         let stop = up.ready((publisher.changing(),));
///         publisher.publish(2).await?;
///         tell.send_replace(true); // whoever hears this reads 2
///         stop.wait().await;
///         Ok(())
///     }
/// });
/// let reader = Manifold::builder()
///     .inputs(STATE.live().required())
///     .offers::<(u32,)>()
///     .run_with(told, |mut told, state: Latest<u32>, up| async move {
///         told.wait_for(|is_told| *is_told).await?;
///         up.ready((state.get(),)).wait().await;
///         Ok(())
///     });
/// let engine = Engine::builder().build()?;
/// engine.install(READER, reader).await?;
/// engine.install(STATE, state).await?;
/// assert_eq!(engine.output(READER).await?, 2);
/// engine.stop().await?;
/// # Ok(()) }
/// ```
pub struct Publisher<T> {
    values: watch::Sender<T>,
    /// The acknowledgements that the last output sends with its values. They are dropped with that
    /// output.
    waiting: Mutex<Weak<Acknowledgements>>,
}

/// The followers of an output are not known to read a published value: no worker offers the value,
/// or its worker or engine has ended meanwhile.
///
/// The value is the publisher's last one all the same. There is nothing to do again: the next
/// worker that offers the publisher's values begins with it.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell whether the followers read the published value: no worker offers it any more")]
pub struct Unacknowledged;

impl fmt::Debug for Unacknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T: Clone + PartialEq + Send + Sync + 'static> Publisher<T> {
    /// Returns a publisher with a first value.
    pub fn new(first: T) -> Self {
        Self { values: watch::Sender::new(first), waiting: Mutex::default() }
    }

    /// Returns the output that offers the values, for the tuple of a closure worker.
    ///
    /// If two outputs of one publisher are offered at a time, [`publish`](Self::publish) waits for
    /// the followers of the one that was made last.
    pub fn changing(&self) -> Changing<T> {
        let waiting = Arc::<Acknowledgements>::default();
        *self.waiting.lock() = Arc::downgrade(&waiting);
        Changing::acknowledged(self.values.subscribe(), waiting)
    }

    /// Publishes a value. The call publishes it; the future completes when the followers in this
    /// engine read it, as the [guarantees](Self#guarantees) say.
    ///
    /// A value that is equal to the one before changes nothing for the followers, and is waited for
    /// too. If newer values come meanwhile, the followers may read one of those instead.
    ///
    /// While the output was made and is not handed over to the engine, the future waits: await it
    /// after the worker is up. The wait takes a turn of the worker's own task, so the worker must
    /// not block its thread meanwhile. A worker on a thread of its own may block on the future,
    /// because another task passes its values on.
    ///
    /// # Errors
    ///
    /// If the followers are not known to read the value: no worker offers it, the worker's manifold
    /// is replaced or uninstalled, or the worker or its engine ends meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Cancelling ends the wait. The value stays published.
    pub fn publish(
        &self,
        mut value: T,
    ) -> impl Future<Output = Result<(), Unacknowledged>> + Send + use<T> {
        let (acknowledgement, acknowledged) = Acknowledgement::new();
        let mut rest = None;
        self.values.send_modify(|current| {
            mem::swap(current, &mut value);
            let waiting = self.waiting.lock().upgrade();
            rest = waiting.map(|waiting| (waiting.put(acknowledgement), waiting));
        });
        // Not under the lock of the value: this may run foreign code.
        drop((value, rest));
        async move { acknowledged.await.map_err(|_| Unacknowledged) }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Publisher")
    }
}

#[cfg(test)]
mod tests;
