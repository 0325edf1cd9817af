//! What may be shown to people of texts that come from elsewhere.

/// Returns whether a character would move the cursor, or have a text look otherwise than it is:
/// control characters, marks of direction, ends of lines and what is not seen. Joiners, which some
/// scripts are not written without, are none.
pub fn is_unprintable(character: char) -> bool {
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

/// Returns the characters of a text from elsewhere, with a space for each that is unprintable.
pub(crate) fn spaced(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|char| if is_unprintable(char) { ' ' } else { char })
}
