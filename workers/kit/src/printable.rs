//! What may be shown to people of texts that come from elsewhere.

use std::borrow::Cow;

/// Returns whether a character would move the cursor, or have a text look otherwise than it is:
/// control characters, marks of direction, ends of lines and what is not seen. Joiners, which some
/// scripts are not written without, are none.
pub fn is_unprintable(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_control();
    }
    let hides = matches!(
        character,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    hides || character.is_control()
}

/// Returns a text with what is unprintable escaped, tabs excepted.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unprintable(character) && character != '\t' {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    printable
}

/// Returns a text on one line: with a space for the end of each line, and with what is unprintable escaped.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let escape = |character: char| match character {
        '\n' => " ".to_owned(),
        _ if is_unprintable(character) => character.escape_default().to_string(),
        _ => character.to_string(),
    };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Returns the characters of a text from elsewhere, with a space for each that is unprintable.
pub(crate) fn spaced(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|char| if is_unprintable(char) { ' ' } else { char })
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_text_cannot_reach_the_terminal() {
        assert_eq!(one_line("plain, schön"), "plain, schön");
        assert_eq!(one_line("a\nb\u{1b}[2J\u{9b}x\r"), "a b\\u{1b}[2J\\u{9b}x\\r");
        assert_eq!(one_line("a\u{202e}b\u{feff}"), "a\\u{202e}b\\u{feff}");
        assert_eq!(one_line("\u{6cc}\u{200c}"), "\u{6cc}\u{200c}");
    }
}
