//! Takes the text of a source or a template into a config that goes to another machine.

use std::path::Path;

use crankcase_resources::derived::Value;
use crankcase_resources::dynamic::Config;
use crankcase_resources::front::{RenderedText, Surroundings};
use crankcase_workers::{FileError, read_file};

use crate::file::config::is_outside;
use crate::file::content::{Empty, TEMPLATE_LIMIT, without_byte_order_mark};
use crate::file::error::EntryError;

/// Puts the text of a source or a template into the config, as the file is on this machine alone.
pub(super) fn send(config: &mut Config, surroundings: &Surroundings) -> Result<(), EntryError> {
    let contents = ["content", "source", "template"].map(|name| config.get(name));
    if contents.into_iter().flatten().filter(|value| !value.is_null()).count() > 1 {
        return Err(EntryError::TwoContents);
    }
    // The content of what is not to exist is not read.
    if config.get("state").is_some_and(|state| state == "absent") {
        config.remove("source");
        config.remove("template");
        return Ok(());
    }
    let allows_empty = config.get("allow_empty") == Some(&Value::Bool(true));
    let empty = if allows_empty { Empty::Allowed } else { Empty::Refused };
    for (attribute, is_template) in [("source", false), ("template", true)] {
        let Some(Value::String(path)) = config.get(attribute) else { continue };
        let path = surroundings.folder.join(path);
        let says_nothing = config.get("diff").is_none_or(Value::is_null);
        let is_hidden = says_nothing && is_outside(&path, &surroundings.folder);
        let kept = surroundings.scope.kept_text(&path).filter(|_| is_template);
        let mut text = kept.map_or_else(|| read_text(&path), |kept| Ok(kept.to_owned()))?;
        if is_template {
            let template = without_byte_order_mark(&text);
            empty.judge(&path, template.len() as u64)?;
            let rendered = surroundings.scope.render_text(&path, template);
            match rendered.map_err(|source| EntryError::Render { path, source })? {
                RenderedText::Known(rendered) => text = rendered,
                RenderedText::Unknown(aliases) => return Err(EntryError::Unknown { aliases }),
            }
        } else {
            empty.judge(&path, text.len() as u64)?;
        }
        config.remove(attribute);
        if is_hidden {
            config.insert("diff".to_owned(), false.into());
        }
        config.insert("content".to_owned(), text.into());
    }
    Ok(())
}

fn read_text(path: &Path) -> Result<String, EntryError> {
    let bytes = read_file(path, TEMPLATE_LIMIT).map_err(|error| match error {
        FileError::TooLarge { path, .. } => EntryError::NotSent { path },
        other => other.into(),
    })?;
    String::from_utf8(bytes).map_err(|_| EntryError::NotSent { path: path.to_owned() })
}
