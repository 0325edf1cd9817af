//! The documentation of derived items, which the tables of parameters and actions show.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the first paragraph of a documentation comment, on one line.
pub(crate) fn summary(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let paragraph: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ").trim_end_matches('.').to_owned()
}
