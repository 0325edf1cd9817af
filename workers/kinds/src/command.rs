//! The parts that `exec` and `process` share: a command as a manifest writes it, and how it is run.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crankcase_resources::dynamic::{cut, nearest, path_name, shown};
use crankcase_resources::{AbsPath, Claim, Claimed, Field, PATH, Params, Partial, Type, Wrong};
use crankcase_workers::{Limit, ProcessConfig};
use serde_json::Value;

pub(crate) mod ended;

/// The longest grace of a command. Under `run` a resource has a little more than that to end.
const MAX_GRACE: Duration = Duration::from_secs(5 * 60);

/// How many files the words of a command may name: a line for a shell may be a long script.
const MOST_NAMED: usize = 10_000;

/// How a command runs: its folder, environment, user, group, umask and limits.
#[derive(Debug, Clone, PartialEq, Params)]
pub struct Setting {
    /// the folder to run in; / by default
    pub cwd: Option<AbsPath>,
    /// environment variables to add to PATH, HOME and LANG, or to replace them
    #[param(default = {})]
    pub env: Environment,
    /// the user to run as; the agent's own by default
    pub user: Option<Account>,
    /// the group to run as; the user's main one by default
    pub group: Option<Account>,
    /// the mode bits that new files lack, in octal; the agent's by default
    pub umask: Option<Umask>,
    /// limits by name, each a number or `unlimited`; the agent's by default
    #[param(default = {})]
    pub limits: Limits,
}

impl Setting {
    /// Returns how a command is run there.
    pub(super) fn process(&self, name: &str, argv: &[String]) -> ProcessConfig {
        let mut process = ProcessConfig::new(name, argv.iter().map(Into::into).collect());
        process.environment.extend(self.env.variables());
        process.user = self.user.clone().map(|user| user.0);
        process.group = self.group.clone().map(|group| group.0);
        process.umask = self.umask.map(|umask| umask.0);
        process.limits.clone_from(&self.limits.0);
        if let Some(folder) = &self.cwd {
            process.folder = folder.as_ref().to_owned();
        }
        process
    }
}

/// The program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argv(pub Vec<String>);

impl Argv {
    /// Reads a list of words; `help` is what to write in place of a line.
    fn read(value: &Value, help: &str) -> Result<Self, Wrong> {
        if value.is_string() {
            let line = shown(value);
            return Err(format!("{line} is a line for a shell; write a list as {help}").into());
        }
        let argv = Vec::<String>::take(value)?;
        if argv.first().is_none_or(String::is_empty) {
            return Err("names no program".to_owned().into());
        }
        refuse_nul(&argv.concat())?;
        Ok(Self(argv))
    }
}

impl Field for Argv {
    const EXPOSED: bool = true;

    fn ty() -> Type {
        Type::list(Type::Text)
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        Self::read(value, "[\"sh\", \"-c\", \"the line\"]")
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}

/// A list of words, or a line for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// The program and its arguments.
    Argv(Argv),
    /// A line for `/bin/sh`.
    Line(String),
}

impl Command {
    /// Returns what is wrong with it if lines are for a shell, or not.
    pub(super) fn amiss(&self, is_shell: bool) -> Option<String> {
        let value = self.give();
        let read = match self {
            Self::Argv(_) if is_shell => String::take(&value).map(drop),
            Self::Line(_) if !is_shell => {
                Argv::read(&value, "[\"program\", \"argument\"], or set shell: true").map(drop)
            }
            _ => return None,
        };
        read.err().map(|wrong| wrong.message)
    }

    /// Returns the program and its arguments; of a line, the shell's.
    pub(super) fn argv(&self, shell: &str) -> Vec<String> {
        match self {
            Self::Argv(argv) => argv.0.clone(),
            Self::Line(line) => vec![shell.to_owned(), "-c".to_owned(), line.clone()],
        }
    }

    /// Returns the words as they were written.
    pub(super) fn words(&self) -> Vec<String> {
        match self {
            Self::Argv(argv) => argv.0.clone(),
            Self::Line(line) => vec![line.clone()],
        }
    }
}

impl Field for Command {
    const EXPOSED: bool = true;

    fn ty() -> Type {
        Type::Either { of: vec![Argv::ty(), Type::Text] }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let Value::String(line) = value else { return Argv::take(value).map(Self::Argv) };
        refuse_nul(line)?;
        Ok(Self::Line(line.clone()))
    }

    fn give(&self) -> Value {
        match self {
            Self::Argv(argv) => argv.give(),
            Self::Line(line) => line.give(),
        }
    }
}

/// Refuses what no path and no argument of a program can hold.
fn refuse_nul(text: &str) -> Result<(), Wrong> {
    if text.contains('\0') {
        return Err("contains a NUL character".to_owned().into());
    }
    Ok(())
}

/// Returns what commands need, as far as it is known: their folder, user and group, their programs, and each file that
/// one of their words names. They may make any file. A command without words needs nothing.
pub(super) fn claims(commands: &[Partial<Vec<String>>], setting: &SettingPartial) -> Claimed {
    let SettingPartial { cwd, env, user, group, .. } = setting;
    let mut claimed = Claimed::default();
    claimed.may_make_any = true;
    let unknown = [cwd.is_unknown(), env.is_unknown(), user.is_unknown(), group.is_unknown()];
    claimed.is_open = unknown.contains(&true) || commands.iter().any(Partial::is_unknown);
    let given = cwd.as_given().and_then(Option::as_ref).map(AbsPath::as_ref);
    let folder = if cwd.is_unknown() { None } else { Some(given.unwrap_or(Path::new("/"))) };
    // First, as it says best why the command comes after those that make it.
    let mut paths: Vec<_> = given.map(Path::to_owned).into_iter().collect();
    for words in commands.iter().filter_map(Partial::as_given).filter(|words| !words.is_empty()) {
        paths.extend(named(words, folder, given.is_some()).take(MOST_NAMED));
        if let (Some(folder), Partial::Given(env)) = (folder, env) {
            let mut process = ProcessConfig::new("", words.iter().map(Into::into).collect());
            process.environment = env.variables().collect();
            paths.extend(process.folder(folder.to_owned()).programs());
        }
    }
    let paths = paths.iter().filter_map(|path| Some((PATH, path_name(path)?)));
    let accounts = [("user", user), ("group", group)]
        .into_iter()
        .filter_map(|(space, account)| Some((space, account.as_given()?.as_ref()?.0.clone())));
    let mut seen = HashSet::new();
    let needs = paths.chain(accounts).filter(|need| seen.insert(need.clone()));
    claimed.claims.extend(needs.map(|(space, name)| Claim::needs(space, name)));
    claimed
}

/// Returns the paths that words name, as a whole or in part: a word may be a line for a shell, or an option with
/// a path behind a `=`. A word without a slash names a file only if a folder to run in is given.
fn named(words: &[String], folder: Option<&Path>, is_given: bool) -> impl Iterator<Item = PathBuf> {
    let words = words.iter().map(String::as_str);
    let words = words.flat_map(|word| [word].into_iter().chain(word.split(is_between)));
    let named = words.filter(move |word| {
        !word.is_empty() && !word.starts_with('-') && (is_given || word.contains('/'))
    });
    named.filter_map(move |word| match folder {
        None => word.starts_with('/').then(|| word.into()),
        Some(folder) => Some(folder.join(word)),
    })
}

/// Returns whether a character stands between the words of a line for a shell, or before the value of an option.
fn is_between(character: char) -> bool {
    character.is_whitespace() || "'\"`;&|<>()=".contains(character)
}

/// Variables by name.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment(pub BTreeMap<String, String>);

/// Shows the names, and no values.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    fn variables(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.0.iter().map(|(name, value)| (name.into(), value.into()))
    }
}

impl Field for Environment {
    fn ty() -> Type {
        Type::map(Type::Text)
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        if !value.is_object() {
            return Err(format!("{} is not a map from names to texts", shown(value)).into());
        }
        let env = BTreeMap::<String, String>::take(value)?;
        for (name, value) in &env {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(format!("{name:?} cannot be a variable with this value").into());
            }
        }
        Ok(Self(env))
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}

/// A user or a group, by name or id. Whether there is one shows when the command starts: another
/// resource may make it before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account(pub String);

impl Field for Account {
    fn ty() -> Type {
        Type::Either { of: vec![Type::Text, Type::Int { min: 0, max: i64::from(u32::MAX) - 1 }] }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let is_id = |id: u64| u32::try_from(id).is_ok_and(|id| id != u32::MAX);
        let account = match value {
            Value::Number(number) => {
                number.as_u64().filter(|id| is_id(*id)).map(|id| id.to_string())
            }
            Value::String(text) => {
                let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
                let is_right = !is_number || text.parse().is_ok_and(is_id);
                (is_right && !text.contains('\0')).then(|| text.clone())
            }
            _ => None,
        };
        let wrong = || format!("{} is neither a name nor an id", shown(value)).into();
        account.map(Self).ok_or_else(wrong)
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}

/// The mode bits that new files lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Umask(pub u32);

impl Field for Umask {
    fn ty() -> Type {
        Type::Mode
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let digits = value.as_str().filter(|text| (3..=4).contains(&text.len()));
        let octal = digits.filter(|text| text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)));
        let umask = octal.and_then(|text| u32::from_str_radix(text, 8).ok());
        umask.filter(|umask| *umask <= 0o777).map(Self).ok_or_else(|| {
            format!("{} is not a umask; write one in octal, as \"022\"", shown(value)).into()
        })
    }

    fn give(&self) -> Value {
        format!("{:03o}", self.0).into()
    }
}

/// Limits by name; `None` is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits(pub BTreeMap<Limit, Option<u64>>);

impl Field for Limits {
    fn ty() -> Type {
        let bound = vec![Type::Int { min: 0, max: i64::MAX }, Type::choice(&["unlimited"])];
        Type::map(Type::Either { of: bound })
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let wrong = || format!("{} is not a map from names to numbers", shown(value));
        let map = value.as_object().ok_or_else(wrong)?;
        let limits = map.iter().map(|(name, value)| {
            let limit = Limit::named(name).ok_or_else(|| unknown_limit(name))?;
            let bound = match value {
                Value::String(text) if text == "unlimited" => None,
                value => Some(value.as_u64().ok_or_else(|| {
                    format!("{} of {name} is no number, nor \"unlimited\"", shown(value))
                })?),
            };
            Ok((limit, bound))
        });
        limits.collect::<Result<_, String>>().map(Self).map_err(Into::into)
    }

    fn give(&self) -> Value {
        let bound = |bound: &Option<u64>| bound.map_or("unlimited".into(), Value::from);
        self.0.iter().map(|(limit, it)| (limit.name().to_owned(), bound(it))).collect()
    }
}

fn unknown_limit(name: &str) -> String {
    let names = Limit::ALL.map(Limit::name);
    let hint = nearest(name, names.iter().copied()).map_or_else(
        || format!("there are {}", names.join(", ")),
        |nearest| format!("did you mean \"{nearest}\"?"),
    );
    format!("there is no limit \"{}\"; {hint}", cut(name))
}

/// How long a command may take to end, at most 5 minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace(pub Duration);

impl Field for Grace {
    fn ty() -> Type {
        Type::Duration
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let grace = Duration::take(value)?;
        if grace > MAX_GRACE {
            let most = humantime::format_duration(MAX_GRACE);
            return Err(format!("{} is too long; it is at most {most}", shown(value)).into());
        }
        Ok(Self(grace))
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}
