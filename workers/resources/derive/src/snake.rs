//! The names of variants in snake case, as manifests write them.

use syn::Ident;

/// Returns a name in camel case as one in snake case.
pub(crate) fn snake(name: &Ident) -> String {
    let mut snake = String::new();
    for letter in name.to_string().chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
