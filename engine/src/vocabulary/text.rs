//! Texts from workers and callers, cut to a bound. Such a text may be endless, and reports, events
//! and chains to a cause keep copies of it.

use std::fmt::{self, Display, Write};

/// How many bytes of a text are kept, including the mark of a cut.
const BOUND: usize = 64 * 1024;
/// The end of a text that was cut.
const MARK: &str = " [cut after 64 KiB]";

/// Returns the text that a value writes, cut to the bound. The value gets an error when it writes
/// more, so that an endless text ends.
pub(crate) fn written(value: &dyn Display) -> String {
    let mut kept = Kept(String::new());
    // An error from the value itself ends the text, too.
    let _ = write!(kept, "{value}");
    cut(kept.0)
}

/// Returns a text, cut to the bound.
pub(crate) fn cut(mut text: String) -> String {
    if text.len() > BOUND {
        text.truncate(text.floor_char_boundary(BOUND - MARK.len()));
        text.push_str(MARK);
    }
    text.shrink_to(BOUND);
    text
}

/// Keeps the beginning of a text, and one character past the bound if there is more.
struct Kept(String);

impl Write for Kept {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = (BOUND + 1).saturating_sub(self.0.len());
        self.0.push_str(&piece[..piece.ceil_char_boundary(room)]);
        if self.0.len() > BOUND { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_within_the_bound_is_kept_as_it_is() {
        for length in [0, 1, BOUND] {
            let text = "x".repeat(length);
            assert_eq!(written(&text), text);
            assert_eq!(cut(text.clone()), text);
        }
    }

    #[test]
    fn a_longer_text_is_cut_between_two_characters_and_says_so() {
        for character in ["x", "é", "€", "🦀"] {
            for length in [BOUND + 1, 2 * BOUND] {
                // So that the bound is at each place within a character.
                for begin in ["", "a", "ab", "abc"] {
                    let text = begin.to_owned() + &character.repeat(length / character.len() + 1);
                    let kept = written(&text);
                    assert_eq!(kept, cut(text.clone()));
                    let begins = kept.strip_suffix(MARK).expect("it says that it was cut");
                    assert!(text.starts_with(begins));
                    let left = BOUND - kept.len();
                    assert!(left < character.len(), "{left} bytes less than could be kept");
                }
            }
        }
    }

    #[test]
    fn a_text_that_was_cut_is_not_cut_again() {
        let text = cut("€".repeat(BOUND));
        assert_eq!(cut(text.clone()), text);
        assert_eq!(written(&text), text);
    }

    #[test]
    fn no_room_is_kept_that_is_not_needed() {
        let mut text = "x".repeat(10 * BOUND);
        assert!(cut(text.clone()).capacity() <= BOUND);
        text.truncate(1);
        assert!(cut(text).capacity() <= BOUND);
    }

    /// Writes piece by piece, whatever comes of it, and then has an error.
    struct Deaf(usize);

    impl Display for Deaf {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let all = (0..self.0).map(|_| f.write_str("xy"));
            drop(all.collect::<Vec<_>>());
            Err(fmt::Error)
        }
    }

    #[test]
    fn what_is_written_after_the_bound_is_not_kept() {
        assert_eq!(written(&Deaf(2)), "xyxy");
        assert_eq!(written(&Deaf(BOUND)), cut("xy".repeat(BOUND)));
    }
}
