//! Pending connections by source prefix. This module chooses which of them is closed when there are
//! too many.
//!
//! A pending connection does not belong to a session yet. The search for the one to close starts at
//! the widest prefixes, and chooses the one with the most pending connections. Within this prefix
//! it chooses the next narrower prefix with the most, and so on down to one source. The oldest
//! connection of that source is closed. Of two prefixes with equally many, the one with the older
//! connection is chosen.
//!
//! The levels of prefixes are those of [`super::source`]. A client that has a whole prefix, such as
//! the 65,536 networks (/64) of a /48, therefore only displaces its own connections. Each level
//! keeps its prefixes in order, so that adding, removing and choosing take O(log n) time.

use super::source::{LEVELS, Source};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Number of connections of a prefix, number of its oldest one, and the prefix itself.
type Rank = (usize, Reverse<u64>, u128);

#[derive(Debug, Default)]
struct Node {
    /// Numbers of the connections of the prefix, the oldest first.
    ids: BTreeSet<u64>,
    /// Prefixes of the next level within this one. The search chooses the last of them.
    within: BTreeSet<Rank>,
}

impl Node {
    fn rank(&self, prefix: u128) -> Option<Rank> {
        let oldest = self.ids.first()?;
        Some((self.ids.len(), Reverse(*oldest), prefix))
    }
}

/// All pending connections. Connections are numbered in the order of their arrival.
#[derive(Debug, Default)]
pub struct Pending {
    levels: [HashMap<u128, Node>; LEVELS],
}

impl Pending {
    /// Adds a connection of a source.
    pub fn insert(&mut self, source: Source, id: u64) {
        self.edit(source, |ids| {
            ids.insert(id);
        });
    }
    /// Removes a connection of a source.
    pub fn remove(&mut self, source: Source, id: u64) {
        self.edit(source, |ids| {
            ids.remove(&id);
        });
    }
    fn edit(&mut self, source: Source, edit: impl Fn(&mut BTreeSet<u64>)) {
        let mut below = (None, None);
        for level in (0..LEVELS).rev() {
            let prefix = source.prefix(level);
            let node = self.levels[level].entry(prefix).or_default();
            let before = node.rank(prefix);
            if let Some(rank) = below.0 {
                node.within.remove(&rank);
            }
            node.within.extend(below.1);
            edit(&mut node.ids);
            let after = node.rank(prefix);
            if after.is_none() {
                self.levels[level].remove(&prefix);
            }
            below = (before, after);
        }
    }
    fn node(&self, level: usize, prefix: u128) -> Option<&Node> {
        self.levels[level].get(&prefix)
    }
    /// Number of pending connections.
    pub fn len(&self) -> usize {
        self.node(0, 0).map_or(0, |node| node.ids.len())
    }
    /// Whether there are no pending connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of pending connections of a source, and number of its oldest one.
    pub fn of(&self, source: Source) -> Option<(usize, u64)> {
        let node = self.node(LEVELS - 1, source.prefix(LEVELS - 1))?;
        Some((node.ids.len(), *node.ids.first()?))
    }
    /// Number of the connection to close first.
    pub fn first(&self) -> Option<u64> {
        let mut node = self.node(0, 0)?;
        for level in 1..LEVELS {
            let (_, _, prefix) = node.within.last()?;
            node = self.node(level, *prefix)?;
        }
        node.ids.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn the_prefix_with_the_most_is_chosen_and_of_equals_the_older_one() {
        let mut pending = Pending::default();
        let of = [
            ("192.0.2.1", 1),
            ("198.51.100.1", 2),
            ("2001:db8:1::1", 3),
            ("2001:db8:2:1::1", 4),
            ("2001:db8:2:2::1", 5),
            ("2001:db8:2:2::2", 6),
        ];
        for (address, id) in of {
            pending.insert(source(address), id);
        }
        assert_eq!(
            (pending.len(), pending.of(source("2001:db8:2:2::9"))),
            (6, Some((2, 5)))
        );
        let mut order = Vec::new();
        while let Some(id) = pending.first() {
            order.push(id);
            let (address, _) = of.iter().find(|(_, of)| *of == id).expect("one of them");
            pending.remove(source(address), id);
        }
        // Its /32 has four, of which a /48 has three, of which a /64 has two; then all have one.
        assert_eq!(order, [5, 4, 3, 1, 2, 6]);
        assert!(pending.is_empty() && pending.levels.iter().all(HashMap::is_empty));
    }

    #[test]
    fn a_removed_connection_leaves_nothing_behind_whatever_the_order() {
        let mut pending = Pending::default();
        let sources: Vec<Source> = (0..600_u128)
            .map(|n| match n % 3 {
                0 => IpAddr::V4(Ipv4Addr::from(0xc000_0200 + n as u32 * 77)).into(),
                _ => IpAddr::V6(Ipv6Addr::from(0x2001_0db8 << 96 | (n * 7919 % 64) << 64)).into(),
            })
            .collect();
        for (id, source) in sources.iter().enumerate() {
            pending.insert(*source, id as u64);
        }
        for id in (0..sources.len()).map(|n| n * 7 % sources.len()) {
            let counted: usize = pending.levels[LEVELS - 1]
                .values()
                .map(|node| node.ids.len())
                .sum();
            assert_eq!(counted, pending.len());
            pending.remove(sources[id], id as u64);
            pending.remove(sources[id], id as u64);
        }
        assert!(pending.is_empty() && pending.levels.iter().all(HashMap::is_empty));
    }
}
