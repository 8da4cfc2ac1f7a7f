//! Statistics of a stream of numbered datagrams: arrivals, delays, jitter.
//!
//! Jitter is RFC 3550's: `J ← J + (|D| − J) / 16`, where `D` is the difference of the delays of two
//! successive arrivals. The metric is the mean of `J` over all arrivals but the first. Of
//! duplicates, the first one counts.

use crate::metrics::{Histogram, Metric};
use crate::units::{Span, Time};
use alloc::vec::Vec;

/// Size of the window of numbers in which duplicates are detected; packets overtake by less.
const WINDOW: u64 = 4096;

/// One direction of a stream, whose numbers count from 0.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    from: Time,
    /// Number of the first datagram that counts; those before it were sent in the warm-up.
    first: Option<u64>,
    pub sent: u64,
    pub received: u64,
    bytes: u64,
    delay: Histogram,
    last: Option<Span>,
    jitter_ns: f64,
    jitters: f64,
    /// A bit for each of the newest numbers: whether this datagram has arrived.
    seen: Vec<u64>,
    /// The highest number that has arrived.
    newest: Option<u64>,
}

impl Stream {
    /// Counts datagrams sent from `from` on.
    pub fn new(from: Time) -> Stream {
        Stream {
            from,
            first: None,
            sent: 0,
            received: 0,
            bytes: 0,
            delay: Histogram::new(),
            last: None,
            jitter_ns: 0.0,
            jitters: 0.0,
            seen: alloc::vec![0; WINDOW as usize / 64],
            newest: None,
        }
    }
    /// Counts datagram `number`, which leaves.
    pub fn sent(&mut self, now: Time, number: u64) {
        if now >= self.from {
            self.first.get_or_insert(number);
            self.sent += 1;
        }
    }
    /// Counts an arrival; returns its delay, if it counts and is the first.
    pub fn received(&mut self, now: Time, number: u64, sent: Time, bytes: u16) -> Option<Span> {
        if sent < self.from || !self.is_new(number) {
            return None;
        }
        let delay = now.since(sent);
        self.received += 1;
        self.bytes += u64::from(bytes);
        self.delay.record(delay);
        if let Some(last) = self.last {
            let between = delay.as_ns().abs_diff(last.as_ns()) as f64;
            self.jitter_ns += (between - self.jitter_ns) / 16.0;
            self.jitters += self.jitter_ns;
        }
        self.last = Some(delay);
        Some(delay)
    }
    fn is_new(&mut self, number: u64) -> bool {
        let newest = self.newest.unwrap_or(0);
        if number > newest {
            // Numbers in between have not been seen.
            for n in (newest + 1..=number).take(WINDOW as usize) {
                self.seen[(n % WINDOW / 64) as usize] &= !(1 << (n % 64));
            }
            self.newest = Some(number);
        } else if newest - number >= WINDOW {
            return false;
        }
        self.newest.get_or_insert(number);
        let (word, bit) = ((number % WINDOW / 64) as usize, 1 << (number % 64));
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }
    /// The share of datagrams sent that did not arrive.
    pub fn loss(&self) -> f64 {
        1.0 - self.received as f64 / self.sent as f64
    }
    /// The delays of the datagrams.
    pub fn delays(&self) -> &Histogram {
        &self.delay
    }
    /// Returns the metrics of the stream up to `end`.
    pub fn metrics(&self, end: Time) -> Vec<(&'static str, Metric)> {
        let seconds = end.since(self.from).as_s();
        let jitter = self.jitters / (self.received as f64 - 1.0) / 1e6;
        alloc::vec![
            ("sent_packets", Metric::Count(self.sent)),
            ("received_packets", Metric::Count(self.received)),
            ("loss", Metric::Number(self.loss())),
            (
                "received_mbit",
                Metric::Number(self.bytes as f64 * 8.0 / seconds / 1e6)
            ),
            ("delay_ms", Metric::Quantiles(self.delay.quantiles())),
            (
                "jitter_ms",
                Metric::Number(if self.received < 2 { f64::NAN } else { jitter })
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_counts_and_order_does_not_matter() {
        let mut stream = Stream::new(Time::ZERO);
        let numbers = [0, 2, 1, 1, 2, 5000, 4999, 0, 904, 905, 5000];
        (0..=5000).for_each(|n| stream.sent(Time::ZERO, n));
        let new: Vec<bool> = numbers
            .iter()
            .map(|n| {
                stream
                    .received(Time::ZERO + Span::ms(3), *n, Time::ZERO, 10)
                    .is_some()
            })
            .collect();
        let expected = [
            true, true, true, false, false, true, true, false, false, true, false,
        ];
        assert_eq!(
            (&new[..], stream.received, stream.sent),
            (&expected[..], 6, 5001)
        );
    }
}
