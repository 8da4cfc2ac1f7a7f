//! Byte queue limits: a bound of the bytes in a device, just large enough that the device is never
//! idle while more data waits.
//!
//! ```text
//!   bytes given ▲            ┌── limit + completed: open below, one super-packet may cross it
//!               │        ····┌───
//!               │    ┌───┘
//!               │    │  queued − completed = bytes in the device
//!               └────┴──────────▶ time;  the limit is updated at each completion
//! ```
//!
//! - *Starved*: the limit was too small and grows. A device is starved if a completion empties it
//!   although the bytes in it exceeded the limit. A device is also starved if the bytes in it
//!   exceeded the limit at the last update, but all of them have left since. The limit grows by the
//!   bytes completed beyond those queued by the last update, and by the excess over the limit at
//!   the last update.
//! - *Busy throughout*: the limit may be too large. The slack is `max(limit + over − 2 × completed,
//!   last super-packet − over)`, where `over` is the excess over the limit at the last update, or
//!   zero if that update changed the limit. The second term counts only if there is such an excess.
//!   The minimum slack within one second (`HOLD`) is subtracted from the limit. A shorter interval
//!   would reduce the limit in a lull and starve the device after it.
//! - In any other case the limit is constant. The limit begins at 0, which admits one super-packet
//!   at a time, and grows within a few super-packets.
//!
//! As a result, a device that reports the completion of each super-packet holds about two
//! super-packets. A device that reports all completions of a millisecond at once holds the data of
//! two milliseconds. The limit is then twice the data of one report, and a super-packet may cross
//! it.
//!
//! Sources: Linux 6.12 `lib/dynamic_queue_limits.c` and its description in
//! `include/linux/dynamic_queue_limits.h` (Herbert, "dql: Dynamic queue limits", 3.3). The values
//! of the tests below were computed by hand from these rules. Counters here do not wrap.

use crate::units::{Bytes, Span, Time};

/// Time for which a limit must have been too large before it is reduced (`slack_hold_time`).
const HOLD: Span = Span::s(1);
/// Maximum limit (`DQL_MAX_LIMIT`: half of 32 bits, minus the largest object).
const MOST: u64 = u32::MAX as u64 / 2 - u32::MAX as u64 / 16;

/// The limit of one device.
#[derive(Clone, Debug, Default)]
pub struct Dql {
    limit: u64,
    queued: u64,
    completed: u64,
    last: u64,
    queued_before: u64,
    over_before: u64,
    last_before: u64,
    slack: Option<u64>,
    slack_since: Time,
}

impl Dql {
    /// The number of bytes that may be in the device; one super-packet may exceed it.
    pub fn limit(&self) -> Bytes {
        Bytes::new(self.limit)
    }
    /// Returns whether another super-packet may enter the device. One may cross the limit.
    pub fn open(&self) -> bool {
        self.queued <= self.limit + self.completed
    }
    /// Adds a super-packet of `size` bytes, which enters the device.
    pub fn queued(&mut self, size: Bytes) {
        self.last = size.get();
        self.queued += self.last;
    }
    /// Reports that `size` bytes have left the device, at most those in it, and updates the limit.
    pub fn completed(&mut self, now: Time, size: Bytes) {
        let outstanding = self.queued - self.completed;
        let size = size.get().min(outstanding);
        let completed = self.completed + size;
        let mut over = outstanding.saturating_sub(self.limit);
        let left = self.queued - completed;
        let was_there = self.queued_before > self.completed;
        let all_before = completed >= self.queued_before;
        let mut limit = self.limit;
        if (over > 0 && left == 0) || (self.over_before > 0 && all_before) {
            limit += completed.saturating_sub(self.queued_before) + self.over_before;
            (self.slack, self.slack_since) = (None, now);
        } else if left > 0 && was_there && !all_before {
            let unused = (limit + self.over_before).saturating_sub(2 * size);
            let last = match self.over_before {
                0 => 0,
                over => self.last_before.saturating_sub(over),
            };
            let slack = unused.max(last);
            let least = self.slack.map_or(slack, |s| s.min(slack));
            self.slack = Some(least);
            if now > self.slack_since + HOLD {
                limit = limit.saturating_sub(least);
                (self.slack, self.slack_since) = (None, now);
            }
        }
        limit = limit.min(MOST);
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.completed = completed;
        self.queued_before = self.queued;
        self.over_before = over;
        self.last_before = self.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }

    /// Fills the device with super-packets of `size`; returns their number.
    fn fill(dql: &mut Dql, size: u64) -> u64 {
        let mut n = 0;
        while dql.open() {
            dql.queued(Bytes::new(size));
            n += 1;
        }
        n
    }

    /// Computed by hand from the rules. Full frames of 1514 bytes, one completed at a time.
    #[test]
    fn a_starving_limit_grows_by_the_excess() {
        let mut dql = Dql::default();
        // At first, the limit 0 is open while nothing is outstanding; one crosses it.
        assert_eq!(fill(&mut dql, 1514), 1);
        // It leaves: 1514 were over the limit of 0, and nothing is left. Completed beyond those
        // queued at the last update (0): 1514.
        dql.completed(ms(1), Bytes::new(1514));
        assert_eq!(dql.limit().get(), 1514);
        // 0 and 1514 are within the limit, 3028 are not.
        assert_eq!(fill(&mut dql, 1514), 2);
        // 3028 outstanding, 1514 over; one leaves, one is left. At the last update there was no
        // excess: the limit is constant, and the excess is stored.
        dql.completed(ms(2), Bytes::new(1514));
        assert_eq!((dql.limit().get(), dql.over_before), (1514, 1514));
        // 1514 are outstanding: another enters. It was over (1514) before and 3028 < 4542 had been
        // queued: not all left.
        assert_eq!(fill(&mut dql, 1514), 1);
        dql.completed(ms(3), Bytes::new(1514));
        // 4542 completed ≥ 4542 queued before: all of it has left. It grows by 0 beyond and 1514
        // over.
        assert_eq!(dql.limit().get(), 3028);
        assert_eq!(dql.over_before, 0);
    }

    /// A completion is one of 1514; the limit is ten. Slack: 15140 − 2 × 1514 = 12112, subtracted
    /// after a second.
    #[test]
    fn the_limit_shrinks_by_the_slack_of_a_second() {
        let mut dql = Dql {
            limit: 15_140,
            ..Dql::default()
        };
        let mut now = 0;
        assert_eq!(fill(&mut dql, 1514), 11);
        while now <= 1000 {
            dql.completed(ms(now), Bytes::new(1514));
            assert_eq!(dql.limit().get(), 15_140, "at {now} ms");
            fill(&mut dql, 1514);
            now += 10;
        }
        dql.completed(ms(now), Bytes::new(1514));
        // A whole super-packet crossed the limit (last − over = 0): the unused part counts, with
        // 1514 over.
        assert_eq!(dql.limit().get(), 15_140 - (15_140 + 1514 - 2 * 1514));
    }

    #[test]
    fn an_idle_device_does_not_reduce_the_limit() {
        let mut dql = Dql {
            limit: 15_140,
            ..Dql::default()
        };
        // One at a time, each gone before the next: the device is idle in between, but not for lack
        // of room.
        for i in 0..3000 {
            dql.queued(Bytes::new(1514));
            dql.completed(ms(i), Bytes::new(1514));
        }
        assert_eq!(dql.limit().get(), 15_140);
    }

    /// 100 B and a super-packet of 3000 that crosses the limit of 3000: 100 are over. Then 1000
    /// leave: the slack is 3000 + 100 − 2 × 1000 = 1100, but the super-packet need not have
    /// crossed: 3000 − 100.
    #[test]
    fn a_last_super_packet_that_need_not_have_been_there_is_slack() {
        let mut dql = Dql {
            limit: 3000,
            ..Dql::default()
        };
        dql.queued(Bytes::new(100));
        dql.queued(Bytes::new(3000));
        dql.completed(ms(1), Bytes::new(50));
        dql.completed(ms(1500), Bytes::new(1000));
        assert_eq!(dql.limit().get(), 3000 - 2900);
    }

    #[test]
    fn completions_are_limited_to_the_queued_bytes() {
        let mut dql = Dql::default();
        dql.queued(Bytes::new(100));
        dql.completed(ms(1), Bytes::new(1 << 40));
        assert!(dql.open() && dql.limit().get() == 100);
    }

    /// A device sends `rate` bytes per millisecond, reports completions every `every` ms, and is
    /// always filled, with super-packets of changing sizes. Returns the milliseconds in which it
    /// sent less than possible, and the bytes in it.
    fn run(every: u64, rate: u64, sizes: &[u64], from: u64, until: u64) -> (u64, u64) {
        let mut dql = Dql::default();
        let (mut in_device, mut unreported, mut idle, mut most) = (0u64, 0u64, 0, 0);
        let mut n = 0;
        for now in 0..until {
            while dql.open() {
                let size = sizes[n % sizes.len()];
                n += 1;
                dql.queued(Bytes::new(size));
                in_device += size;
            }
            let sent = in_device.min(rate);
            if now >= from {
                idle += u64::from(sent < rate);
                most = most.max(in_device);
            }
            in_device -= sent;
            unreported += sent;
            if now % every == every - 1 {
                dql.completed(ms(now), Bytes::new(unreported));
                unreported = 0;
            }
        }
        (idle, most)
    }

    /// Tests the purpose: after two seconds of learning, a device with data waiting above it is
    /// never idle. The bytes in the device never exceed the data of three completion reports plus
    /// three super-packets.
    #[test]
    fn a_device_with_work_is_never_idle_and_never_far_ahead() {
        let mut rng = crate::rng::Rng::named(7, "dql");
        for _ in 0..200 {
            let every = 1 + rng.below(8);
            let rate = 1_000 + rng.below(100_000);
            let sizes: alloc::vec::Vec<u64> = (0..1 + rng.below(9))
                .map(|_| 64 + rng.below(65_000))
                .collect();
            let largest = sizes.iter().max().copied().unwrap_or(0);
            let (idle, most) = run(every, rate, &sizes, 2_000, 12_000);
            assert_eq!(idle, 0, "every {every} ms, {rate} B/ms, {sizes:?}");
            let bound = 3 * every * rate + 3 * largest;
            assert!(
                most <= bound,
                "{most} > {bound}: every {every} ms, {rate} B/ms, {sizes:?}"
            );
        }
    }
}
