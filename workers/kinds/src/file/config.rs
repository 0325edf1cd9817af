use std::path::PathBuf;

use crankcase_resources::{
    AttributeError, Attributes, Claim, Claimed, Config, FileRead, KnownConfig, PATH, Parameter,
    shown,
};
use crankcase_workers::EntryPath;
use serde_json::Value;

use crate::file::content::ContentFrom;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter { name: "path", summary: "absolute; one that ends in / is a folder; required" },
    Parameter { name: "content", summary: "the file's text" },
    Parameter { name: "source", summary: "a file to copy, relative to the manifest" },
    Parameter { name: "template", summary: "a file to render, relative to the manifest" },
    Parameter { name: "mode", summary: "the permissions in octal and quoted, such as \"0644\"" },
    Parameter { name: "owner", summary: "the name or number of the owning user" },
    Parameter { name: "group", summary: "the name or number of the owning group" },
    Parameter { name: "state", summary: "exists or absent; exists by default" },
];

/// A valid config of the `file` kind.
#[derive(Debug)]
pub(super) struct FileConfig {
    pub(super) path: EntryPath,
    pub(super) exists: bool,
    pub(super) content: Option<ContentFrom>,
    pub(super) mode: Option<u32>,
    pub(super) owner: Option<Principal>,
    pub(super) group: Option<Principal>,
}

/// A user or group as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principal {
    Id(u32),
    Name(String),
}

impl FileConfig {
    pub(super) fn new(config: &Config) -> Result<Self, Vec<AttributeError>> {
        let mut attributes = Attributes::new(config, PARAMETERS);
        let path = path(&mut attributes);
        let content = content(&mut attributes);
        let (mode, owner, group) = (
            mode(&mut attributes),
            principal(&mut attributes, "owner"),
            principal(&mut attributes, "group"),
        );
        let state = attributes.choice("state", &["exists", "absent"]).unwrap_or("exists");
        if let (Some(path), Some((attribute, _))) = (&path, &content)
            && path.is_folder
        {
            let message = "a folder has none; take the / from the end of the path for a file";
            attributes.wrong(attribute, message.to_owned());
        }
        let content = content.map(|(_, content)| content);
        let exists = state == "exists";
        attributes.finish(path.map(|path| Self { path, exists, content, mode, owner, group }))
    }
}

/// Returns what a config keeps, needs and reads.
pub(super) fn claims(known: &KnownConfig<'_>) -> Claimed {
    let mut claimed = Claimed::default();
    claimed.is_open = ["path", "state", "content", "source", "template"]
        .iter()
        .any(|attribute| !known.is_known(attribute));
    claimed.may_make_any = !known.is_known("path");
    claimed.renders_any = !known.is_known("template") || known.text("template").is_some();
    if let Some(path) = known.text("path").and_then(|path| EntryPath::parse(path).ok()) {
        claimed.claims = path_claims(known, &path);
    }
    for (attribute, space) in [("owner", "user"), ("group", "group")] {
        let name = known.text(attribute).filter(|name| name.parse::<u64>().is_err());
        claimed.claims.extend(name.map(|name| Claim::needs(space, name)));
    }
    // The content of what is not to exist is not read.
    if !known.is_known("state") || known.text("state") == Some("absent") {
        return claimed;
    }
    for (attribute, is_template) in [("source", false), ("template", true)] {
        let read = known.text(attribute).map(PathBuf::from);
        claimed.reads.extend(read.map(|path| FileRead { attribute, path, is_template }));
    }
    claimed
}

/// Returns the claims on the path. Of a file without a content, no more is kept than its attributes:
/// it comes after others that make it.
fn path_claims(known: &KnownConfig<'_>, path: &EntryPath) -> Vec<Claim> {
    let full = path.full().to_string_lossy().into_owned();
    let parent = path.parent.to_string_lossy().into_owned();
    let parent = (parent != "/").then(|| Claim::needs(PATH, parent));
    let is_given = |attribute: &&str| !known.is_known(attribute) || known.text(attribute).is_some();
    let has_content = ["content", "source", "template"].iter().any(is_given);
    let kept = match known.text("state") {
        Some("absent") => vec![Claim::removes(PATH, full)],
        _ if path.is_folder || has_content => vec![Claim::keeps(PATH, full)],
        _ => {
            vec![Claim::keeps(PATH, full.clone()).part("the attributes"), Claim::needs(PATH, full)]
        }
    };
    kept.into_iter().chain(parent).collect()
}

fn path(attributes: &mut Attributes<'_>) -> Option<EntryPath> {
    let path = EntryPath::parse(attributes.required_text("path")?);
    path.map_err(|err| attributes.wrong("path", err.to_string())).ok()
}

fn content(attributes: &mut Attributes<'_>) -> Option<(&'static str, ContentFrom)> {
    let content = attributes.text("content").map(|text| ContentFrom::Text(text.to_owned()));
    let source = attributes.text("source").map(|path| ContentFrom::Source(path.into()));
    let template = attributes.text("template").map(|path| ContentFrom::Template(path.into()));
    let given = [("content", content), ("source", source), ("template", template)];
    let mut given: Vec<_> =
        given.into_iter().filter_map(|(name, content)| Some((name, content?))).collect();
    if given.len() > 1 {
        let names: Vec<_> = given.iter().map(|(name, _)| *name).collect();
        let message = format!("only one of {} can be given", names.join(", "));
        attributes.wrong(given[1].0, message);
    }
    given.drain(..).next()
}

fn mode(attributes: &mut Attributes<'_>) -> Option<u32> {
    let value = attributes.value("mode")?;
    if let Value::Number(number) = value {
        let message = format!("{number} is a number; quote it and write it in octal, as \"0644\"");
        attributes.wrong("mode", message);
        return None;
    }
    let mode = value.as_str().filter(|text| {
        (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte))
    });
    let mode = mode.and_then(|text| u32::from_str_radix(text, 8).ok());
    if mode.is_none() {
        let message = format!("{} is not a mode; write three or four octal digits", shown(value));
        attributes.wrong("mode", message);
    }
    mode
}

fn principal(attributes: &mut Attributes<'_>, name: &str) -> Option<Principal> {
    let value = attributes.value(name)?;
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX).map(Principal::Id);
    let principal = match value {
        Value::Number(number) => number.as_u64().and_then(id),
        Value::String(text) if !text.is_empty() && !text.contains('\0') => {
            match text.parse::<u64>() {
                Ok(number) => id(number),
                Err(_) => Some(Principal::Name(text.clone())),
            }
        }
        _ => None,
    };
    if principal.is_none() {
        attributes.wrong(name, format!("{} is neither a name nor an id", shown(value)));
    }
    principal
}
