use std::path::PathBuf;

use crankcase_resources::{
    AttributeError, Choice, Claim, Claimed, Field, FileRead, KnownConfig, Mode, PATH, Params,
    Rules, Type, Wrong, shown,
};
use crankcase_workers::EntryPath;
use serde_json::Value;

use crate::file::content::ContentFrom;

/// The config of the `file` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct FileConfig {
    /// where it is; a path that ends in / is a folder
    pub(super) path: EntryPath,
    /// the file's text
    content: Option<String>,
    /// a file to copy, relative to the manifest
    source: Option<String>,
    /// a file to render, relative to the manifest
    template: Option<String>,
    /// the permissions in octal and quoted, such as "0644"; left as they are if not given, and of a
    /// new file 0644, of a new folder 0755
    pub(super) mode: Option<Mode>,
    /// the name or number of the owning user; left as it is if not given
    pub(super) owner: Option<Principal>,
    /// the name or number of the owning group; left as it is if not given
    pub(super) group: Option<Principal>,
    /// whether it is to be there
    #[param(default = "exists")]
    pub(super) state: Presence,
}

/// The state of the `file` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub(super) struct FileState {
    /// where it is; a folder ends in /
    #[param(declared)]
    path: EntryPath,
    /// whether it is there
    state: Presence,
    /// the permissions in octal, if it is there
    mode: Option<Mode>,
    /// the name of the owning user, or its number if it has none
    owner: Option<String>,
    /// the name of the owning group, or its number if it has none
    group: Option<String>,
    /// the size of a file
    #[param(unit = "bytes")]
    size: Option<u64>,
    /// the SHA-256 of a file's content, in hexadecimal; null if it may not be read
    sha256: Option<String>,
}

/// Whether something is to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub(super) enum Presence {
    Exists,
    Absent,
}

/// A user or group as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Principal {
    Id(u32),
    Name(String),
}

impl Field for Principal {
    fn ty() -> Type {
        Type::Either { of: vec![Type::Text, Type::Int { min: 0, max: i64::from(u32::MAX) - 1 }] }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX).map(Principal::Id);
        let principal = match value {
            Value::Number(number) => number.as_u64().and_then(id),
            Value::String(text) if !text.is_empty() && !text.contains('\0') => {
                match text.parse::<u64>() {
                    Ok(number) => id(number),
                    Err(_) => Some(Self::Name(text.clone())),
                }
            }
            _ => None,
        };
        let wrong = || format!("{} is neither a name nor an id", shown(value)).into();
        principal.ok_or_else(wrong)
    }

    fn give(&self) -> Value {
        match self {
            Self::Id(id) => (*id).into(),
            Self::Name(name) => name.give(),
        }
    }
}

impl Rules for FileConfig {
    fn rules(half: &mut FileConfigHalf, errors: &mut Vec<AttributeError>) {
        let contents =
            [("content", &half.content), ("source", &half.source), ("template", &half.template)];
        let given = contents.map(|(name, half)| half.as_given()?.as_ref().map(|_| name));
        let given: Vec<&str> = given.into_iter().flatten().collect();
        if let [_, second, ..] = given[..] {
            let message = format!("only one of {} can be given", given.join(", "));
            errors.push(AttributeError::new(second, message));
        }
        let is_folder = half.path.as_given().is_some_and(|path| path.is_folder);
        if let Some(first) = given.first().filter(|_| is_folder) {
            let message = "a folder has none; take the / from the end of the path for a file";
            errors.push(AttributeError::new(first, message.to_owned()));
        }
    }
}

impl FileConfig {
    /// Returns where the content comes from, if one is declared.
    pub(super) fn content(&self) -> Option<ContentFrom> {
        let Self { content, source, template, .. } = self;
        let text = content.clone().map(ContentFrom::Text);
        let source = source.as_ref().map(|path| ContentFrom::Source(path.into()));
        let template = template.as_ref().map(|path| ContentFrom::Template(path.into()));
        text.or(source).or(template)
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
