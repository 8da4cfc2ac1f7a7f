//! Counts how much of a common resource each source prefix uses, so that no single network can use
//! all of it.
//!
//! A share is the largest number of items, such as seats of sessions or descriptors of connections,
//! that one prefix may have. The levels of prefixes are 1 to 3 of [`super::source`].

use super::limits::{OBJECTS, STREAMS};
use super::source::{LEVELS, Most, Source};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of items of each prefix.
#[derive(Debug, Default)]
pub struct Shares {
    levels: [HashMap<u128, u64>; LEVELS - 1],
}

impl Shares {
    fn each(&mut self, source: Source) -> impl Iterator<Item = (&mut HashMap<u128, u64>, u128)> {
        let levels = self.levels.iter_mut().enumerate();
        levels.map(move |(i, level)| (level, source.prefix(i + 1)))
    }
    /// Number of items of a source.
    pub fn of(&self, source: Source) -> u64 {
        let level = LEVELS - 2;
        self.levels[level]
            .get(&source.prefix(level + 1))
            .copied()
            .unwrap_or(0)
    }
    /// Whether each prefix of the source may have one more item.
    pub fn has_room(&self, source: Source, most: Most) -> bool {
        let levels = self.levels.iter().zip(most).enumerate();
        let mut has = levels.map(|(i, (level, most))| {
            (level.get(&source.prefix(i + 1)).copied().unwrap_or(0), most)
        });
        has.all(|(has, most)| has < most)
    }
    /// Adds an item of a source.
    pub fn add(&mut self, source: Source) {
        for (level, prefix) in self.each(source) {
            *level.entry(prefix).or_default() += 1;
        }
    }
    /// Removes an item of a source.
    pub fn remove(&mut self, source: Source) {
        for (level, prefix) in self.each(source) {
            if let Some(has) = level.get_mut(&prefix) {
                *has -= 1;
                if *has == 0 {
                    level.remove(&prefix);
                }
            }
        }
    }
}

/// File descriptors of connections, load included. Each prefix may use a share of the descriptors
/// that this process may have.
#[derive(Debug, Default)]
pub struct Descriptors {
    of: Mutex<Shares>,
    /// Number of descriptors that this process may have; if it is not set, there is no limit.
    all: OnceLock<u64>,
    taken: AtomicUsize,
}

impl Descriptors {
    /// Sets the number of descriptors that this process may have.
    pub fn limit(&self, all: u64) {
        let _ = self.all.set(all);
    }
    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Number of descriptors that connections use.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed) as u64
    }
    /// Takes a descriptor for a source; `None` if a prefix of the source has used its share.
    pub fn take(self: &Arc<Self>, source: Source) -> Option<Descriptor> {
        let all = self.all.get().copied().unwrap_or(u64::MAX);
        let mut shares = self.lock();
        let has_room = shares.has_room(source, [all / 4 * 3, all / 2, all / 4]);
        has_room.then(|| {
            shares.add(source);
            self.taken.fetch_add(1, Ordering::Relaxed);
            Descriptor {
                of: Arc::clone(self),
                source,
            }
        })
    }
}

/// The right of a connection to a descriptor, until it is dropped.
#[derive(Debug)]
pub struct Descriptor {
    of: Arc<Descriptors>,
    source: Source,
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(1, Ordering::Relaxed);
        self.of.lock().remove(self.source);
    }
}

/// A notice if the share of an address is smaller than the number of connections of one session.
pub fn notice(all: u64) -> Option<String> {
    let (share, one) = (all / 4, STREAMS as u64 + OBJECTS + 1);
    (share < one).then(|| {
        format!(
            "this process may have {all} descriptors, so one address may have {share} \
             connections, fewer than one session may \
             open ({one}); raise the limit, for example by `ulimit -Hn 20000`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().expect("an address").into()
    }

    #[test]
    fn one_address_has_a_quarter_of_the_descriptors_at_most() {
        let descriptors: Arc<Descriptors> = Arc::default();
        descriptors.limit(1024);
        let take = |address| {
            let source = source(address);
            std::iter::from_fn(|| descriptors.take(source)).collect::<Vec<_>>()
        };
        let mut one = take("192.0.2.1");
        let others = [
            "192.0.2.2",
            "192.0.2.3",
            "192.0.3.1",
            "192.0.4.1",
            "198.51.100.1",
        ]
        .map(take);
        assert_eq!(one.len(), 256);
        assert_eq!(others.each_ref().map(Vec::len), [256, 0, 256, 0, 256]);
        assert_eq!(descriptors.taken(), 1024);
        // A dropped descriptor is available again.
        one.pop();
        assert_eq!(take("192.0.2.3").len(), 1);
        drop((one, others));
        assert_eq!(descriptors.taken(), 0);
        assert!(descriptors.lock().levels.iter().all(HashMap::is_empty));
        assert_eq!(notice(20_000), None);
        let small = notice(1024).expect("a notice");
        assert!(
            small.contains("1024 descriptors") && small.contains("256 connections"),
            "{small}"
        );
    }

    #[test]
    fn each_prefix_has_its_share_and_nothing_is_left_behind() {
        let most = [4, 3, 2];
        for addresses in [
            ["192.0.2.1", "192.0.2.2", "192.0.3.1", "192.1.2.1"],
            [
                "2001:db8:1:1::1",
                "2001:db8:1:2::1",
                "2001:db8:2:1::1",
                "2001:db9:1:1::1",
            ],
        ] {
            let mut shares = Shares::default();
            let taken = addresses.map(|address| {
                let source = source(address);
                let mut n = 0;
                while shares.has_room(source, most) {
                    shares.add(source);
                    n += 1;
                }
                n
            });
            // Two items of one source, one more of its /24 or /48, and one more of its /16 or /32.
            // Another network has its own share.
            assert_eq!(taken, [2, 1, 1, 2]);
            assert_eq!(shares.of(source(addresses[0])), 2);
            for (address, n) in addresses.iter().zip(taken) {
                (0..n).for_each(|_| shares.remove(source(address)));
            }
            assert!(shares.levels.iter().all(HashMap::is_empty));
            shares.remove(source(addresses[0]));
            assert!(shares.has_room(source(addresses[0]), [1; 3]));
        }
    }
}
