//! What came of an exchange: counts, histograms, the slowest answers, and the episodes that they
//! make.
//!
//! An **episode** is slow answers that were awaited at the same time: each from when its question
//! was due until its answer came, and whatever overlaps is one. A stall of 100 ms with a question
//! each millisecond makes a hundred slow answers and one episode.

use super::histogram::Histogram;
use crate::latency::attribution::{PARTS, Parts};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// So many slow answers are kept, the slowest.
pub const MOST_SLOW: usize = 1000;
/// So many episodes of slow answers are kept, those with the slowest answers.
pub const MOST_EPISODES: usize = 1000;

/// A slow answer.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slow {
    /// From due to read, ns.
    pub took: u64,
    /// Which.
    pub number: u32,
    /// When its question was due, ns of the clock of dates.
    pub at: u64,
    /// From sent to read, ns.
    pub rtt: u64,
    /// How late its question left, ns.
    pub late: u64,
    /// What each part took.
    pub parts: Parts,
    /// Who is to blame.
    pub attributed: usize,
}

/// Slow answers that were awaited at the same time: what delayed one of them delayed the others,
/// too.
#[derive(Copy, Clone, Debug)]
pub struct Episode {
    /// When the first of their questions was due, ns of the clock of dates.
    pub from: u64,
    /// When the last of them came.
    pub until: u64,
    /// How many.
    pub answers: u64,
    /// Whose delay they were.
    pub attributed: [u64; PARTS],
    /// The slowest of them.
    pub worst: Slow,
}

impl Episode {
    pub(super) fn of(slow: Slow) -> Episode {
        let mut attributed = [0; PARTS];
        attributed[slow.attributed] = 1;
        Episode {
            from: slow.at,
            until: slow.at + slow.took,
            answers: 1,
            attributed,
            worst: slow,
        }
    }
    fn join(&mut self, other: &Episode) {
        self.from = self.from.min(other.from);
        self.until = self.until.max(other.until);
        self.answers += other.answers;
        for (to, from) in self.attributed.iter_mut().zip(other.attributed) {
            *to += from;
        }
        self.worst = self.worst.max(other.worst);
    }
    /// Whose delay most of its answers were.
    pub fn most_attributed(&self) -> usize {
        (0..PARTS)
            .max_by_key(|part| (self.attributed[*part], *part == self.worst.attributed))
            .unwrap_or(self.worst.attributed)
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Questions that left, without those that were not to be counted.
    pub sent: u64,
    /// Answered, once each.
    pub answered: u64,
    /// Answered again.
    pub duplicates: u64,
    /// Answered after a later one was.
    pub reordered: u64,
    /// Answers that are not as they should be.
    pub mismatches: u64,
    /// Questions that got such an answer and no right one.
    pub corrupted: u64,
    /// Times that a session was opened again, for the far end had gone.
    pub reconnections: u64,
    /// Datagrams that are none of these.
    pub foreign: u64,
    /// The far end's host refused the datagram: nothing listens there.
    pub refused: u64,
    /// Questions that the host had no room for.
    pub unsent: u64,
    /// Questions that were not asked, for the application had stood still.
    pub skipped: u64,
    /// Answers whose stamps contradict each other: a clock was set.
    pub contradicted: u64,
    /// Datagrams that our socket had no room for.
    pub socket_drops: u64,
    /// How many questions the far end got, if it counts.
    pub far_count: Option<u32>,
    /// The traffic classes with which questions arrived there and answers here, the last ones
    /// seen.
    pub classes: (Option<u8>, u8),
    /// Hops that answers still had.
    pub ttl: u8,
    /// Round trips: from sent to read.
    pub rtt: Histogram,
    /// How late questions left: from due to sent.
    pub late: Histogram,
    /// From due to read.
    pub response: Histogram,
    /// What each part took.
    pub parts: [Histogram; PARTS],
    /// Slow answers, all of them.
    pub slow: u64,
    /// Whose they were.
    pub attributed: [u64; PARTS],
    /// What counted as slow at the end, ns.
    pub slow_limit: u64,
    /// The slowest ones.
    pub slowest: BinaryHeap<Reverse<Slow>>,
    /// The same in episodes, by when they began.
    pub episodes: BTreeMap<u64, Episode>,
    /// Episodes that were not kept.
    pub forgotten: u64,
    /// When it began, ns of the clock of dates.
    pub began: u64,
    /// How long it took, ns.
    pub took: u64,
    /// It was stopped before its end.
    pub interrupted: bool,
    /// Bytes of each question: as many as were asked for, or as the protocol needs.
    pub size: usize,
    /// How long after the beginning the last answer came, ns.
    pub last: u64,
}

impl Outcome {
    /// Questions without any answer.
    pub fn lost(&self) -> u64 {
        self.sent - self.answered - self.corrupted
    }
    /// All of another slice of the same test, too.
    pub fn merge(&mut self, other: &Outcome) {
        if self.sent == 0 {
            self.began = other.began;
        }
        self.last = self.took + other.last;
        for (to, from) in [
            (&mut self.sent, other.sent),
            (&mut self.answered, other.answered),
            (&mut self.duplicates, other.duplicates),
            (&mut self.reordered, other.reordered),
            (&mut self.mismatches, other.mismatches),
            (&mut self.corrupted, other.corrupted),
            (&mut self.reconnections, other.reconnections),
            (&mut self.forgotten, other.forgotten),
            (&mut self.foreign, other.foreign),
            (&mut self.refused, other.refused),
            (&mut self.unsent, other.unsent),
            (&mut self.skipped, other.skipped),
            (&mut self.contradicted, other.contradicted),
            (&mut self.socket_drops, other.socket_drops),
            (&mut self.slow, other.slow),
            (&mut self.took, other.took),
        ] {
            *to += from;
        }
        self.far_count = match (self.far_count, other.far_count) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.classes = other.classes;
        self.ttl = other.ttl;
        self.interrupted |= other.interrupted;
        self.size = other.size;
        self.slow_limit = self.slow_limit.max(other.slow_limit);
        self.rtt.merge(&other.rtt);
        self.late.merge(&other.late);
        self.response.merge(&other.response);
        for i in 0..PARTS {
            self.parts[i].merge(&other.parts[i]);
            self.attributed[i] += other.attributed[i];
        }
        for slow in &other.slowest {
            self.keep(slow.0);
        }
        for episode in other.episodes.values() {
            self.happened(*episode);
        }
    }
    pub(super) fn keep(&mut self, slow: Slow) {
        self.slowest.push(Reverse(slow));
        if self.slowest.len() > MOST_SLOW {
            self.slowest.pop();
        }
    }
    /// Notes an episode, together with those that overlap it; the kept ones overlap none.
    pub(super) fn happened(&mut self, mut episode: Episode) {
        while let Some((from, other)) = self.episodes.range(..=episode.until).next_back() {
            if other.until < episode.from {
                break;
            }
            episode.join(other);
            let from = *from;
            self.episodes.remove(&from);
        }
        self.episodes.insert(episode.from, episode);
        if self.episodes.len() > MOST_EPISODES {
            let least = self
                .episodes
                .values()
                .min_by_key(|episode| episode.worst.took);
            if let Some(from) = least.map(|episode| episode.from) {
                self.episodes.remove(&from);
                self.forgotten += 1;
            }
        }
    }
}
