//! The log of an agent.

use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::panic;

use crankcase_engine::{ConfigError, Panicked, WithCauses};
use crankcase_workers::Secrets;
use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use self::people::ForPeople;
use self::stderr::{Layout, Stderr};

mod people;
mod stderr;

/// Where the spans are made that say which worker an event comes from. They are at level debug,
/// because others can do without.
const SPANS: [&str; 2] = ["crankcase_engine::observe", "crankcase_workers::child"];

/// How an agent writes its log.
///
/// A line that nobody reads is waited for, on a pipe or a terminal, for 1 s at most; it and those
/// after it are dropped, until there is a reader again, who is told how many. A panic is a line of
/// the log, with its place; with `RUST_BACKTRACE=1` also with the functions of the program that were
/// on the stack, which are in the report too.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logging {
    /// Where to, and in which form. Default: what suits stderr.
    pub format: LogFormat,
    /// The events that are logged: a level, or levels of single targets, as in
    /// `info,crankcase_workers::process=debug`. Default `info`.
    ///
    /// Whatever is logged says which worker it comes from.
    pub filter: String,
    /// The secrets that are hidden in the messages of panics, in every form of the log, and in all
    /// other lines for people. In other lines of JSON and of the journal they are not hidden: the
    /// code that logs hides them before. While no errors are logged, a panic goes to stderr as it
    /// is. Default none.
    pub secrets: Secrets,
}

/// Where a log goes, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LogFormat {
    /// To the journal if that is what stderr is connected to, else to stderr for people.
    #[default]
    Auto,
    /// To stderr, for people; with colours if it is a terminal and `NO_COLOR` is not set.
    Human,
    /// To stderr, a JSON text on each line.
    Json,
    /// To the journal of systemd, with the fields of each event; to stderr if there is none.
    Journald,
}

/// Why a log could not be begun.
#[derive(Error)]
#[non_exhaustive]
pub enum LoggingError {
    /// The filter cannot be read.
    #[error("cannot begin to log")]
    Filter(#[from] ConfigError),
    /// Something else in this process logs already.
    #[error("cannot begin to log")]
    Begun {
        /// The cause.
        #[source]
        source: tracing_subscriber::util::TryInitError,
    },
}

impl std::fmt::Debug for LoggingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&WithCauses(self), f)
    }
}

crankcase_engine::setters! {
    Logging {
        format: LogFormat,
        filter: String,
        secrets: Secrets,
    }
    optional {}
}

impl Default for Logging {
    fn default() -> Self {
        let filter = "info".to_owned();
        Self { format: LogFormat::default(), filter, secrets: Secrets::default() }
    }
}

impl Logging {
    /// Returns the default with the filter that the variable `RUST_LOG` has, if it is set.
    pub fn from_env() -> Self {
        let filter = env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty());
        let default = Self::default();
        Self { filter: filter.unwrap_or(default.filter), ..default }
    }

    /// Begins to write the log of this process. Once for each process.
    ///
    /// # Errors
    ///
    /// When the filter cannot be read, or something logs already.
    pub fn begin(&self) -> Result<(), LoggingError> {
        let filter = EnvFilter::try_new(&self.filter).map_err(|_| {
            let expected = "error, warn, info, debug or trace, or a list of TARGET=LEVEL";
            ConfigError::new("filter", &self.filter, expected)
        })?;
        let (layer, missed) = self.layer();
        let begun = registry().with(layer.with_filter(with_spans(filter))).try_init();
        begun.map_err(|source| LoggingError::Begun { source })?;
        log_panics(self.secrets.clone());
        if let Some(err) = missed {
            let error: &dyn std::error::Error = &err;
            tracing::warn!(error, "there is no journal: logging to stderr");
        }
        Ok(())
    }

    /// Returns what writes, and why there is no journal if it was asked for.
    fn layer<S>(&self) -> (Box<dyn Layer<S> + Send + Sync>, Option<io::Error>)
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let wants_journal = match self.format {
            LogFormat::Journald => true,
            LogFormat::Auto => is_journal(stderr()),
            LogFormat::Json => {
                return (fmt::layer().with_writer(Stderr::new(Layout::Json)).json().boxed(), None);
            }
            LogFormat::Human => false,
        };
        let missed = match wants_journal.then(tracing_journald::layer) {
            Some(Ok(journal)) => return (journal.boxed(), None),
            Some(Err(err)) => Some(err),
            None => None,
        };
        // An empty value does not count, by the convention of that variable.
        let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let has_colours = !is_plain && stderr().is_terminal();
        let layer = fmt::layer().with_writer(Stderr::new(Layout::Human)).with_ansi(has_colours);
        (layer.event_format(ForPeople::hiding(self.secrets.clone())).boxed(), missed)
    }
}

/// Returns stderr, to find out where it leads.
#[expect(clippy::disallowed_methods, reason = "nothing is written")]
fn stderr() -> io::Stderr {
    io::stderr()
}

/// Writes panics as lines of the log, as long as errors are lines of it: the default hook writes to stderr, and waits
/// for a reader. Notes their backtraces for the report too.
fn log_panics(secrets: Secrets) {
    let otherwise = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let backtrace = Panicked::note(info).map(|lines| lines.replace('\n', ", "));
        if !tracing::enabled!(Level::ERROR) {
            return otherwise(info);
        }
        let place = info.location().map(ToString::to_string);
        let message = secrets.redact(info.payload_as_str().unwrap_or("no message"));
        tracing::error!(place, reason = &*message, backtrace, "a panic");
    }));
}

/// Lets the spans through that say which worker an event comes from, beside what a filter does.
///
/// Not by directives of the filter: those would let events of the same modules through as well.
fn with_spans<S: Subscriber>(filter: EnvFilter) -> impl Filter<S> {
    let is_span =
        |metadata: &Metadata<'_>| metadata.is_span() && SPANS.contains(&metadata.target());
    filter.or(filter_fn(is_span).with_max_level_hint(Level::DEBUG))
}

/// Returns whether a stream is the one that systemd has connected to the journal.
fn is_journal(stream: impl AsFd) -> bool {
    let Ok(connected) = env::var("JOURNAL_STREAM") else { return false };
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else { return false };
    let found = fs::File::from(stream).metadata();
    found.is_ok_and(|found| connected == format!("{}:{}", found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::subscriber::with_default;
    use tracing::{Event, Subscriber, debug_span, info_span};
    use tracing_subscriber::layer::{Context, SubscriberExt};
    use tracing_subscriber::registry::LookupSpan;
    use tracing_subscriber::{EnvFilter, Layer, registry};

    use super::with_spans;

    /// Keeps the target of each event, with the names of the spans around it.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, ctx: Context<'_, S>) {
            let spans = ctx.event_scope(event).into_iter().flatten();
            let names: Vec<_> = spans.map(|span| span.name()).collect();
            self.0.lock().push(format!("{} in {}", event.metadata().target(), names.join(" in ")));
        }
    }

    fn seen(filter: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let seen = Seen::default();
        let filter = with_spans(EnvFilter::try_new(filter)?);
        with_default(registry().with(seen.clone().with_filter(filter)), || {
            let _worker = debug_span!(target: "crankcase_engine::observe", "worker").entered();
            let _child = debug_span!(target: "crankcase_workers::child", "child").entered();
            let _other = info_span!(target: "other", "other").entered();
            tracing::error!(target: "crankcase_engine::observe", "an error");
            tracing::warn!(target: "crankcase_engine::observe", "a warning");
            tracing::warn!(target: "crankcase_workers::child", "a warning");
            tracing::error!(target: "other", "an error");
        });
        let seen = seen.0.lock().clone();
        Ok(seen)
    }

    #[test]
    fn the_filter_holds_for_the_modules_whose_spans_are_always_there() -> Result<(), Box<dyn Error>>
    {
        assert_eq!(seen("off")?, [""; 0]);
        let errors = ["crankcase_engine::observe in child in worker", "other in child in worker"];
        assert_eq!(seen("error")?, errors);
        Ok(())
    }

    #[test]
    fn spans_of_other_modules_are_there_if_the_filter_lets_them_through()
    -> Result<(), Box<dyn Error>> {
        assert_eq!(seen("off,other=info")?, ["other in other in child in worker"]);
        Ok(())
    }
}
