//! The Rust types that a parameter can have, and how each reads and writes JSON values.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crankcase_workers::EntryPath;
use serde_json::{Map, Value};

use crate::base::error::Wrong;
use crate::declare::params::ty::{self, Type};

/// What is shown in the place of a value that is shown to nobody.
pub(crate) const HIDDEN: &str = "(sensitive)";

/// A type that a parameter can have.
///
/// It is implemented for texts, flags, whole numbers, durations, lists, maps, options and JSON values;
/// for [`AbsPath`], [`EntryPath`], [`Mode`] and [`Secret`]; and by `#[derive(Choice)]` for an enum of words. A kind
/// implements it for types of its own.
pub trait Field: Sized + fmt::Debug + Clone + Send + Sync + 'static {
    /// Whether values of the type are shown to nobody.
    const SENSITIVE: bool = false;

    /// Whether other users of the machine see values of the type, as the words of a command.
    const EXPOSED: bool = false;

    /// Returns what its values may be.
    fn ty() -> Type;

    /// Reads a value; may normalise it.
    ///
    /// # Errors
    ///
    /// What is wrong with the value, and what would be right.
    fn take(value: &Value) -> Result<Self, Wrong>;

    /// Writes the value.
    fn give(&self) -> Value;

    /// Returns what a parameter is when it is not given; `None` if it must be.
    fn absent() -> Option<Self> {
        None
    }
}

impl Field for String {
    fn ty() -> Type {
        Type::Text
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::text(value).map(str::to_owned)
    }

    fn give(&self) -> Value {
        self.as_str().into()
    }
}

impl Field for Arc<str> {
    fn ty() -> Type {
        Type::Text
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::text(value).map(Into::into)
    }

    fn give(&self) -> Value {
        (**self).into()
    }
}

impl Field for bool {
    fn ty() -> Type {
        Type::Flag
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::flag(value)
    }

    fn give(&self) -> Value {
        (*self).into()
    }
}

/// Implements a whole number that fits into JSON's.
macro_rules! whole_number {
    ($($number:ty => $max:expr),*) => {$(
        impl Field for $number {
            fn ty() -> Type {
                Type::Int { min: i64::try_from(Self::MIN).unwrap_or(i64::MIN), max: $max }
            }

            fn take(value: &Value) -> Result<Self, Wrong> {
                let Type::Int { min, max } = Self::ty() else { unreachable!("it is one") };
                let number = ty::int(value, min, max)?;
                Ok(Self::try_from(number).expect("it is within the bounds of the type"))
            }

            fn give(&self) -> Value {
                (*self).into()
            }
        }
    )*};
}

whole_number!(
    u16 => u16::MAX.into(),
    u32 => u32::MAX.into(),
    u64 => i64::MAX,
    i32 => i32::MAX.into(),
    i64 => i64::MAX
);

impl Field for Duration {
    fn ty() -> Type {
        Type::Duration
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::duration(value)
    }

    fn give(&self) -> Value {
        humantime::format_duration(*self).to_string().into()
    }
}

impl Field for Value {
    fn ty() -> Type {
        Type::Any
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        Ok(value.clone())
    }

    fn give(&self) -> Value {
        self.clone()
    }
}

impl Field for Map<String, Value> {
    fn ty() -> Type {
        Type::map(Type::Any)
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        Self::ty().accept(value)?;
        Ok(value.as_object().cloned().unwrap_or_default())
    }

    fn give(&self) -> Value {
        Value::Object(self.clone())
    }
}

impl<T: Field> Field for Option<T> {
    const SENSITIVE: bool = T::SENSITIVE;
    const EXPOSED: bool = T::EXPOSED;

    fn ty() -> Type {
        T::ty()
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        T::take(value).map(Some)
    }

    fn give(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::give)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Field> Field for Vec<T> {
    const SENSITIVE: bool = T::SENSITIVE;
    const EXPOSED: bool = T::EXPOSED;

    fn ty() -> Type {
        Type::list(T::ty())
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let items = value.as_array().ok_or_else(|| refuse::<Self>(value))?;
        let items = items.iter().map(T::take).collect::<Result<_, _>>();
        items.map_err(|_| refuse::<Self>(value))
    }

    fn give(&self) -> Value {
        self.iter().map(T::give).collect()
    }
}

/// Says that a value is not of the type; the value itself only if it may be shown.
fn refuse<T: Field>(value: &Value) -> Wrong {
    if T::SENSITIVE {
        let wrong = Wrong::from(format!("the value is not {}", T::ty().noun()));
        return Wrong { value: Some(HIDDEN.to_owned()), ..wrong };
    }
    T::ty().refuse(value)
}

impl<T: Field> Field for BTreeMap<String, T> {
    const SENSITIVE: bool = T::SENSITIVE;
    const EXPOSED: bool = T::EXPOSED;

    fn ty() -> Type {
        Type::map(T::ty())
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        let items = value.as_object().ok_or_else(|| refuse::<Self>(value))?;
        let (mut taken, mut wrong) = (Self::new(), Vec::new());
        for (name, item) in items {
            match T::take(item) {
                Ok(item) => drop(taken.insert(name.clone(), item)),
                Err(error) => wrong.push(error.of(name, item)),
            }
        }
        Wrong::all(wrong).map_or(Ok(taken), Err)
    }

    fn give(&self) -> Value {
        self.iter().map(|(name, item)| (name.clone(), item.give())).collect()
    }
}

/// An absolute path without NUL characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsPath(PathBuf);

impl AbsPath {
    /// Reads a path.
    ///
    /// # Errors
    ///
    /// When it is not absolute, or holds a NUL character.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        Self::take(&text.into())
    }
}

impl AsRef<Path> for AbsPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Field for AbsPath {
    fn ty() -> Type {
        Type::Path
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::path(value).map(|path| Self(path.to_owned()))
    }

    fn give(&self) -> Value {
        self.0.to_string_lossy().into()
    }
}

impl Field for EntryPath {
    fn ty() -> Type {
        Type::Path
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        Self::parse(ty::text(value)?).map_err(|err| err.to_string().into())
    }

    fn give(&self) -> Value {
        self.declared().into()
    }
}

/// The permissions of a file, 0 to 0o7777; a manifest writes them in octal and quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode(pub u32);

impl Field for Mode {
    fn ty() -> Type {
        Type::Mode
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        ty::mode(value).map(Self)
    }

    fn give(&self) -> Value {
        format!("{:04o}", self.0).into()
    }
}

/// A value that is shown in no error of its config, and not for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Returns a secret.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the value, which its user must not show.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T: Field> Field for Secret<T> {
    const SENSITIVE: bool = true;

    fn ty() -> Type {
        T::ty()
    }

    /// The value itself is in no error.
    fn take(value: &Value) -> Result<Self, Wrong> {
        T::take(value).map(Self).map_err(|_| refuse::<Self>(value))
    }

    fn give(&self) -> Value {
        self.0.give()
    }
}
