//! Calls of a resource that are ready to be made.

use std::convert::Infallible;
use std::fmt;
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crankcase_engine::Stop;
use crankcase_resources::BoxError;
use crankcase_workers::{Ledger, Secrets};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::call::Call;
use crate::calls::Caller;
use crate::known::{Known, Shared};
use crate::line_limit::{A_SECOND, AT_ONCE, LineLimit};
use crate::messages::CallSpec;
use crate::type_name::Runner;
use crate::waking::Signal;

/// How long a watch may go on.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The program of a call, and the parts of the call that are known before its input.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) runner: Runner,
    pub(crate) spec: CallSpec,
    pub(crate) known: Arc<Known>,
    /// The folder of the manifest.
    pub(crate) workspace: PathBuf,
    /// The resource's own folder, if it is there and a container is to have it.
    pub(crate) work: Option<PathBuf>,
}

impl Prepared {
    /// Returns the call of a resource.
    pub(crate) fn call<'a>(
        &'a self,
        resource: &'a str,
        (phase, input): (&'a str, &'a Value),
        timeout: Duration,
    ) -> Call<'a> {
        Call {
            resource,
            phase,
            runner: &self.runner,
            entrypoint: self.spec.entrypoint.as_deref(),
            args: &self.spec.args,
            input,
            workspace: &self.workspace,
            work: self.work.as_deref(),
            mounts: &self.known.mounts,
            has_network: self.known.init.has_network,
            timeout,
        }
    }
}

/// A watch that is followed.
pub(crate) struct Watched {
    pub(crate) resource: String,
    pub(crate) input: Value,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ledger: Option<Ledger>,
    pub(crate) stop: Stop,
    pub(crate) secrets: Secrets,
    pub(crate) prepared: Prepared,
}

/// Shows the resource, and not the input.
impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl Watched {
    /// Follows it to its end, or until nobody wants its signals any more.
    pub(crate) async fn follow(self, signals: Sender<Signal>) {
        let Self { resource, secrets, .. } = &self;
        let say = |line: &str| {
            let line = secrets.redact(line);
            tracing::debug!(resource, %line, "a watch said");
        };
        let (limit, flooded) = (Mutex::new(LineLimit::new(Instant::now())), Notify::new());
        let event = |_: &str| {
            if !limit.lock().admit() {
                flooded.notify_one();
            }
            // If there is no room, a signal is there already.
            drop(signals.try_send(Ok(())));
        };
        // One poll reads the lines that wait in the pipe.
        let before_each_read = poll_fn(|_| {
            limit.lock().set_now(Instant::now());
            Poll::<Infallible>::Pending
        });
        let caller = self.shared.caller(self.ledger.as_ref(), &self.stop);
        let caller = Caller { told: Some(&say), ..caller };
        let call = self.prepared.call(resource, ("watch", &self.input), FOR_EVER);
        let ended: BoxError = tokio::select! {
            biased;
            never = before_each_read => match never {},
            () = signals.closed() => return,
            () = flooded.notified() => {
                let most = format!("{AT_ONCE} at once and then {A_SECOND} a second");
                format!("watch of '{resource}' wrote more lines than {most} and was ended").into()
            }
            ended = caller.follow(&call, &event) => ended.into(),
        };
        drop(signals.send(Err(ended)).await);
    }
}
