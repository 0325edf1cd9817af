//! Plans and accounts in colours.

use std::fmt::Display;
use std::io::{self, Write};

use anstyle::AnsiColor;

use super::out::Out;

/// How far the lines of a diff are indented.
const DIFF: &str = "      ";

/// Writes a plan or an account with each line in the colour of its mark.
pub(crate) fn marked(text: &impl Display, out: &mut Out<'_>) -> io::Result<()> {
    let text = text.to_string();
    text.lines().try_for_each(|line| {
        out.colored(color_of(line), line)?;
        writeln!(out)
    })
}

fn color_of(line: &str) -> Option<AnsiColor> {
    let (diff, mark) = match line.strip_prefix(DIFF) {
        Some(line) => (true, line),
        None => (false, line),
    };
    match (diff, mark.as_bytes().first()?) {
        (true, b'+') => Some(AnsiColor::Green),
        (true, b'-') => Some(AnsiColor::Red),
        (true, b'@') | (false, b'?') => Some(AnsiColor::Cyan),
        (false, b'~' | b'-') => Some(AnsiColor::Yellow),
        (false, b'!') => Some(AnsiColor::Red),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Out, marked};

    #[test]
    fn each_line_has_the_colour_of_its_mark() -> Result<(), Box<dyn std::error::Error>> {
        let mut shown = Vec::new();

        marked(
            &"~ page (file) would change\n    content:\n      @@ -1 +1 @@\n      -a\n      +b\n       c\n! b failed\nplan: 2\n",
            &mut Out::to(&mut shown),
        )?;

        let shown = String::from_utf8(shown)?.replace('\u{1b}', "^");
        let expected = "\
^[33m~ page (file) would change^[0m
    content:
^[36m      @@ -1 +1 @@^[0m
^[31m      -a^[0m
^[32m      +b^[0m
       c
^[31m! b failed^[0m
plan: 2
";
        assert_eq!(shown, expected);
        Ok(())
    }
}
