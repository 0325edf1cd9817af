//! Files of the machine that a manifest offers, and types ask for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crankcase_resources::front::{Plug, RequestError};
use regex::Regex;

use crate::messages::PlugRequest;

/// The files that a manifest offers, checked.
#[derive(Debug, Default)]
pub(crate) struct Plugs(BTreeMap<String, Offered>);

#[derive(Debug)]
struct Offered {
    path: PathBuf,
    is_read_only: bool,
    names: Vec<Regex>,
    types: Vec<Regex>,
}

/// A file that a resource is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The plug's name.
    pub(crate) plug: String,
    /// Where it is on this machine.
    pub(crate) from: PathBuf,
    /// Where the type looks for it.
    pub(crate) to: String,
    pub(crate) is_writable: bool,
}

impl Plugs {
    /// Checks the offered files. Refuses one that holds `state`.
    pub(crate) fn read(
        plugs: &[Plug],
        state: Option<&Path>,
    ) -> (Self, Vec<(RequestError, String)>) {
        let (mut offered, mut errors) = (BTreeMap::new(), Vec::new());
        for (at, plug) in plugs.iter().enumerate() {
            match Offered::read(plug, state) {
                Ok(it) => drop(offered.insert(plug.name.clone(), it)),
                Err(error) => errors.push((RequestError::Plug(at), error)),
            }
        }
        (Self(offered), errors)
    }

    /// Returns the files that a resource is given, of those that its type asks for.
    ///
    /// # Errors
    ///
    /// All files that it has to have and cannot get. A missing file that it could do without is
    /// logged.
    pub(crate) fn give(
        &self,
        (resource, kind): (&str, &str),
        requests: &BTreeMap<String, PlugRequest>,
    ) -> Result<Vec<Mount>, Vec<String>> {
        let (mut mounts, mut errors) = (Vec::new(), Vec::new());
        for (name, request) in requests {
            let offered = self.0.get(name);
            let wrong = match offered {
                None => Some(("does not exist", "skipped")),
                Some(it) if !it.is_allowed(resource, kind) => {
                    Some(("is not allowed for it", "skipped"))
                }
                Some(it) if it.is_read_only && request.writable => {
                    Some(("is readonly, but requested with write access", "denied"))
                }
                Some(_) => None,
            };
            match (wrong, offered) {
                (Some((wrong, fate)), _) if request.optional => {
                    tracing::warn!(resource, "Optional plug '{name}' {wrong} ({fate})");
                }
                (Some((wrong, _)), _) => errors.push(format!(
                    "illegal config: plug '{name}' required by '{resource}' {wrong}"
                )),
                (None, Some(it)) => mounts.push(Mount {
                    plug: name.clone(),
                    from: it.path.clone(),
                    to: request.path.clone(),
                    is_writable: request.writable,
                }),
                (None, None) => {}
            }
        }
        if errors.is_empty() { Ok(mounts) } else { Err(errors) }
    }
}

impl Offered {
    fn read(plug: &Plug, state: Option<&Path>) -> Result<Self, String> {
        let shown = plug.path.display();
        let path = plug.path.canonicalize();
        let path = path.map_err(|error| format!("the path of the plug, {shown}: {error}"))?;
        let state = state.map(|state| state.canonicalize().unwrap_or_else(|_| state.to_owned()));
        if state.is_some_and(|state| state.starts_with(&path)) {
            return Err(format!("{shown} holds the state folder, which no type may have"));
        }
        // Engines split a path at these characters.
        let is_plain = path.to_str().is_some_and(|path| !path.contains([':', ',', '"', '\n']));
        if !is_plain {
            return Err(format!(
                "{shown} cannot be handed to a container: it has one of : , \" in it"
            ));
        }
        let compiled = |patterns: &[String]| -> Result<Vec<Regex>, String> {
            let compile = |pattern: &String| {
                Regex::new(&format!("^(?:{pattern})"))
                    .map_err(|error| format!("\"{pattern}\" is no regular expression: {error}"))
            };
            patterns.iter().map(compile).collect()
        };
        Ok(Self {
            path,
            is_read_only: plug.is_read_only,
            names: compiled(&plug.resource_names)?,
            types: compiled(&plug.resource_types)?,
        })
    }

    fn is_allowed(&self, resource: &str, kind: &str) -> bool {
        let Self { names, types, .. } = self;
        (names.is_empty() && types.is_empty())
            || names.iter().any(|pattern| pattern.is_match(resource))
            || types.iter().any(|pattern| pattern.is_match(kind))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::error::Error;

    use crankcase_resources::front::{Plug, RequestError};

    use super::Plugs;
    use crate::messages::PlugRequest;

    fn request(optional: bool, writable: bool) -> BTreeMap<String, PlugRequest> {
        let request = PlugRequest { path: "/p".to_owned(), optional, writable };
        [("p".to_owned(), request)].into()
    }

    #[test]
    fn a_plug_is_given_to_those_whom_a_pattern_allows() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        for (names, types, is_given) in [
            (vec![], vec![], true),
            (vec!["www"], vec![], true),
            (vec!["ww"], vec![], true),
            (vec!["w$"], vec![], false),
            (vec!["vm"], vec![], false),
            (vec!["vm"], vec!["acme/"], true),
            (vec![], vec!["acme/disk$"], true),
            (vec![], vec!["disk"], false),
        ] {
            let mut plug = Plug::new("p", folder.path().to_owned());
            plug.resource_names = names.iter().map(|it| (*it).to_owned()).collect();
            plug.resource_types = types.iter().map(|it| (*it).to_owned()).collect();
            let (plugs, errors) = Plugs::read(&[plug], None);

            let given = plugs.give(("www", "acme/disk"), &request(false, true));

            assert_eq!((given.is_ok(), errors), (is_given, vec![]), "{names:?} {types:?}");
        }
        Ok(())
    }

    #[test]
    fn what_is_required_and_cannot_be_had_is_an_error() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let mut plug = Plug::new("p", folder.path().to_owned());
        plug.is_read_only = true;
        let (plugs, _) = Plugs::read(&[plug], None);
        let none = Plugs::default();
        let who = ("r1", "acme/x");

        let missing = none.give(who, &request(false, false));
        let denied = plugs.give(who, &request(false, true));
        let optional =
            [none.give(who, &request(true, false)), plugs.give(who, &request(true, true))];
        let given = plugs.give(who, &request(false, false)).map_err(|errors| errors.join(", "))?;

        assert_eq!(
            missing,
            Err(vec!["illegal config: plug 'p' required by 'r1' does not exist".to_owned()])
        );
        let expected = "illegal config: plug 'p' required by 'r1' is readonly, but requested with write access";
        assert_eq!(denied, Err(vec![expected.to_owned()]));
        assert_eq!(optional, [Ok(vec![]), Ok(vec![])]);
        assert_eq!((given.len(), given[0].is_writable), (1, false));
        Ok(())
    }

    #[test]
    fn what_is_not_there_or_holds_the_state_folder_is_refused() -> Result<(), Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        let state = folder.path().join("state");
        std::fs::create_dir(&state)?;
        let mut bad = Plug::new("bad", folder.path().join("state"));
        bad.resource_names = vec!["(".to_owned()];
        let plugs = [
            Plug::new("missing", folder.path().join("none")),
            Plug::new("above", state.join("..")),
            bad,
        ];

        let (_, errors) = Plugs::read(&plugs[..2], Some(&state));
        let (_, pattern) = Plugs::read(&plugs[2..], None);

        let places: Vec<_> = errors.iter().map(|(culprit, _)| *culprit).collect();
        assert_eq!(places, [RequestError::Plug(0), RequestError::Plug(1)], "{errors:?}");
        assert!(
            errors[1].1.ends_with("holds the state folder, which no type may have"),
            "{errors:?}"
        );
        assert!(pattern[0].1.starts_with("\"(\" is no regular expression"), "{pattern:?}");
        Ok(())
    }
}
