//! The parsed texts with expressions, and the bounds of what is parsed.

use minijinja::machinery::ast::Stmt;
use minijinja::machinery::{Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::manifest::problem::Hint;

use super::jinja;

/// How long a text with expressions may be, in bytes.
const MAX_TEXT: usize = 1024 * 1024;
/// How long a line of it may be, in bytes: the parser counts columns in 16 bits.
const MAX_LINE: usize = 60_000;
/// How many tokens one `{{ }}` or `{% %}` may have.
const MAX_TOKENS: usize = 1_000;
/// How deep brackets may nest in one expression.
const MAX_BRACKETS: usize = 32;
/// How many `not` and `-` may follow each other, and how many `**` an expression may have.
const MAX_PREFIXES: usize = 16;
/// How many `{% elif %}` a text may have.
const MAX_ELIFS: usize = 64;

/// An expression that does not parse or evaluate.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The byte of the text where it stands.
    pub(crate) offset: usize,
    pub(crate) message: String,
    pub(crate) hint: Hint,
}

impl Failure {
    pub(crate) fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into(), hint: Hint::default() }
    }

    /// Adds the expected form.
    pub(super) fn with_help(mut self, help: &str) -> Self {
        self.hint.help = Some(help.to_owned());
        self
    }

    /// Adds the text to write instead, if that is known.
    pub(super) fn with_instead(self, instead: Option<&str>) -> Self {
        match instead {
            Some(instead) => self.with_help(&format!("write {instead}")),
            None => self,
        }
    }
}

/// Returns whether a text holds expressions. A text without any is taken as it is.
pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Returns whether an expression of a text begins as only those of other programs do, as in
/// `{{.Names}}`.
fn is_for_another(text: &str) -> bool {
    let begins = text.match_indices("{{").map(|(at, braces)| &text[at + braces.len()..]);
    let mut begins = begins.map(|begin| begin.trim_start_matches(['-', ' ']));
    begins.any(|begin| begin.starts_with(['.', '$', '#', '/', '>']))
}

/// A parsed text.
pub(crate) struct Parsed<'a>(Stmt<'a>);

impl<'a> Parsed<'a> {
    /// Parses a text.
    pub(crate) fn new(text: &'a str) -> Result<Self, Failure> {
        Self::parse(text).map_err(|failure| match failure.hint.help {
            None if is_for_another(text) => failure
                .with_help("what is for another program stands between {% raw %} and {% endraw %}"),
            _ => failure,
        })
    }

    fn parse(text: &'a str) -> Result<Self, Failure> {
        if text.len() > MAX_TEXT {
            return Err(Failure::new(0, "a text with expressions is larger than 1 MiB"));
        }
        if text.split('\n').any(|line| line.len() > MAX_LINE) {
            let message = format!("a text with expressions has a line over {MAX_LINE} bytes");
            return Err(Failure::new(0, message));
        }
        let syntax = syntax();
        check_size(text, &syntax)?;
        parse(text, "", syntax).map(Self).map_err(|err| parse_failure(&err))
    }

    pub(super) fn statements(&self) -> &[Stmt<'a>] {
        match &self.0 {
            Stmt::Template(template) => &template.children,
            other => std::slice::from_ref(other),
        }
    }
}

/// `{{ }}` and `{% %}` only: the delimiters of comments are characters that no text has.
pub(super) fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder()
        .comment_delimiters("\u{10FFFE}{#", "#}\u{10FFFE}")
        .keep_trailing_newline(true)
        .build()
        .unwrap_or_default()
}

/// Refuses a text that would exhaust the parser's stack, before it is parsed.
fn check_size(text: &str, syntax: &SyntaxConfig) -> Result<(), Failure> {
    let (mut tokens, mut brackets, mut prefixes, mut elifs) = (0, 0_usize, 0, 0);
    for token in tokenize(text, false, syntax.clone()) {
        let (token, span) = token.map_err(|err| parse_failure(&err))?;
        let offset = span.start_offset as usize;
        tokens += 1;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => {
                (tokens, brackets, prefixes) = (0, 0, 0);
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => brackets += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                brackets = brackets.saturating_sub(1);
            }
            Token::Pow | Token::Ident("not") | Token::Minus => prefixes += 1,
            Token::Ident("elif") => elifs += 1,
            _ => {}
        }
        let bound = if tokens > MAX_TOKENS {
            format!("longer than {MAX_TOKENS} tokens")
        } else if brackets > MAX_BRACKETS {
            format!("nested deeper than {MAX_BRACKETS} brackets")
        } else if prefixes > MAX_PREFIXES {
            format!("more than {MAX_PREFIXES} of \"not\", \"-\" and \"**\"")
        } else if elifs > MAX_ELIFS {
            format!("more than {MAX_ELIFS} \"elif\"")
        } else {
            continue;
        };
        return Err(Failure::new(offset, format!("the expression is too large: {bound}")));
    }
    Ok(())
}

fn parse_failure(err: &minijinja::Error) -> Failure {
    let offset = err.range().unwrap_or_default().start;
    let detail = err.detail().map_or_else(|| err.kind().to_string(), str::to_owned);
    let statement = detail.strip_prefix("unknown statement ");
    let instead = statement.and_then(jinja::instead_of_statement);
    Failure::new(offset, format!("the expression does not parse: {}", detail.replace('`', "\"")))
        .with_instead(instead)
}
