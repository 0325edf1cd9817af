//! The names under which expressions see other resources.

/// A name under which expressions see other resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) name: String,
    /// The resources of a `for_each`: each item, and the alias under which its state is known. None
    /// for one resource, whose state has the alias itself.
    pub(crate) items: Option<Vec<(String, String)>>,
    /// The name and the type of one resource.
    pub(crate) of: Option<(String, String)>,
}

impl Alias {
    /// Returns the names by which expressions find the states in it, each with the alias under which
    /// the state is known.
    pub(crate) fn states(&self) -> impl Iterator<Item = (&str, &str)> {
        let one = self.items.is_none().then_some(("state", self.name.as_str()));
        let items = self.items.iter().flatten();
        one.into_iter().chain(items.map(|(item, alias)| (item.as_str(), alias.as_str())))
    }

    /// Returns the aliases of the single resources that it stands for, if it is for a `for_each`.
    pub(crate) fn items(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flatten().map(|(_, alias)| alias.as_str())
    }
}
