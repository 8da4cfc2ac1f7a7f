//! The result of a test: counts, histograms, the slowest answers, and episodes of slow answers.
//!
//! An **episode** consists of slow answers whose waiting times overlap. The waiting time of an
//! answer begins when its question was due and ends when the answer was read. With a question each
//! millisecond, a stall of 100 ms causes about a hundred slow answers, but one episode.

use super::histogram::Histogram;
use super::one_way::OneWay;
use crate::latency::attribution::{PARTS, Parts};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Largest number of slow answers that are kept: the slowest ones.
pub const MOST_SLOW: usize = 1000;
/// Largest number of episodes that are kept: those with the slowest answers.
pub const MOST_EPISODES: usize = 1000;

/// A slow answer.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slow {
    /// Response time, from due to read, ns.
    pub took: u64,
    /// Number of the question.
    pub number: u32,
    /// Time when the question was due, ns (`CLOCK_REALTIME`).
    pub at: u64,
    /// Round-trip time, from sent to read, ns.
    pub rtt: u64,
    /// How late the question was sent, ns.
    pub late: u64,
    /// Time of each part.
    pub parts: Parts,
    /// Index of the part to which the delay is attributed.
    pub attributed: usize,
}

/// Slow answers whose waiting times overlap, and which therefore probably have the same cause.
#[derive(Copy, Clone, Debug)]
pub struct Episode {
    /// Time when the first of their questions was due, ns (`CLOCK_REALTIME`).
    pub from: u64,
    /// Time when the last of the answers was read, ns (`CLOCK_REALTIME`).
    pub until: u64,
    /// Number of slow answers.
    pub answers: u64,
    /// Number of slow answers by the part to which their delay is attributed.
    pub attributed: [u64; PARTS],
    /// The slowest of the answers.
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
    /// Index of the part to which most of the delays are attributed.
    pub fn most_attributed(&self) -> usize {
        (0..PARTS)
            .max_by_key(|part| (self.attributed[*part], *part == self.worst.attributed))
            .unwrap_or(self.worst.attributed)
    }
}

/// The result of a test. Counts exclude the warm-up unless stated otherwise.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Number of questions sent.
    pub sent: u64,
    /// Number of questions with a right answer.
    pub answered: u64,
    /// Number of further answers to an answered question, including those of the warm-up.
    pub duplicates: u64,
    /// Number of answers that arrived after the answer to a later question.
    pub reordered: u64,
    /// Number of wrong answers, including those of the warm-up.
    pub mismatches: u64,
    /// Number of questions with only a wrong answer.
    pub corrupted: u64,
    /// Number of sessions that were opened again after the connection to the server had ended.
    pub reconnections: u64,
    /// Number of datagrams that are no answer to a stored question.
    pub foreign: u64,
    /// Number of reports that the far host refused a datagram, because nothing listens at the port.
    pub refused: u64,
    /// Number of questions that were not sent, because a buffer of this host was full.
    pub unsent: u64,
    /// Number of questions that were skipped, because the application was suspended when they were
    /// due.
    pub skipped: u64,
    /// Number of answers whose timestamps contradict each other, as after a clock was set.
    pub contradicted: u64,
    /// Number of received datagrams that were dropped, because the buffer of the socket was full.
    pub socket_drops: u64,
    /// Number of questions that the server received, if it reports that.
    pub far_count: Option<u32>,
    /// Traffic class with which the last answered question arrived at the server, and that of its
    /// answer at this host.
    pub classes: (Option<u8>, u8),
    /// TTL or hop limit with which the last answer arrived.
    pub ttl: u8,
    /// Sentences about events that limit the validity of the result.
    pub notes: Vec<String>,
    /// Round-trip times: from sent to read, ns.
    pub rtt: Histogram,
    /// How late questions were sent: from due to sent, ns.
    pub late: Histogram,
    /// Response times: from due to read, ns.
    pub response: Histogram,
    /// Time of each part.
    pub parts: [Histogram; PARTS],
    /// One-way delays.
    pub one_way: OneWay,
    /// Number of slow answers.
    pub slow: u64,
    /// Number of slow answers by the part to which their delay is attributed.
    pub attributed: [u64; PARTS],
    /// Response time from which on an answer was slow at the end of the test, ns.
    pub slow_limit: u64,
    /// The slowest answers.
    pub slowest: BinaryHeap<Reverse<Slow>>,
    /// The episodes, by the time at which they began, ns (`CLOCK_REALTIME`).
    pub episodes: BTreeMap<u64, Episode>,
    /// Number of episodes that were not kept.
    pub forgotten: u64,
    /// Start of the test, ns (`CLOCK_REALTIME`).
    pub began: u64,
    /// Duration of the test, ns.
    pub took: u64,
    /// Whether the test was stopped before its end.
    pub interrupted: bool,
    /// Size of each question, bytes: as requested, or as the protocol needs.
    pub size: usize,
    /// Time from the start to the last answer, ns.
    pub last: u64,
}

impl Outcome {
    /// Number of questions without any answer.
    pub fn lost(&self) -> u64 {
        self.sent - self.answered - self.corrupted
    }
    /// Adds the result of another slice of the same test.
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
        for note in &other.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        self.size = other.size;
        self.slow_limit = self.slow_limit.max(other.slow_limit);
        self.rtt.merge(&other.rtt);
        self.late.merge(&other.late);
        self.response.merge(&other.response);
        self.one_way.merge(&other.one_way);
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
    /// Adds an episode, and merges it with those that it overlaps.
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
