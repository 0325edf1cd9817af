//! The daemon that a program leaves.

use crankcase_resources::dynamic::{Parameter, Reader, Table};
use crankcase_resources::{AbsPath, Field, Type, Wrong};
use serde_json::{Value, json};

use crate::object::read;

/// The daemon of a program that goes to the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// The file in which the program leaves the pid of the daemon.
    pub pid_file: AbsPath,
}

impl Daemon {
    fn table() -> Table {
        let pid_file = "the file in which the program leaves the pid of the daemon";
        let parameters = vec![Parameter::of::<AbsPath>("pid_file", pid_file)];
        Table::new("the daemon of a program that goes to the background", parameters)
    }

    fn choose(reader: &mut Reader<'_>) -> Result<Self, String> {
        // The reader has the error of one that is missing or wrong.
        let pid_file = reader.field("pid_file").given().ok_or("give pid_file")?;
        Ok(Self { pid_file })
    }
}

impl Field for Daemon {
    fn ty() -> Type {
        Type::Object { table: Self::table() }
    }

    fn take(value: &Value) -> Result<Self, Wrong> {
        read(value, &Self::table(), Self::choose)
    }

    fn give(&self) -> Value {
        json!({"pid_file": self.pid_file.give()})
    }
}
