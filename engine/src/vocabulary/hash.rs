//! Maps and sets of ids, which nobody outside chooses: they hash fast, and the same in every run.

/// A map from ids.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;

/// A set of ids.
pub(crate) type Set<T> = hashbrown::HashSet<T, foldhash::fast::FixedState>;
