//! The config with which each resource was good last, on record.
//!
//! With it the next agent keeps a resource as it was, if the resource is wrong when that one starts.
//! It is written soon, and nothing waits for it: without it the resource is only not kept.

use sha2::{Digest, Sha256};

use crate::declaration::{Config, Declaration};
use crate::error::BoxError;
use crate::state::{Document, Key, Loaded, Record, Records, Topic};
use crate::text::chain;

/// Puts on record that a resource is good with a config, unless it is on record. Whether it is shows
/// in the key, so no document is read.
pub(crate) fn note(records: &Records, declaration: &Declaration, config: &Config) {
    let name = &declaration.name;
    let document = match Document::of(&(&declaration.kind, config)) {
        Ok(document) => document,
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(resource = name, error, "cannot note how a resource is kept");
            return;
        }
    };
    let digest = base16ct::lower::encode_string(&Sha256::digest(document.as_str()));
    let key = Key::new(Topic::LastGood, format!("{name}\n{digest}"));
    let earlier = records.look(|loaded| match loaded.documents.contains(&key) {
        true => None,
        false => Some(forget(loaded, name)),
    });
    if let Some(earlier) = earlier {
        records.push(earlier.into_iter().chain([Record::Stored { key, document }]));
    }
}

/// Returns the config with which a resource was good last, if that is on record.
pub(crate) async fn read(records: &Records, declaration: &Declaration) -> Option<Config> {
    let (name, kind) = (&declaration.name, &declaration.kind);
    let key = records.look(|loaded| keys(loaded, name).next().cloned())?;
    let read = async {
        let document = records.document(&key).await?;
        let last: Option<(String, Config)> = document.map(|it| it.read()).transpose()?;
        Ok::<_, BoxError>(last)
    };
    let last = read.await.unwrap_or_else(|error| {
        let error = chain(&*error);
        tracing::warn!(resource = name, error, "cannot read how a resource was kept last");
        None
    });
    last.filter(|(last, _)| last == kind).map(|(_, config)| config)
}

/// Returns the records that forget how a resource was kept.
pub(crate) fn forget(loaded: &Loaded, resource: &str) -> Vec<Record> {
    keys(loaded, resource).map(|key| Record::Removed { key: key.clone() }).collect()
}

/// Returns the keys of a resource. There is at most one.
fn keys<'a>(loaded: &'a Loaded, resource: &str) -> impl Iterator<Item = &'a Key> + use<'a> {
    let first = Key::new(Topic::LastGood, format!("{resource}\n"));
    let (topic, name) = (first.topic, first.name.clone());
    let from = loaded.documents.range(first..);
    from.take_while(move |key| key.topic == topic && key.name.starts_with(&*name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{forget, note, read};
    use crate::declaration::{Config, Declaration};
    use crate::literal::Literal;
    use crate::state::Records;

    fn declare(name: &str, kind: &str) -> Declaration {
        Literal::new(Config::new()).declare(Path::new("/srv"), name, kind)
    }

    fn config(content: &str) -> Config {
        [("content".to_owned(), json!(content))].into_iter().collect()
    }

    fn documents(records: &Records) -> usize {
        records.look(|loaded| loaded.documents.len())
    }

    #[tokio::test]
    async fn the_last_config_of_a_resource_is_on_record_until_it_is_forgotten() {
        let records = Records::default();
        let (page, pages) = (declare("page", "file"), declare("pages", "file"));

        for content in ["one", "two", "two"] {
            note(&records, &page, &config(content));
            note(&records, &pages, &config("other"));
        }

        assert_eq!(documents(&records), 2);
        assert_eq!(read(&records, &page).await, Some(config("two")));
        assert_eq!(read(&records, &declare("page", "exec")).await, None);
        records.push(records.look(|loaded| forget(loaded, "page")));
        assert_eq!(read(&records, &page).await, None);
        assert_eq!(read(&records, &pages).await, Some(config("other")));
    }

    #[test]
    fn a_config_that_is_on_record_is_not_written_again() {
        let records = Records::default();
        let page = declare("page", "file");
        note(&records, &page, &config("one"));
        let before = records.push([]);

        note(&records, &page, &config("one"));

        assert_eq!(records.push([]), before);
    }
}
