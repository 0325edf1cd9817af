//! The part of a dependency graph that is near a node.

use std::collections::{BTreeMap, BTreeSet};

/// The part of a dependency graph near one node: all that it needs, and some of what needs it.
///
/// It follows the edges in their direction: what else uses an input of the node is not near the node. So it
/// stays small beside an input that thousands use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Near<'a> {
    /// The nodes.
    pub names: BTreeSet<&'a str>,
    /// How many users are left out, for each node that has more users than `names` has.
    pub more_users: BTreeMap<&'a str, usize>,
}

impl<'a> Near<'a> {
    /// Finds the nodes near `name` in a graph with these edges, each from a user to its input.
    ///
    /// These are `name`, what it needs directly or through others, and what needs it within
    /// `steps` edges. Of the users of one node at most `most` are taken, in the order of their names.
    pub fn of(
        edges: impl IntoIterator<Item = (&'a str, &'a str)>,
        name: &'a str,
        (steps, most): (usize, usize),
    ) -> Self {
        let mut inputs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (user, input) in edges {
            inputs.entry(user).or_default().insert(input);
            users.entry(input).or_default().insert(user);
        }
        let mut names = BTreeSet::from([name]);
        let mut next = vec![name];
        while let Some(user) = next.pop() {
            let of = inputs.get(user).into_iter().flatten().copied();
            next.extend(of.filter(|input| names.insert(input)));
        }
        let mut layer = vec![name];
        for _ in 0..steps {
            let of = |input| users.get(input).into_iter().flatten().copied().take(most);
            let found: Vec<_> = layer.into_iter().flat_map(of).collect();
            layer = found.into_iter().filter(|user| names.insert(user)).collect();
            if layer.is_empty() {
                break;
            }
        }
        let more = |name: &&'a str| users.get(name).map_or(0, |all| all.difference(&names).count());
        let more_users = names.iter().map(|name| (*name, more(name)));
        let more_users = more_users.filter(|(_, count)| *count > 0).collect();
        Self { names, more_users }
    }
}

#[cfg(test)]
mod tests {
    use super::Near;

    #[test]
    fn what_is_near_follows_the_edges_and_cuts_hubs() {
        let hub: Vec<String> = (0..50).map(|number| format!("u{number:02}")).collect();
        let of_root = hub.iter().map(|user| (user.as_str(), "root"));
        let chain = [("web", "disk"), ("disk", "root"), ("proxy", "web"), ("probe", "proxy")];
        let edges: Vec<_> = of_root.chain(chain).collect();
        let near = |name, limits| Near::of(edges.iter().copied(), name, limits);

        let web = near("web", (1, 20));
        assert_eq!(web.names.iter().copied().collect::<Vec<_>>(), ["disk", "proxy", "root", "web"]);
        assert_eq!(web.more_users.into_iter().collect::<Vec<_>>(), [("proxy", 1), ("root", 50)]);

        let root = near("root", (2, 3));
        let names: Vec<_> = root.names.into_iter().collect();
        assert_eq!(names, ["disk", "root", "u00", "u01", "web"]);
        assert_eq!(root.more_users["root"], 48);
    }

    #[test]
    fn circles_come_to_an_end() {
        let near = Near::of([("a", "b"), ("b", "a")], "a", (usize::MAX, usize::MAX));

        assert_eq!(near.names.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
