//! Maps and sets of ids. The hash is fast and the same in every run. This is safe, because nobody
//! outside the engine chooses the ids.

/// A map from ids.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, foldhash::fast::FixedState>;

/// A set of ids.
pub(crate) type Set<T> = hashbrown::HashSet<T, foldhash::fast::FixedState>;
