//! Backtraces of panics. A panic hook notes them, because the stack is gone where a panic is
//! caught.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::fmt;
use std::panic::PanicHookInfo;

use crate::vocabulary::text;

/// The last panic of a thread that a hook has noted.
struct Noted {
    /// `None` if the panic carries a value that is not text.
    message: Option<String>,
    backtrace: String,
}

thread_local! {
    static NOTED: RefCell<Option<Noted>> = const { RefCell::new(None) };
}

/// Captures the backtrace of a panic in its hook, and keeps it until the panic is caught.
pub(crate) fn note(info: &PanicHookInfo<'_>) -> Option<String> {
    let captured = Backtrace::capture();
    let is_captured = captured.status() == BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| text::cut(own_frames(&captured.to_string())));
    let message = info.payload_as_str().map(str::to_owned);
    let noted = backtrace.clone().map(|backtrace| Noted { message, backtrace });
    // A thread that is ending may have no such place any more.
    let _ended = NOTED.try_with(|place| place.replace(noted));
    backtrace
}

/// Takes the backtrace of a panic that was caught on this thread. The message tells the panic from
/// another one, which somebody else has caught.
pub(crate) fn take(message: Option<&str>) -> Option<String> {
    let noted = NOTED.try_with(RefCell::take).ok()??;
    (noted.message.as_deref() == message).then_some(noted.backtrace)
}

/// One function on the stack.
struct Frame<'a> {
    name: String,
    place: Option<&'a str>,
}

/// Crates whose functions are on every worker's stack.
const FOREIGN: [&str; 6] = ["std", "core", "alloc", "__rustc", "tokio", "crankcase_engine"];

/// The sources of this crate. The name of an inlined function does not have its crate.
const ENGINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/");

impl Frame<'_> {
    /// Whether it belongs to the program itself, and not to its dependencies.
    fn is_own(&self) -> bool {
        let path = self.name.trim_start_matches(['<', '&', '*', '(']);
        let has_own_crate = path
            .split_once("::")
            .map(|(name, _)| !FOREIGN.contains(&name.trim_start_matches("dyn ")));
        match self.place {
            Some(place) => has_own_crate.unwrap_or(true) && !is_foreign(place),
            // Without a crate and a place it is mostly a function of C.
            None => has_own_crate.unwrap_or(false),
        }
    }
}

impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.place.map_or(Ok(()), |place| write!(f, " at {place}"))
    }
}

/// Whether a source file belongs to C, the standard library, a downloaded crate or this crate.
fn is_foreign(place: &str) -> bool {
    let folders = ["/rustc/", "/rustlib/src/", "/registry/src/", "/git/checkouts/"];
    // A place within the current folder begins with `./`.
    let absolute = std::env::current_dir().unwrap_or_default().join(place);
    !place.contains(".rs:")
        || folders.iter().any(|folder| place.contains(folder))
        || absolute.starts_with(ENGINE)
}

/// Returns the program's own functions of a backtrace, a line for each. If it has none, returns all
/// functions. Generic arguments are left out, because those of a worker's task take kilobytes.
fn own_frames(backtrace: &str) -> String {
    let frames = frames(backtrace);
    // What is above has begun the panic and captured its backtrace.
    let panic = frames.iter().position(|frame| frame.name.contains("__rust_end_short_backtrace"));
    let below = &frames[panic.map_or(0, |index| index + 1)..];
    let lines = |is_kept: fn(&&Frame<'_>) -> bool| -> Vec<String> {
        below.iter().filter(is_kept).map(ToString::to_string).collect()
    };
    let own = lines(|frame| frame.is_own());
    if own.is_empty() { lines(|_| true).join("\n") } else { own.join("\n") }
}

/// Reads the text of a backtrace: `3: name`, and on the next line, if it is known, `at place`.
fn frames(backtrace: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in backtrace.lines().map(str::trim_start) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.place = Some(place.strip_prefix("./").unwrap_or(place));
            }
        } else if let Some((number, name)) = line.split_once(": ")
            && number.bytes().all(|byte| byte.is_ascii_digit())
        {
            frames.push(Frame { name: without_generics(name), place: None });
        }
    }
    frames
}

/// Returns the name of a function without its generic arguments. `<A as B>` at its beginning stays.
fn without_generics(name: &str) -> String {
    let (mut short, mut depth, mut before) = (String::new(), 0_usize, ' ');
    for character in name.chars() {
        match character {
            '<' if depth > 0 => depth += 1,
            '<' if before.is_alphanumeric() || "_}:".contains(before) => {
                short.truncate(short.trim_end_matches("::").len());
                depth = 1;
            }
            // The arrow of a function's type ends nothing.
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => short.push(character),
            _ => {}
        }
        before = character;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_arguments_are_left_out_of_names() {
        let names = [
            ("shop::poll", "shop::poll"),
            ("advance<Task<A, B>, C>", "advance"),
            ("{closure#0}<shop::Poller>", "{closure#0}"),
            ("shop::Poller<T>::run::{{closure}}", "shop::Poller::run::{{closure}}"),
            ("shop::poll::<fn(u8) -> Vec<u8>>", "shop::poll"),
            ("<shop::A<T> as engine::Worker<U>>::run", "<shop::A as engine::Worker>::run"),
            ("<&mut dyn shop::A as B>::c::<D>::e", "<&mut dyn shop::A as B>::c::e"),
        ];
        for (name, short) in names {
            assert_eq!(without_generics(name), short);
        }
    }

    #[test]
    fn only_the_programs_own_functions_below_the_panic_are_kept() {
        let engine = format!("{ENGINE}worker/task.rs:272:39");
        let backtrace = format!(
            "   0: shop::hook::{{{{closure}}}}
             at ./src/main.rs:4:5
   1: std::sys::backtrace::__rust_end_short_backtrace
   2: core::panicking::panic_fmt
             at /rustc/5980/library/core/src/panicking.rs:80:14
   3: shop::inner
             at ./examples/poll.rs:10:32
   4: {{closure#0}}<shop::Poller, core::option::Option<u8>>
             at ./examples/poll.rs:7:9
   5: <shop::Poller as crankcase_engine::worker::Worker>::run::{{{{closure}}}}
   6: advance<crankcase_engine::Definition<shop::Poller>>
             at {engine}
   7: crankcase_engine::worker::task::Task::poll
   8: with_mut<Stage<shop::Poller>>
             at /root/.cargo/registry/src/index/tokio-1.54.1/src/loom/std/unsafe_cell.rs:16:9
   9: __rust_try
  10: tokio::runtime::task::raw::poll
  11: start_thread
             at ./nptl/pthread_create.c:442:8
  12: main
"
        );

        let own = own_frames(&backtrace);

        let expected = "shop::inner at examples/poll.rs:10:32\n\
                        {closure#0} at examples/poll.rs:7:9\n\
                        <shop::Poller as crankcase_engine::worker::Worker>::run::{{closure}}";
        assert_eq!(own, expected);
    }

    #[test]
    fn all_functions_are_kept_if_none_is_the_programs_own() {
        let own = own_frames("   0: core::fmt::write\n   1: tokio::poll<Task>\n");

        assert_eq!(own, "core::fmt::write\ntokio::poll");
    }
}
