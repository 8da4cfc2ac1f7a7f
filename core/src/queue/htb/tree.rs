//! The tree of classes: modes, borrowing, and order of service.
//!
//! A row contains the active classes of one level and priority that have tokens of their own rate.
//! A leaf is active if it has packets. A feed of a parent contains the active children that may
//! only borrow, at one priority. A parent is active at
//! the priorities of the children in its feeds. If it has tokens, it is in the rows of its level.
//! If it may only borrow, it is in the feeds of its own parent. The rows thus contain exactly those
//! classes whose tokens waiting packets can use. The lowest level is served first. From an entry of
//! a row, the feeds lead down to the leaves with packets. Each row and feed stores which of its
//! members is served next.
//!
//! Order within a row or feed is by the id of the class, as in Linux. Linux uses search trees; this
//! file uses sets of ranks ([`Ranks`]).

use super::agenda::Agenda;
use super::bucket::{Bucket, Line, MINUTE};
use super::ranks::Ranks;
use crate::units::{Bytes, Span, Time};
use alloc::vec::Vec;

/// Number of levels: leaves are on level 0, classes with children and without a parent on the
/// highest level.
pub(super) const LEVELS: usize = 8;
/// Number of priorities; 0 is served first.
pub(super) const PRIOS: usize = 8;
/// Maximum number of steps of the search for the next leaf, as in Linux.
const MOST_TURNS: usize = 65_535;
const NONE: u32 = u32::MAX;

/// The mode of a class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Mode {
    /// The class has tokens of its rate and of its ceil.
    CanSend,
    /// The class has tokens of its ceil, but not of its rate.
    MayBorrow,
    /// The class has no tokens of its ceil.
    CantSend,
}

/// The counters of a class.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub bytes: u64,
    pub packets: u64,
    /// Number of times that the tokens of the ceil were used up.
    pub overlimits: u64,
    /// Packets sent with the tokens of an ancestor.
    pub borrowed: u64,
}

/// The specification of a class.
pub(super) struct Spec {
    /// Index of the parent in the list of classes.
    pub parent: Option<usize>,
    /// The minor number of the class, which determines the order among classes of one priority.
    pub id: u32,
    pub prio: u8,
    pub quantum: u64,
    pub rate: Bucket,
    pub ceil: Bucket,
    pub line: Line,
}

struct Class {
    parent: u32,
    level: u8,
    prio: u8,
    mode: Mode,
    /// Priorities (one bit each) at which the class has packets, or at which children borrow from
    /// it.
    active: u8,
    /// Position among the children of the same parent.
    rank: u32,
    /// Position among the classes of the same level.
    row: u32,
    /// The index of the first ring of the class's feeds.
    feeds: u32,
    line: Line,
    rate: Bucket,
    ceil: Bucket,
    /// Time of the last update of the buckets.
    at: Time,
    quantum: i64,
    /// Bytes that the class may still send in its turn, for each level with whose tokens it sends.
    deficit: [i64; LEVELS],
    counts: Counts,
}

/// A row or a feed: the classes of one level, or the children of one parent, at one priority.
struct Ring {
    /// The positions of the members: `row` in a row, `rank` in a feed.
    set: Ranks,
    /// The member that is served next; `NONE` after the last.
    at: u32,
    /// Start of the search for the next member, if the member at `at` has left.
    resume: u32,
    /// Index in `Tree::members` of the class with the position 0.
    members: u32,
}

impl Ring {
    fn new(size: usize, members: usize) -> Ring {
        Ring {
            set: Ranks::new(size),
            at: NONE,
            resume: NONE,
            members: members as u32,
        }
    }
    #[inline]
    fn next(&self, from: u32) -> u32 {
        self.set
            .from(from as usize)
            .map_or(NONE, |rank| rank as u32)
    }
    /// Passes the turn on to the next member.
    #[inline]
    fn advance(&mut self) {
        if self.at != NONE {
            self.at = self.next(self.at + 1);
        }
    }
}

/// The priorities in a mask, in the order in which they are served.
pub(super) fn priorities(mask: u8) -> impl Iterator<Item = usize> {
    (0..PRIOS).filter(move |prio| mask >> prio & 1 > 0)
}

/// The tree of classes.
pub(super) struct Tree {
    classes: Vec<Class>,
    /// The rings of all feeds and rows, one for each priority in use.
    rings: Vec<Ring>,
    /// The classes of all rings, by position.
    members: Vec<u32>,
    /// The index of each priority among the priorities in use.
    slots: [u8; PRIOS],
    /// The index of the first ring of the rows of each level.
    rows: [u32; LEVELS],
    /// Priorities (one bit each) at which the rows of each level have members.
    ready: [u8; LEVELS],
    /// Classes whose mode improves with time, by level.
    waiting: [Agenda; LEVELS],
    /// The classes of each level, by their position `row`.
    levels: [Vec<u32>; LEVELS],
}

impl Tree {
    /// A tree whose classes are empty and all have tokens.
    pub fn new(specs: &[Spec]) -> Tree {
        let mut children: Vec<Vec<usize>> = alloc::vec![Vec::new(); specs.len()];
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|i| specs[*i].id);
        for i in &order {
            if let Some(parent) = specs[*i].parent {
                children[parent].push(*i);
            }
        }
        let level = |i: usize| {
            let above = core::iter::successors(specs[i].parent, |p| specs[*p].parent);
            let depth = above.take(LEVELS - 1).count();
            if children[i].is_empty() {
                0
            } else {
                LEVELS - 1 - depth
            }
        };
        let mut slots = [0; PRIOS];
        let mut used: u8 = 0;
        for (prio, slot) in slots.iter_mut().enumerate() {
            *slot = used;
            used += u8::from(specs.iter().any(|spec| usize::from(spec.prio) == prio));
        }
        let mut levels: [Vec<u32>; LEVELS] = Default::default();
        let mut classes: Vec<Class> = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate() {
            classes.push(Class {
                parent: spec.parent.map_or(NONE, |p| p as u32),
                level: level(i) as u8,
                prio: spec.prio,
                mode: Mode::CanSend,
                active: 0,
                rank: 0,
                row: 0,
                feeds: NONE,
                line: spec.line,
                rate: spec.rate,
                ceil: spec.ceil,
                at: Time::ZERO,
                quantum: spec.quantum.min(i64::MAX as u64) as i64,
                deficit: [0; LEVELS],
                counts: Counts::default(),
            });
        }
        for i in order {
            let row = &mut levels[usize::from(classes[i].level)];
            classes[i].row = row.len() as u32;
            row.push(i as u32);
        }
        let (mut rings, mut members) = (Vec::new(), Vec::new());
        for (i, list) in children
            .iter()
            .enumerate()
            .filter(|(_, list)| !list.is_empty())
        {
            classes[i].feeds = rings.len() as u32;
            rings.extend((0..used).map(|_| Ring::new(list.len(), members.len())));
            for (rank, child) in list.iter().enumerate() {
                classes[*child].rank = rank as u32;
                members.push(*child as u32);
            }
        }
        let mut rows = [NONE; LEVELS];
        for (level, list) in levels.iter().enumerate() {
            rows[level] = rings.len() as u32;
            rings.extend((0..used).map(|_| Ring::new(list.len(), members.len())));
            members.extend(list);
        }
        Tree {
            classes,
            rings,
            members,
            slots,
            rows,
            ready: [0; LEVELS],
            waiting: core::array::from_fn(|level| Agenda::new(levels[level].len())),
            levels,
        }
    }

    /// The counters of a class.
    pub fn counts(&self, class: usize) -> Counts {
        self.classes[class].counts
    }
    /// Priorities (one bit each) at which a class on this level has tokens for waiting packets.
    #[inline]
    pub fn ready(&self, level: usize) -> u8 {
        self.ready[level]
    }
    /// Time at which the mode of a class changes next.
    pub fn next_event(&self) -> Option<Time> {
        self.waiting
            .iter()
            .filter_map(|agenda| Some(agenda.first()?.0))
            .min()
    }

    #[inline]
    fn feed(&self, parent: u32, prio: usize) -> usize {
        (self.classes[parent as usize].feeds + u32::from(self.slots[prio])) as usize
    }
    #[inline]
    fn row(&self, level: usize, prio: usize) -> usize {
        (self.rows[level] + u32::from(self.slots[prio])) as usize
    }

    /// Called when a leaf has packets.
    #[inline]
    pub fn activate(&mut self, class: usize) {
        let leaf = &mut self.classes[class];
        if leaf.active == 0 {
            leaf.active = 1 << leaf.prio;
            self.join(class);
        }
    }
    /// Called when a leaf has become empty.
    #[inline]
    pub fn deactivate(&mut self, class: usize) {
        self.leave(class);
        self.classes[class].active = 0;
    }

    /// Inserts an active class into its row or feed, according to its mode.
    fn join(&mut self, mut class: usize) {
        let mut mask = self.classes[class].active;
        loop {
            let Class {
                mode, parent, rank, ..
            } = self.classes[class];
            if mode != Mode::MayBorrow || parent == NONE || mask == 0 {
                break;
            }
            for prio in priorities(mask) {
                let feed = self.feed(parent, prio);
                let ring = &mut self.rings[feed];
                // A parent that feeds a class at that priority is already in its row or feed.
                if !ring.set.is_empty() {
                    mask &= !(1 << prio);
                }
                ring.set.insert(rank as usize);
            }
            class = parent as usize;
            self.classes[class].active |= mask;
        }
        let Class {
            mode, level, row, ..
        } = self.classes[class];
        if mode == Mode::CanSend && mask != 0 {
            let level = usize::from(level);
            self.ready[level] |= mask;
            for prio in priorities(mask) {
                let ring = self.row(level, prio);
                self.rings[ring].set.insert(row as usize);
            }
        }
    }

    /// Removes a class from its row or feed.
    fn leave(&mut self, mut class: usize) {
        let mut mask = self.classes[class].active;
        loop {
            let Class {
                mode, parent, rank, ..
            } = self.classes[class];
            if mode != Mode::MayBorrow || parent == NONE || mask == 0 {
                break;
            }
            let mut emptied = 0;
            for prio in priorities(mask) {
                let feed = self.feed(parent, prio);
                let ring = &mut self.rings[feed];
                if ring.at == rank {
                    ring.resume = rank;
                    ring.at = NONE;
                }
                ring.set.remove(rank as usize);
                if ring.set.is_empty() {
                    emptied |= 1 << prio;
                }
            }
            mask = emptied;
            class = parent as usize;
            self.classes[class].active &= !mask;
        }
        let Class {
            mode, level, row, ..
        } = self.classes[class];
        if mode == Mode::CanSend && mask != 0 {
            let level = usize::from(level);
            for prio in priorities(mask) {
                let index = self.row(level, prio);
                let ring = &mut self.rings[index];
                if ring.at == row {
                    ring.advance();
                }
                ring.set.remove(row as usize);
                if ring.set.is_empty() {
                    self.ready[level] &= !(1 << prio);
                }
            }
        }
    }

    /// The next leaf that sends with the tokens of a class on this level, if there is one.
    #[inline]
    pub fn turn(&mut self, level: usize, prio: usize) -> Option<usize> {
        let mut path = [0; LEVELS];
        path[0] = self.row(level, prio);
        let mut depth = 0;
        for _ in 0..MOST_TURNS {
            let ring = &mut self.rings[path[depth]];
            if ring.at == NONE && ring.resume != NONE {
                ring.at = ring.next(ring.resume);
            }
            ring.resume = NONE;
            if ring.at == NONE {
                // After the last member, the ring begins again, and the ring above passes its turn
                // on.
                ring.at = ring.next(0);
                if depth > 0 {
                    depth -= 1;
                    self.rings[path[depth]].advance();
                } else if ring.at == NONE {
                    return None;
                }
                continue;
            }
            let class = self.members[(ring.members + ring.at) as usize];
            if self.classes[class as usize].level == 0 {
                return Some(class as usize);
            }
            depth += 1;
            path[depth] = self.feed(class, prio);
        }
        None
    }

    /// Ends the turn of a leaf that `turn` returned.
    #[inline]
    pub fn pass(&mut self, leaf: usize, level: usize, prio: usize) {
        let ring = if level > 0 {
            self.feed(self.classes[leaf].parent, prio)
        } else {
            self.row(0, prio)
        };
        self.rings[ring].advance();
    }

    /// Subtracts a packet of `size` that a leaf sends in its turn. If the bytes of the turn are
    /// used up, the leaf gets its quantum and its turn ends.
    #[inline]
    pub fn spend(&mut self, leaf: usize, level: usize, prio: usize, size: Bytes) {
        let class = &mut self.classes[leaf];
        let deficit = &mut class.deficit[level];
        *deficit = deficit.saturating_sub(size.get().min(1 << 40) as i64);
        if *deficit < 0 {
            *deficit = deficit.saturating_add(class.quantum);
            self.pass(leaf, level, prio);
        }
    }

    /// The mode of a class `passed` nanoseconds after its last update, and the nanoseconds until a
    /// better mode.
    #[inline]
    fn mode(&self, class: usize, passed: i64) -> (Mode, i64) {
        let class = &self.classes[class];
        let ceil = class.ceil.tokens.saturating_add(passed);
        if ceil < 0 {
            return (Mode::CantSend, -ceil);
        }
        let rate = class.rate.tokens.saturating_add(passed);
        if rate >= 0 {
            (Mode::CanSend, 0)
        } else {
            (Mode::MayBorrow, -rate)
        }
    }

    fn set_mode(&mut self, class: usize, mode: Mode) {
        let old = self.classes[class].mode;
        if mode == old {
            return;
        }
        if mode == Mode::CantSend {
            self.classes[class].counts.overlimits += 1;
        }
        let active = self.classes[class].active != 0;
        if active && old != Mode::CantSend {
            self.leave(class);
        }
        self.classes[class].mode = mode;
        if active && mode != Mode::CantSend {
            self.join(class);
        }
    }

    /// Schedules an update of the mode of a class after `ns` nanoseconds.
    fn wait(&mut self, class: usize, now: Time, ns: i64) {
        let Class { level, row, .. } = self.classes[class];
        self.waiting[usize::from(level)].add(row as usize, now + Span::ns(ns.max(1) as u64));
    }

    /// Updates the modes of classes on this level whose time has come.
    #[inline]
    pub fn events(&mut self, level: usize, now: Time) {
        while let Some((at, row)) = self.waiting[level].first() {
            if at > now {
                return;
            }
            self.waiting[level].remove(row);
            let class = self.levels[level][row] as usize;
            let (mode, wait) = self.mode(class, self.passed(class, now));
            self.set_mode(class, mode);
            if mode != Mode::CanSend {
                self.wait(class, now, wait);
            }
        }
    }

    #[inline]
    fn passed(&self, class: usize, now: Time) -> i64 {
        now.since(self.classes[class].at).as_ns().min(MINUTE as u64) as i64
    }

    /// Charges a packet of `size` of `leaf` to the leaf and its ancestors. The packet leaves with
    /// the tokens of the class on `level`. Classes below this level have borrowed: they are charged
    /// at their ceil only.
    pub fn charge(&mut self, leaf: usize, level: usize, size: Bytes, now: Time) {
        let mut at = leaf as u32;
        while at != NONE {
            let index = at as usize;
            let passed = self.passed(index, now);
            let class = &mut self.classes[index];
            let counted = class.line.size(size);
            if usize::from(class.level) >= level {
                class.rate.charge(passed, counted);
            } else {
                class.counts.borrowed += 1;
                class.rate.tokens = class.rate.tokens.saturating_add(passed);
            }
            class.ceil.charge(passed, counted);
            class.at = now;
            class.counts.bytes += size.get();
            class.counts.packets += 1;
            let (old, row, above) = (class.mode, class.row as usize, class.parent);
            let (mode, wait) = self.mode(index, 0);
            if mode != old {
                self.set_mode(index, mode);
                if old != Mode::CanSend {
                    self.waiting[usize::from(self.classes[index].level)].remove(row);
                }
                if mode != Mode::CanSend {
                    self.wait(index, now, wait);
                }
            }
            at = above;
        }
    }
}
