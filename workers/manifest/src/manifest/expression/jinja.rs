//! The parts of Jinja2 that are not here, and what to write in their place.

/// Returns the replacement of a method of Python, of TEXT, LIST or MAP.
pub(super) fn instead_of_method(name: &str) -> Option<&'static str> {
    Some(match name {
        "append" | "extend" => "LIST | chain([ITEM])",
        "capitalize" => "TEXT | capitalize",
        "count" => "VALUES | select('eq', VALUE) | length",
        "endswith" => "TEXT is endingwith(END)",
        "format" => "TEXT ~ VALUE ~ TEXT",
        "get" => "MAP[KEY] | default(VALUE)",
        "items" => "MAP | items",
        "join" => "LIST | join(SEPARATOR)",
        "keys" => "MAP | list",
        "lower" | "casefold" => "TEXT | lower",
        "replace" => "TEXT | replace(OLD, NEW)",
        "split" => "TEXT | split(SEPARATOR)",
        "splitlines" => "TEXT | lines",
        "startswith" => "TEXT is startingwith(BEGIN)",
        "strip" => "TEXT | trim",
        "title" => "TEXT | title",
        "upper" => "TEXT | upper",
        "values" => "MAP | items | map('last')",
        _ => return None,
    })
}

/// Returns the replacement of a statement.
pub(super) fn instead_of_statement(name: &str) -> Option<&'static str> {
    Some(match name {
        "include" | "extends" | "block" => {
            "its text here, or a resource of type file with that `template`"
        }
        "macro" | "call" | "import" | "from" => {
            "a variable, in `vars` or by {% set NAME = VALUE %}, and use that"
        }
        "filter" => "the filter in {{ }}, as in {{ TEXT | upper }}",
        "do" | "set with a body" => "{% set NAME = VALUE %}",
        "autoescape" => "what is in it, and no more: nothing is escaped",
        _ => return None,
    })
}
