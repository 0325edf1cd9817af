//! The config with which each resource was good last, on record.
//!
//! With it the next agent keeps a resource as it was, if the resource is wrong when that one starts.
//! It is written soon, and nothing waits for it: without it the resource is only not kept. A disk
//! that has no room for it holds up nothing else. A config with secrets is not written.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crankcase_workers::Secrets;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::base::caught::caught;
use crate::base::error::BoxError;
use crate::base::text::chain;
use crate::declare::declaration::{Config, Declaration};
use crate::declare::earlier_config::EarlierConfig;
use crate::kind::secrets::redact_value;
use crate::state::{Document, DocumentError, Key, Loaded, Record, Records, Topic};
use crate::visit::opened::Opened;

/// Puts on record that a resource is good with the config that it has, unless that is on record,
/// has secrets, or nothing outlives the process.
pub(crate) fn note(opened: &Opened) {
    let (kind, context) = (&opened.prepared().kind, &opened.prepared().context);
    let facilities = context.facilities();
    if facilities.are_lasting() {
        let about = (opened.name(), kind.name());
        let open = |config: &EarlierConfig| {
            // Also one that is too short to be found in texts.
            let is_secret = caught(|| kind.has_secrets(opened.name(), &config.config));
            !is_secret.unwrap_or(true) && !has_secrets(config, facilities.secrets())
        };
        let config = || Some(opened.config_and_hidden()).filter(open);
        note_as(facilities.records(), about, config, opened.last_good());
    }
}

/// Returns whether secrets are found in a config, or what follows from them.
fn has_secrets(EarlierConfig { config, hidden }: &EarlierConfig, secrets: &Secrets) -> bool {
    let config = Value::Object(config.clone());
    let mut shown = config.clone();
    redact_value(&mut shown, secrets);
    !hidden.is_empty() || shown != config
}

/// Puts on record that a resource is good with a config; if there is no config, takes the old one
/// off the record. `made` keeps the key, so that later calls need not make the config again.
fn note_as(
    records: &Records,
    (name, kind): (&str, &str),
    config: impl FnOnce() -> Option<EarlierConfig>,
    made: &OnceLock<Option<Key>>,
) {
    let is_on_record = |key: &Key| records.look(|loaded| loaded.documents.contains(key));
    if made.get().is_some_and(|key| key.as_ref().is_none_or(is_on_record)) {
        return;
    }
    let Some(config) = config() else {
        let forgotten = records.look(|loaded| forget(loaded, name));
        if !forgotten.is_empty() {
            records.push(forgotten);
        }
        let _first = made.set(None);
        return;
    };
    let (key, document) = match written(name, kind, &config) {
        Ok(written) => written,
        Err(error) => {
            let error = chain(&error);
            tracing::warn!(resource = name, error, "cannot note how a resource is kept");
            return;
        }
    };
    // More than one is on record if a write has failed and was made nevertheless.
    let (on_record, others) = records.look(|loaded| {
        let others = keys(loaded, name).filter(|other| **other != key).cloned();
        (loaded.documents.get(&key).cloned(), others.collect::<Vec<_>>())
    });
    // The key that is on record is shared: it takes memory once.
    let _first = made.set(Some(on_record.clone().unwrap_or_else(|| key.clone())));
    let stored = on_record.is_none().then_some(Record::Stored { key, document });
    if stored.is_some() || !others.is_empty() {
        let removed = others.into_iter().map(|key| Record::Removed { key });
        records.push(removed.chain(stored));
    }
}

/// Returns the document with a config, and its key.
fn written(
    name: &str,
    kind: &str,
    EarlierConfig { config, .. }: &EarlierConfig,
) -> Result<(Key, Document), DocumentError> {
    let document = Document::of(&(kind, config))?;
    let digest = base16ct::lower::encode_string(&Sha256::digest(document.as_str()));
    Ok((Key::new(Topic::LastGood, format!("{name}\n{digest}")), document))
}

/// Returns the config with which a resource was good last, if that is on record.
pub(crate) async fn read(records: &Records, declaration: &Declaration) -> Option<EarlierConfig> {
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
    let last = last.filter(|(last, _)| last == kind);
    last.map(|(_, config)| EarlierConfig { config, hidden: BTreeSet::new() })
}

/// Returns the records that forget how a resource was kept.
pub(crate) fn forget(loaded: &Loaded, resource: &str) -> Vec<Record> {
    keys(loaded, resource).map(|key| Record::Removed { key: key.clone() }).collect()
}

/// Returns the keys of a resource. There is at most one, unless a write has failed.
pub(crate) fn keys<'a>(
    loaded: &'a Loaded,
    resource: &str,
) -> impl Iterator<Item = &'a Key> + use<'a> {
    let first = Key::new(Topic::LastGood, format!("{resource}\n"));
    let (topic, name) = (first.topic, first.name.clone());
    let from = loaded.documents.range(first..);
    let begin_so = from.take_while({
        let name = name.clone();
        move |key| key.topic == topic && key.name.starts_with(&*name)
    });
    // Those of a resource whose name goes on after a line break begin so too.
    begin_so.filter(move |key| !key.name[name.len()..].contains('\n'))
}

#[cfg(test)]
mod tests;
