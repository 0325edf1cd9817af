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
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    hides || character.is_control()
}

/// Returns a text with what is unprintable escaped, tabs excepted.
pub fn printable(text: &str) -> String {
    escaped(text, |it| is_unprintable(it) && it != '\t', in_rust).into_owned()
}

/// Returns a text with what is unprintable escaped, tabs and ends of lines excepted.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, hides_in_lines, in_rust)
}

/// Returns JSON that means the same, with what is unprintable escaped, tabs and ends of lines excepted.
pub fn printable_json(json: &str) -> Cow<'_, str> {
    let in_json = |character: char| {
        let mut units = [0; 2];
        let units = character.encode_utf16(&mut units).iter();
        units.map(|unit| format!("\\u{unit:04x}")).collect()
    };
    escaped(json, hides_in_lines, in_json)
}

/// Returns YAML that means the same as some JSON, with what is unprintable escaped, tabs and ends of lines excepted.
pub fn printable_yaml(json: &str) -> Cow<'_, str> {
    // A YAML escape is a character, and not half of one.
    escaped(json, hides_in_lines, |it| format!("\\U{:08x}", u32::from(it)))
}

fn hides_in_lines(character: char) -> bool {
    is_unprintable(character) && !matches!(character, '\n' | '\t')
}

/// Returns a text on one line: with a space for the end of each line, and with what is unprintable escaped.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_unprintable, |it| if it == '\n' { " ".to_owned() } else { in_rust(it) })
}

fn in_rust(character: char) -> String {
    character.escape_default().to_string()
}

fn escaped(
    text: &str,
    hides: impl Fn(char) -> bool,
    escape: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.contains(&hides) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if hides(character) {
            escaped.push_str(&escape(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Returns the characters of a text from elsewhere, with a space for each that is unprintable.
pub(crate) fn spaced(text: &str) -> impl Iterator<Item = char> {
    text.chars().map(|char| if is_unprintable(char) { ' ' } else { char })
}

#[cfg(test)]
mod tests {
    use super::{one_line, printable_json, printable_lines, printable_yaml};

    #[test]
    fn a_text_cannot_reach_the_terminal() {
        assert_eq!(one_line("plain, schön"), "plain, schön");
        assert_eq!(one_line("a\nb\u{1b}[2J\u{9b}x\r"), "a b\\u{1b}[2J\\u{9b}x\\r");
        assert_eq!(one_line("a\u{202e}b\u{feff}"), "a\\u{202e}b\\u{feff}");
        assert_eq!(one_line("\u{6cc}\u{200c}"), "\u{6cc}\u{200c}");
    }

    #[test]
    fn lines_keep_their_ends() {
        assert_eq!(printable_lines("a\n\tb\u{1b}[2J\r\n"), "a\n\tb\\u{1b}[2J\\r\n");
        assert_eq!(printable_lines("plain\n"), "plain\n");
    }

    #[test]
    fn json_means_the_same() -> Result<(), serde_json::Error> {
        let text = "a\u{9b}\u{202e}\u{e0041}\u{7f}\n\t\u{1b}\u{200d}";
        let json = serde_json::to_string_pretty(&serde_json::json!({ "a": text }))?;

        let printable = printable_json(&json);

        assert_eq!(printable_lines(&printable), printable);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printable)?["a"], text);
        Ok(())
    }

    #[test]
    fn yaml_has_one_escape_for_each_character() {
        assert_eq!(
            printable_yaml("\"a\u{9b}\u{e0041}\\u001b\"\n"),
            "\"a\\U0000009b\\U000e0041\\u001b\"\n"
        );
    }
}
