//! What `exec` and `process` share: a command as a manifest writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crankcase_resources::{Attributes, Claim, Claimed, KnownConfig, PATH, cut, nearest, shown};
use crankcase_workers::{Limit, ProcessConfig};
use serde_json::Value;

/// Where, with what environment, as whom and within which bounds a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) user: Option<String>,
    pub(super) group: Option<String>,
    pub(super) umask: Option<u32>,
    pub(super) limits: BTreeMap<Limit, Option<u64>>,
}

impl Place {
    /// Returns how a command is run there.
    pub(super) fn process(&self, name: &str, argv: &[String]) -> ProcessConfig {
        let environment = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        let mut process = ProcessConfig::new(name, argv.iter().map(Into::into).collect());
        process.environment.extend(environment);
        process.user.clone_from(&self.user);
        process.group.clone_from(&self.group);
        process.umask = self.umask;
        process.limits.clone_from(&self.limits);
        if let Some(folder) = &self.cwd {
            process.folder.clone_from(folder);
        }
        process
    }
}

/// Whether a command is a line for a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shell {
    /// The kind has no lines.
    Never,
    /// The kind has lines, and they are not asked for.
    Off,
    /// It is a line for this shell.
    On(&'static str),
}

/// Reads an argument vector, or a line for the shell.
pub(super) fn command(
    attributes: &mut Attributes<'_>,
    name: &str,
    shell: Shell,
) -> Option<Vec<String>> {
    let value = attributes.value(name)?;
    if let Shell::On(shell) = shell {
        let line = attributes.text(name)?.to_owned();
        refuse_nul(attributes, name, &line);
        return Some(vec![shell.to_owned(), "-c".to_owned(), line]);
    }
    if value.is_string() {
        let line = shown(value);
        let help = match shell {
            Shell::Never => "[\"sh\", \"-c\", \"the line\"]".to_owned(),
            _ => "[\"program\", \"argument\"], or set shell: true".to_owned(),
        };
        let message = format!("{line} is a line for a shell; write a list as {help}");
        attributes.wrong(name, message);
        return None;
    }
    let argv = attributes.texts(name)?;
    if argv.first().is_none_or(String::is_empty) {
        attributes.wrong(name, "names no program".to_owned());
    } else {
        refuse_nul(attributes, name, &argv.concat());
    }
    Some(argv)
}

/// Refuses what no path and no argument of a program can hold.
fn refuse_nul(attributes: &mut Attributes<'_>, name: &str, text: &str) {
    if text.contains('\0') {
        attributes.wrong(name, "contains a NUL character".to_owned());
    }
}

/// Returns what a command needs as far as it is known: the folder that it runs in, and each file that
/// one of its words names by an absolute path, its program among them. It may make any file.
pub(super) fn claims(known: &KnownConfig<'_>) -> Claimed {
    let words = known.config.get("command").and_then(|command| command.as_array());
    let words = words.into_iter().flatten().filter_map(|word| word.as_str());
    let paths = words.chain(known.text("cwd")).filter_map(|path| {
        let path = path.trim_end_matches('/');
        (path.starts_with('/') && !path.contains('\0')).then(|| Claim::needs(PATH, path))
    });
    let mut claimed = Claimed::of(paths.collect());
    claimed.is_open = ["command", "cwd"].iter().any(|attribute| !known.is_known(attribute));
    claimed.may_make_any = true;
    claimed
}

/// Reads `cwd`, `env`, `user`, `group`, `umask` and `limits`.
pub(super) fn place(attributes: &mut Attributes<'_>) -> Place {
    let cwd = absolute(attributes, "cwd");
    let env = attributes.text_map("env").unwrap_or_default();
    for (name, value) in &env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            attributes.wrong("env", format!("{name:?} cannot be a variable with this value"));
        }
    }
    let (user, group) = (account(attributes, "user"), account(attributes, "group"));
    let (umask, limits) = (umask(attributes), limits(attributes));
    Place { cwd, env, user, group, umask, limits }
}

/// Reads a user or a group, by name or id. Whether there is one shows when the command starts:
/// another resource may make it before.
fn account(attributes: &mut Attributes<'_>, name: &str) -> Option<String> {
    let value = attributes.value(name)?;
    let is_id = |id: u64| u32::try_from(id).is_ok_and(|id| id != u32::MAX);
    let account = match value {
        Value::Number(number) => number.as_u64().filter(|id| is_id(*id)).map(|id| id.to_string()),
        Value::String(text) => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let is_right = !is_number || text.parse().is_ok_and(is_id);
            (is_right && !text.contains('\0')).then(|| text.clone())
        }
        _ => None,
    };
    if account.is_none() {
        attributes.wrong(name, format!("{} is neither a name nor an id", shown(value)));
    }
    account
}

fn umask(attributes: &mut Attributes<'_>) -> Option<u32> {
    let value = attributes.value("umask")?;
    let digits = value.as_str().filter(|text| (3..=4).contains(&text.len()));
    let umask = digits.filter(|text| text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)));
    let umask = umask.and_then(|text| u32::from_str_radix(text, 8).ok());
    let umask = umask.filter(|umask| *umask <= 0o777);
    if umask.is_none() {
        let message = format!("{} is not a umask; write one in octal, as \"022\"", shown(value));
        attributes.wrong("umask", message);
    }
    umask
}

fn limits(attributes: &mut Attributes<'_>) -> BTreeMap<Limit, Option<u64>> {
    let mut limits = BTreeMap::new();
    let Some(value) = attributes.value("limits") else { return limits };
    let Some(map) = value.as_object() else {
        attributes.wrong("limits", format!("{} is not a map from names to numbers", shown(value)));
        return limits;
    };
    for (name, value) in map {
        let bound = match value {
            Value::String(text) if text == "unlimited" => Some(None),
            value => value.as_u64().map(Some),
        };
        match (Limit::named(name), bound) {
            (Some(limit), Some(bound)) => {
                limits.insert(limit, bound);
            }
            (None, _) => attributes.wrong("limits", unknown_limit(name)),
            (_, None) => {
                let message = format!("{} of {name} is no number, nor \"unlimited\"", shown(value));
                attributes.wrong("limits", message);
            }
        }
    }
    limits
}

fn unknown_limit(name: &str) -> String {
    let names = Limit::ALL.map(Limit::name);
    let hint = nearest(name, names.iter().copied()).map_or_else(
        || format!("there are {}", names.join(", ")),
        |nearest| format!("did you mean \"{nearest}\"?"),
    );
    format!("there is no limit \"{}\"; {hint}", cut(name))
}

/// Reads an absolute path.
pub(super) fn absolute(attributes: &mut Attributes<'_>, name: &str) -> Option<PathBuf> {
    let text = attributes.text(name)?;
    let path = Path::new(text);
    if !path.is_absolute() {
        attributes.wrong(name, format!("{path:?} is not absolute; begin it with /"));
    }
    refuse_nul(attributes, name, text);
    Some(path.to_owned())
}
