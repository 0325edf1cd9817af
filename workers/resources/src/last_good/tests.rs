//! Last good configs on record.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::json;

use super::{forget, note_as, read};
use crate::declaration::{Config, Declaration};
use crate::earlier_config::EarlierConfig;
use crate::literal::Literal;
use crate::state::Records;

fn declare(name: &str, kind: &str) -> Declaration {
    Literal::new(Config::new()).declare(Path::new("/srv"), name, kind)
}

fn config(content: &str) -> EarlierConfig {
    let config = [("content".to_owned(), json!(content))].into_iter().collect();
    EarlierConfig { config, hidden: BTreeSet::new() }
}

fn note(records: &Records, name: &str, config: &EarlierConfig) {
    note_as(records, (name, "file"), || config.clone(), &OnceLock::new());
}

fn documents(records: &Records) -> usize {
    records.look(|loaded| loaded.documents.len())
}

#[tokio::test]
async fn the_last_config_of_a_resource_is_on_record_until_it_is_forgotten() {
    let records = Records::default();

    for content in ["one", "two", "two"] {
        note(&records, "page", &config(content));
        note(&records, "pages", &config("other"));
    }

    assert_eq!(documents(&records), 2);
    assert_eq!(read(&records, &declare("page", "file")).await, Some(config("two")));
    assert_eq!(read(&records, &declare("page", "exec")).await, None);
    records.push(records.look(|loaded| forget(loaded, "page")));
    assert_eq!(read(&records, &declare("page", "file")).await, None);
    assert_eq!(read(&records, &declare("pages", "file")).await, Some(config("other")));
}

#[tokio::test]
async fn what_is_secret_in_a_config_is_on_record_with_it() {
    let records = Records::default();
    let secret = EarlierConfig { hidden: ["content".to_owned()].into(), ..config("one") };

    note(&records, "page", &config("one"));
    note(&records, "page", &secret);

    assert_eq!(read(&records, &declare("page", "file")).await, Some(secret));
}

#[test]
fn a_config_that_is_on_record_is_not_written_again_and_its_key_is_made_once() {
    let records = Records::default();
    let key = OnceLock::new();
    note_as(&records, ("page", "file"), || config("one"), &key);
    let before = records.push([]);

    note_as(&records, ("page", "file"), || panic!("nobody needs the config"), &key);
    note(&records, "page", &config("one"));

    assert_eq!(records.push([]), before);
}

#[tokio::test]
async fn the_names_of_resources_may_have_line_breaks() {
    let records = Records::default();

    note(&records, "page\nof", &config("other"));
    note(&records, "page", &config("one"));

    assert_eq!(read(&records, &declare("page", "file")).await, Some(config("one")));
    records.push(records.look(|loaded| forget(loaded, "page")));
    assert_eq!(read(&records, &declare("page", "file")).await, None);
    assert_eq!(read(&records, &declare("page\nof", "file")).await, Some(config("other")));
}
