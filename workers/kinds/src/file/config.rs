//! The config and the state of the kind `file`, and what is judged before anything is looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_resources::dynamic::{FileRead, shown};
use crankcase_resources::{
    AttributeError, Choice, Claim, Claimed, Context, Field, Mode, PATH, Params, Partial, Type,
    Wrong,
};
use crankcase_workers::EntryPath;
use serde_json::Value;

use crate::command::Argv;
use crate::file::content::{ContentFrom, Empty};
use crate::file::validation;

/// keeps a file with its content, or a folder, with mode, owner and group
///
/// A file is written under a temporary name in its folder, with its final owner and mode, synced,
/// and renamed; so it is the old or the new one at every instant. Only a file that cannot be replaced is
/// written in place. Attributes that are not given are left as they are; a new file gets mode 0644, a new
/// folder 0755.
///
/// The path is followed through symlinks only where nobody but root and the agent's user could
/// have put them, and a target that is a symlink, a device or the like is never touched. An absent
/// folder is removed only when it is empty.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct File {
    /// where it is; a path that ends in / is a folder
    pub path: EntryPath,
    /// the file's text
    pub content: Option<Arc<str>>,
    /// a file to copy, relative to the manifest
    pub source: Option<String>,
    /// a file to render, relative to the manifest
    pub template: Option<String>,
    /// whether source or template may be an empty file; a tool that writes it leaves it empty for a moment
    #[param(default = false)]
    pub allow_empty: bool,
    /// the permissions in octal and quoted, such as "0644"; left as they are if not given, and of a
    /// new file 0644, of a new folder 0755
    pub mode: Option<Mode>,
    /// the name or number of the owning user; left as it is if not given
    pub owner: Option<Principal>,
    /// the name or number of the owning group; left as it is if not given
    pub group: Option<Principal>,
    /// whether it is to be there
    #[param(default = "exists")]
    pub state: Presence,
    /// whether a change of the content is shown line by line; by default only if others may read the file before and
    /// after the change, and any source or template is in the manifest's folder
    pub diff: Option<bool>,
    /// whether new content is written into the existing file: auto does so if the file cannot be replaced by a new one,
    /// because it is a mount point or its folder cannot be written to
    #[param(default = "auto")]
    pub in_place: InPlace,
    /// a command, as a list, that is run before what is there is changed or removed: it stops a
    /// program that must not see the change
    pub stop_first: Option<Argv>,
    /// a command that judges new content before it takes the place of the old one: %s in its arguments is the path of
    /// the new file, and an exit code other than 0 refuses it
    pub validate: Option<Argv>,
    /// how long validate may take
    #[param(default = "30s")]
    pub validate_timeout: Duration,
}

/// The state of the `file` kind.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct FileState {
    /// where it is; a folder ends in /
    #[param(declared)]
    pub path: EntryPath,
    /// whether it is there
    pub state: Presence,
    /// the permissions in octal, if it is there
    pub mode: Option<Mode>,
    /// the name of the owning user, or its number if it has none
    pub owner: Option<String>,
    /// the name of the owning group, or its number if it has none
    pub group: Option<String>,
    /// the size of a file
    #[param(unit = "bytes")]
    pub size: Option<u64>,
    /// the SHA-256 of a file's content, in hexadecimal; null if it may not be read
    pub sha256: Option<String>,
}

impl FileStatePartial {
    /// Returns a state with this path and presence. The other attributes are unknown.
    pub(super) fn new(path: &EntryPath, state: Presence) -> Self {
        Self {
            path: Partial::Given(path.clone()),
            state: Partial::Given(state),
            mode: Partial::Unknown,
            owner: Partial::Unknown,
            group: Partial::Unknown,
            size: Partial::Unknown,
            sha256: Partial::Unknown,
        }
    }
}

/// Whether something is to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Choice)]
pub enum Presence {
    /// It is to be there.
    Exists,
    /// It is to be gone.
    Absent,
}

/// Whether new content is written into the existing file, or into a new file that takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InPlace {
    /// Only if no new file can take its place.
    Auto,
    /// In any case.
    Always,
    /// Never.
    Never,
}

const AUTO: &str = "auto";

impl Field for InPlace {
    fn ty() -> Type {
        Type::Either { of: vec![Type::choice(&[AUTO]), Type::Flag] }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        match value {
            Value::Bool(true) => Ok(Self::Always),
            Value::Bool(false) => Ok(Self::Never),
            Value::String(text) if text == AUTO => Ok(Self::Auto),
            value => Err(format!("{} is neither true, false nor \"{AUTO}\"", shown(value)).into()),
        }
    }

    fn give(&self) -> Value {
        match self {
            Self::Auto => AUTO.into(),
            Self::Always => true.into(),
            Self::Never => false.into(),
        }
    }
}

/// A user or group as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Principal {
    /// By its number.
    Id(u32),
    /// By its name.
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

impl File {
    /// Returns whether what is in a file is replaced, or goes with it.
    pub(super) fn replaces(&self) -> bool {
        self.state == Presence::Absent || self.content().is_some()
    }

    /// Returns whether changes of the content are shown, if that does not depend on who may read the file.
    pub(super) fn is_shown(&self, context: &Context) -> Option<bool> {
        let source = self.content().and_then(|content| content.path(context));
        let is_outside = source.is_some_and(|path| is_outside(&path, context.folder()));
        self.diff.or(is_outside.then_some(false))
    }

    /// Returns whether an empty source or template is taken as content.
    pub(super) fn empty(&self) -> Empty {
        if self.allow_empty { Empty::Allowed } else { Empty::Refused }
    }

    /// Returns where the content comes from, if one is declared.
    pub(super) fn content(&self) -> Option<ContentFrom> {
        let Self { content, source, template, .. } = self;
        let text = content.clone().map(ContentFrom::Text);
        let source = source.as_ref().map(|path| ContentFrom::Source(path.into()));
        let template = template.as_ref().map(|path| ContentFrom::Template(path.into()));
        text.or(source).or(template)
    }
}

/// Returns whether a file is not in a folder, wherever symlinks lead. One that is not there is outside.
pub(super) fn is_outside(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => !path.starts_with(folder),
        _ => true,
    }
}

impl FilePartial {
    /// Returns whether a content is or may be declared.
    fn may_have_content(&self) -> bool {
        may_be_given(&self.content) || may_be_given(&self.source) || may_be_given(&self.template)
    }

    /// Judges where the content comes from.
    pub(super) fn judge(&self, errors: &mut Vec<AttributeError>) {
        let contents = [
            ("content", is_given(&self.content)),
            ("source", is_given(&self.source)),
            ("template", is_given(&self.template)),
        ];
        let given: Vec<_> = contents.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if let [_, second, ..] = given[..] {
            let message = format!("only one of {} can be given", given.join(", "));
            errors.push(AttributeError::new(second, message));
        }
        let is_folder = self.path.as_given().is_some_and(|path| path.is_folder);
        if let Some(first) = given.first().filter(|_| is_folder) {
            let message = "a folder has none; take the / from the end of the path for a file";
            errors.push(AttributeError::new(first, message.to_owned()));
        }
        if is_folder && is_given(&self.diff) {
            let message = "a folder has no content that could be shown".to_owned();
            errors.push(AttributeError::new("diff", message));
        }
        self.judge_validation(errors);
    }

    /// Judges the command that validates new content. Each error depends on its own attributes alone, so that it is
    /// the same while others are unknown.
    fn judge_validation(&self, errors: &mut Vec<AttributeError>) {
        let Partial::Given(Some(argv)) = &self.validate else { return };
        let is_folder = self.path.as_given().map(|path| path.is_folder);
        let is_file = is_folder == Some(false);
        let is_absent = matches!(self.state, Partial::Given(Presence::Absent));
        let is_present = matches!(self.state, Partial::Given(Presence::Exists));
        let is_in_place = matches!(self.in_place, Partial::Given(InPlace::Always));
        let wrong = [
            (is_folder == Some(true), "a folder has no content that could be validated"),
            (is_absent, "what is absent has no content that could be validated"),
            (
                is_file && is_present && !self.may_have_content(),
                "there is no content to validate; give content, source or template as well",
            ),
            (is_in_place, "with in_place: true there is no new file that could be validated"),
            (
                is_given(&self.stop_first),
                "stop_first would stop the program before it is known whether the content is valid; \
                 give only one of the two",
            ),
            (!validation::names_file(argv), validation::NAMES_NO_FILE),
        ];
        let wrong = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
        errors.extend(wrong.map(|(_, why)| AttributeError::new("validate", why.to_owned())));
    }

    /// Returns what the file keeps, needs and reads.
    pub(super) fn claims(&self) -> Claimed {
        let mut claimed = Claimed::default();
        let Self { path, content, source, template, owner, group, state, .. } = self;
        let Self { stop_first, validate, .. } = self;
        claimed.is_open = [path.is_unknown(), state.is_unknown(), content.is_unknown()]
            .into_iter()
            .chain([source.is_unknown(), template.is_unknown()])
            .chain([owner.is_unknown(), group.is_unknown(), validate.is_unknown()])
            .any(|is_unknown| is_unknown);
        claimed.may_make_any = path.is_unknown();
        claimed.renders_any = may_be_given(template);
        claimed.stops_first = may_be_given(stop_first);
        claimed.claims.extend(path.as_given().into_iter().flat_map(|path| self.path_claims(path)));
        for (principal, space) in [(owner, "user"), (group, "group")] {
            if let Partial::Given(Some(Principal::Name(name))) = principal {
                claimed.claims.push(Claim::needs(space, name));
            }
        }
        if let Partial::Given(Some(argv)) = validate {
            claimed.claims.extend(validation::claims(argv));
        }
        // The content of what is not to exist is not read.
        if !matches!(state, Partial::Given(Presence::Exists)) {
            return claimed;
        }
        for (attribute, path, is_template) in
            [("source", source, false), ("template", template, true)]
        {
            let path = path.as_given().and_then(Option::as_ref).map(PathBuf::from);
            claimed.reads.extend(path.map(|path| FileRead { attribute, path, is_template }));
        }
        claimed
    }

    /// Returns the claims on the path. Of a file without a content, no more is kept than its
    /// attributes: it comes after others that make it.
    fn path_claims(&self, path: &EntryPath) -> Vec<Claim> {
        let full = path.full().to_string_lossy().into_owned();
        let parent = path.parent.to_string_lossy().into_owned();
        let parent = (parent != "/").then(|| Claim::needs(PATH, parent));
        let kept = match self.state {
            Partial::Given(Presence::Absent) => vec![Claim::removes(PATH, full)],
            Partial::Unknown => Vec::new(),
            _ if path.is_folder || self.may_have_content() => vec![Claim::keeps(PATH, full)],
            _ => {
                let attributes = Claim::keeps(PATH, full.clone()).part("the attributes");
                vec![attributes, Claim::needs(PATH, full)]
            }
        };
        kept.into_iter().chain(parent).collect()
    }
}

fn is_given<T>(partial: &Partial<Option<T>>) -> bool {
    matches!(partial, Partial::Given(Some(_)))
}

fn may_be_given<T>(partial: &Partial<Option<T>>) -> bool {
    !matches!(partial, Partial::Given(None))
}
