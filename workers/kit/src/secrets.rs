//! Texts that are shown to nobody.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use parking_lot::RwLock;

/// What stands in the place of a secret.
const HIDDEN: &str = "(sensitive)";

/// How many bytes a secret has at least. Shorter ones would hide parts of ordinary words.
const LEAST: usize = 4;

/// What follows a text that was cut.
const CUT: &str = "...";

/// A set of texts that are to be in no log, no error and no report. Cheap to clone; clones are the same
/// set, which only grows.
///
/// Each line of a secret is a secret of its own, as texts are shown line by line. Lines with less than 4
/// bytes are not: they would hide parts of ordinary words.
///
/// # Examples
///
/// ```
/// use crankcase_workers::Secrets;
///
/// let secrets = Secrets::default();
/// secrets.add("hunter2");
/// assert_eq!(secrets.redact("cannot log in as ada:hunter2"), "cannot log in as ada:(sensitive)");
/// ```
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Known>>);

/// The secrets by their first bytes, so that a text is looked through once, however many there are. A
/// library's automaton would have to be built anew for each secret that comes.
type Known = HashMap<[u8; LEAST], Vec<Box<str>>>;

impl Secrets {
    /// Adds a text, line by line. Spaces around a line are no part of the secret.
    pub fn add(&self, secret: &str) {
        for line in secret.lines().map(str::trim).filter(|line| line.len() >= LEAST) {
            self.add_line(line);
            // As it stands in a quoted text, or in JSON.
            let quoted = format!("{line:?}");
            let escaped = &quoted[1..quoted.len() - 1];
            if escaped != line {
                self.add_line(escaped);
            }
        }
    }

    fn add_line(&self, line: &str) {
        let Some(start) = start_of(line.as_bytes()) else { return };
        if self.0.read().get(start).is_some_and(|known| known.iter().any(|it| **it == *line)) {
            return;
        }
        let mut known = self.0.write();
        let known = known.entry(*start).or_default();
        known.push(line.into());
        // The longest first: a secret may begin with another one.
        known.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        known.dedup();
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    /// Returns whether a text holds a whole secret.
    pub fn are_in(&self, text: &str) -> bool {
        let known = self.0.read();
        let starts = (0..text.len()).filter(|at| text.is_char_boundary(*at)).map(|at| &text[at..]);
        starts.into_iter().any(|rest| {
            let known = start_of(rest.as_bytes()).and_then(|start| known.get(start));
            known.is_some_and(|known| known.iter().any(|secret| rest.starts_with(&**secret)))
        })
    }

    /// Returns a text with `(sensitive)` in the place of each secret. The beginning of a secret is hidden
    /// too where the text was cut: at its end, and before `...`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.read();
        if known.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut redacted, mut copied, mut at) = (String::new(), 0, 0);
        while let Some(start) = start_of(&text.as_bytes()[at..]) {
            let hidden = known.get(start).and_then(|known| {
                known.iter().map(|secret| hidden(secret, &text[at..])).find(|length| *length > 0)
            });
            let Some(length) = hidden else {
                at += 1;
                continue;
            };
            redacted.push_str(&text[copied..at]);
            redacted.push_str(HIDDEN);
            at += length;
            copied = at;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        redacted.push_str(&text[copied..]);
        Cow::Owned(redacted)
    }
}

/// Returns the bytes that a text begins with, if it has as many.
fn start_of(text: &[u8]) -> Option<&[u8; LEAST]> {
    text.first_chunk()
}

/// Returns how many bytes at the start of a text are the secret, or its beginning if the text was cut.
fn hidden(secret: &str, text: &str) -> usize {
    if text.starts_with(secret) {
        return secret.len();
    }
    let alike =
        secret.char_indices().zip(text.chars()).take_while(|((_, one), other)| one == other);
    let length = alike.map(|((at, character), _)| at + character.len_utf8()).last().unwrap_or(0);
    let rest = &text[length..];
    let is_cut = rest.is_empty() || rest.starts_with(CUT) || rest.starts_with('\u{fffd}');
    if length >= LEAST && is_cut { length } else { 0 }
}

/// Two are equal if they are the same set, or both empty.
impl PartialEq for Secrets {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.is_empty() && other.is_empty())
    }
}

impl Eq for Secrets {}

// No foreign code runs under the lock, so a panic leaves the set whole.
impl UnwindSafe for Secrets {}
impl RefUnwindSafe for Secrets {}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::Secrets;

    fn secrets(texts: &[&str]) -> Secrets {
        let secrets = Secrets::default();
        texts.iter().for_each(|text| secrets.add(text));
        secrets
    }

    #[test]
    fn a_secret_is_hidden_wherever_it_stands_and_all_else_is_as_it_was() {
        let secrets = secrets(&["hunter2", "hunter2-long", "schön€"]);
        let redacted = secrets.redact("hunter2, hunter2-longer, [schön€] and hunter");
        assert_eq!(redacted, "(sensitive), (sensitive)er, [(sensitive)] and (sensitive)");
        assert!(matches!(secrets.redact("a hunter was here"), Cow::Borrowed(_)));
    }

    #[test]
    fn each_line_of_a_secret_is_one_and_so_is_its_escaped_form() {
        let secrets = secrets(&["  first line\nab\nsay \"x\"\\n\n"]);
        assert_eq!(secrets.redact("first line"), "(sensitive)");
        assert_eq!(secrets.redact(r#""say \"x\"\\n""#), r#""(sensitive)""#);
        assert_eq!(secrets.redact("ab"), "ab");
    }

    #[test]
    fn what_is_left_of_a_secret_that_was_cut_is_hidden() {
        let secrets = secrets(&["hunter2"]);
        assert_eq!(secrets.redact("\"hunt...\" and hunte"), "\"(sensitive)...\" and (sensitive)");
        assert_eq!(secrets.redact("hun... and hunter3"), "hun... and hunter3");
        assert!(
            !secrets.are_in("hunte") && secrets.are_in("ä hunter2!"),
            "that is no whole secret"
        );
    }

    proptest! {
        #[test]
        fn no_text_shows_a_secret(
            secret in "[ab€\"\\\\]{4,8}",
            parts in prop::collection::vec("[ab€\"\\\\ ]{0,6}", 0..5),
        ) {
            prop_assume!(secret.len() >= 4);
            let secrets = secrets(&[&secret]);
            let text = parts.join(&secret);
            prop_assert!(!secrets.redact(&text).contains(&secret));
        }
    }
}
