//! Lines of the log as people read them.

use std::fmt;

use crankcase_workers::{Secrets, printable};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Fields that name the subject of an event.
const SUBJECTS: [&str; 4] = ["resource", "process", "member", "worker"];

/// Fields that tell what has happened. Their names are not written.
const WHATS: [&str; 6] = ["what", "reason", "error", "line", "origin", "event"];

/// Lays an event out as `TIME LEVEL SUBJECT: MESSAGE: WHAT; KEY: VALUE`. The subject is a field of the
/// event, else the worker that it comes from. Module paths are left out at `info` and above.
#[derive(Debug, Default)]
pub(super) struct ForPeople {
    /// What is hidden.
    secrets: Secrets,
}

impl ForPeople {
    pub(super) fn hiding(secrets: Secrets) -> Self {
        Self { secrets }
    }
}

impl<S, N> FormatEvent<S, N> for ForPeople
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut said = Said { secrets: self.secrets.clone(), ..Said::default() };
        event.record(&mut said);
        SystemTime.format_time(&mut out)?;
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        write_level(&mut out, level)?;
        if level > Level::INFO {
            write!(out, "{target}: ")?;
        }
        let subject = said.take(&SUBJECTS).or_else(|| worker::<S, N>(ctx));
        if let Some(subject) = subject {
            write!(out, "{subject}: ")?;
        }
        out.write_str(&said.message)?;
        let whats = said.fields.extract_if(.., |(name, _)| WHATS.contains(name));
        for (_, what) in whats.collect::<Vec<_>>() {
            write!(out, ": {what}")?;
        }
        for (name, value) in &said.fields {
            write!(out, "; {name}: {value}")?;
        }
        writeln!(out)
    }
}

/// Writes a level, in its colour if there are colours.
fn write_level(out: &mut Writer<'_>, level: Level) -> fmt::Result {
    if !out.has_ansi_escapes() {
        return write!(out, " {level:>5} ");
    }
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        _ => 35,
    };
    write!(out, " \u{1b}[{colour}m{level:>5}\u{1b}[0m ")
}

/// Returns the worker that an event comes from, and what it is within that.
fn worker<S, N>(ctx: &FmtContext<'_, S, N>) -> Option<String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let mut names = Vec::new();
    for span in ctx.event_scope()?.from_root() {
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>().map(|fields| fields.as_str());
        // As in `worker="/agent/site"`, perhaps with colours.
        let fields = uncoloured(fields.unwrap_or_default());
        let name = fields
            .split_once('=')
            .map_or(&*fields, |(_, value)| value.trim_matches('"'))
            .to_owned();
        names.push(name);
    }
    (!names.is_empty()).then(|| names.join(" "))
}

/// Returns a text without the sequences that set colours.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// What an event says, with control characters escaped.
#[derive(Debug, Default)]
struct Said {
    message: String,
    fields: Vec<(&'static str, String)>,
    secrets: Secrets,
}

impl Said {
    /// Takes the first field that has one of these names, in their order.
    fn take(&mut self, names: &[&str]) -> Option<String> {
        let position = |name: &&str| self.fields.iter().position(|(field, _)| field == name);
        let position = names.iter().find_map(position)?;
        Some(self.fields.remove(position).1)
    }

    fn add(&mut self, field: &Field, value: &str) {
        let text = printable(&self.secrets.redact(value));
        match field.name() {
            "message" => self.message = text,
            name => self.fields.push((name, text)),
        }
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, &format!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, &crankcase_engine::WithCauses(value).to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::subscriber::with_default;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::{fmt, registry};

    use super::ForPeople;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns what is logged without its time.
    fn logged(has_colours: bool, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let layer = fmt::layer().with_writer(move || writer.clone()).with_ansi(has_colours);
        with_default(registry().with(layer.event_format(ForPeople::default())), log);
        let text = String::from_utf8_lossy(&lines.0.lock()).into_owned();
        text.lines().filter_map(|line| Some(line.split_once(' ')?.1.to_owned() + "\n")).collect()
    }

    #[test]
    fn the_subject_is_a_field_else_the_worker_with_and_without_colours() {
        let log = || {
            let _span = tracing::info_span!("worker", worker = "/agent/site").entered();
            tracing::info!(target: "crankcase_x", took = 3, "it is loaded");
            tracing::warn!(target: "crankcase_x", resource = "page", reason = "no \"luck\"", "it failed");
            tracing::info!(target: "other::crate", line = "a\u{1b}b\u{202e}c", "said");
        };
        let plain = logged(false, log);
        assert_eq!(
            plain,
            " INFO /agent/site: it is loaded; took: 3\n WARN page: it failed: no \"luck\"\n INFO \
             /agent/site: said: a\\u{1b}b\\u{202e}c\n"
        );
        let coloured = logged(true, log);
        assert!(coloured.contains("/agent/site: it is loaded; took: 3\n"), "{coloured}");
        assert!(coloured.contains("\u{1b}[33m WARN\u{1b}[0m page: it failed"), "{coloured}");
    }
}
