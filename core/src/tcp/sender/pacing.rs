//! Pacing by the sender: each super-packet has a departure time, and the next one waits for it.
//!
//! Algorithm (Linux's earliest departure time): a super-packet of `len` payload bytes leaves at
//! `wstamp = max(wstamp, now)`. Then `wstamp += len / rate`. If the super-packet was late, its
//! lateness is subtracted from this gap, at most half of the gap. The first ten segments of a
//! connection do not move `wstamp`. A timer with a resolution of nanoseconds, not ticks, fires at
//! `wstamp`.
//!
//! Transmissions by a timeout or a tail loss probe do not wait for `wstamp`. A timer that is armed
//! before the departure of a packet counts from that departure. Sources: Linux 6.12
//! `tcp_update_skb_after_send`, `tcp_pacing_check`, `tcp_pacing_delay`.
//!
//! Before 4.20 ([`Rule::EarliestDepartureTime`]), a super-packet waits for `len / rate` after the
//! last one. Before 4.20, `len` includes one TCP header, lateness is not subtracted, and the first
//! ten segments are paced too. Timers do not count from departures. Before 4.13, only the queue
//! discipline `fq` paces.

use crate::cc::CongestionControl;
use crate::kernel::{Kernel, Rule};
use crate::tcp::{Config, Pacing};
use crate::units::{Rate, Span, Time};

/// Segments that are sent before pacing begins.
const UNPACED: u32 = 10;
/// Bytes of a TCP header with timestamps, which the length of a super-packet included before 4.20.
const TCP_HEADER: u64 = 32;

/// The departure times of one connection.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    /// Whether the connection is paced.
    pub on: bool,
    /// Whether the host's own discipline paces: packets go to it before their departure time.
    pub below: bool,
    by_gaps: bool,
    /// Departure time of the last super-packet; if the connection is paced, the earliest departure
    /// time of the next one.
    pub wstamp: Time,
    /// Time of the timer; [`Time::MAX`] if it is not armed.
    pub due: Time,
    late: Span,
    bytes: u32,
    /// Segments so far; the count ends at [`UNPACED`].
    segments: u32,
}

impl Pacer {
    pub fn new(cfg: &Config, cc: &dyn CongestionControl) -> Pacer {
        let mut pacer = Pacer::of(false, cfg.kernel);
        pacer.ask(cfg, cc);
        pacer
    }
    /// Updates whether the connection is paced, by TCP or by the host's queue discipline.
    pub fn ask(&mut self, cfg: &Config, cc: &dyn CongestionControl) {
        let host_paces = cfg.device.as_ref().is_some_and(|device| device.paces);
        let able = host_paces || cfg.kernel.follows(Rule::PacingInTcp);
        self.on = (cfg.pacing.paces(cc) && able) || (host_paces && cfg.pacing == Pacing::Auto);
        // Packets that do not go to the interface whole have no departure time.
        self.below = self.on && host_paces && !cc.needs_feedback();
    }
    fn of(on: bool, kernel: Kernel) -> Pacer {
        Pacer {
            on,
            below: false,
            by_gaps: !kernel.follows(Rule::EarliestDepartureTime),
            wstamp: Time::ZERO,
            due: Time::MAX,
            late: Span::ZERO,
            bytes: 0,
            segments: 0,
        }
    }
    /// Returns whether a super-packet may leave now. If not, the timer is armed.
    #[inline]
    pub fn may_send(&mut self, now: Time) -> bool {
        if !self.on || self.below || self.wstamp <= now {
            return true;
        }
        if self.due == Time::MAX {
            self.due = self.wstamp;
        }
        false
    }
    /// Returns whether a super-packet must wait and the timer is armed for it: no call of
    /// [`may_send`](Self::may_send) would change anything.
    #[inline]
    pub fn waits(&self, now: Time) -> bool {
        self.on && !self.below && self.wstamp > now && self.due < Time::MAX
    }
    /// Handles the timer; returns whether it was due.
    pub fn fired(&mut self, now: Time) -> bool {
        let fired = self.due <= now;
        if fired {
            self.due = Time::MAX;
        }
        fired
    }
    /// Begins a super-packet; returns its departure time.
    #[inline]
    pub fn begin(&mut self, now: Time) -> Time {
        let at = self.wstamp.max(now);
        self.late = at.since(self.wstamp);
        self.wstamp = at;
        self.bytes = 0;
        at
    }
    /// Adds segments to it.
    #[inline]
    pub fn add(&mut self, bytes: u64, segments: u64) {
        self.bytes += bytes as u32;
        self.segments = (self.segments + segments as u32).min(UNPACED);
    }
    /// Payload of the super-packet so far.
    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }
    /// Ends the super-packet, with the pacing `rate`.
    #[inline]
    pub fn end(&mut self, now: Time, rate: Rate) {
        let bytes_per_s = rate.as_bit() / 8;
        if !self.on || bytes_per_s == 0 || bytes_per_s == u64::MAX / 8 {
            return;
        }
        if self.by_gaps {
            self.wstamp = now.max(self.wstamp)
                + Span::ns((u64::from(self.bytes) + TCP_HEADER) * 1_000_000_000 / bytes_per_s);
            return;
        }
        if self.segments >= UNPACED {
            let gap = u64::from(self.bytes) * 1_000_000_000 / bytes_per_s;
            self.wstamp += Span::ns(gap - (gap / 2).min(self.late.as_ns()));
        }
    }
    /// The timestamp of a segment sent now: its departure time, if the host's discipline keeps it.
    /// Before departure times were introduced, `now`.
    pub fn stamped(&self, now: Time) -> Time {
        if self.below && !self.by_gaps {
            self.wstamp.max(now)
        } else {
            now
        }
    }
    /// Time until the next departure.
    #[inline]
    pub fn delay(&self, now: Time) -> Span {
        if self.on && !self.by_gaps && self.wstamp > now {
            self.wstamp.since(now)
        } else {
            Span::ZERO
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(pacer: &mut Pacer, now: Time, segments: u64, rate: Rate) {
        pacer.begin(now);
        pacer.add(segments * 1448, segments);
        pacer.end(now, rate);
    }

    /// The first departures of BBR over 50 Mbit/s and 40 ms, as in Linux 6.12 in virtual time. Ten
    /// leave at once, then two after the first ACK, then gaps of 2.7996 ms follow. The first gap is
    /// halved, because the flow had waited.
    #[test]
    fn departures_are_those_of_linux() {
        let mut pacer = Pacer::of(true, Kernel::default());
        // 0.99 · 739/256 · 10 segments in 40 ms, in bytes per second as Linux rounds it.
        let rate = Rate::bit(1_034_500 * 8);
        let ms = |ms: u64| Time::ZERO + Span::ms(ms);
        for segments in [2, 8] {
            assert!(pacer.may_send(ms(0)));
            burst(&mut pacer, ms(0), segments, rate);
        }
        assert!(pacer.may_send(ms(40)));
        burst(&mut pacer, ms(40), 2, rate);
        assert!(!pacer.may_send(ms(40)));
        assert_eq!(pacer.due.since(ms(40)).as_us(), 1399);
        let now = pacer.due;
        assert!(pacer.fired(now));
        burst(&mut pacer, now, 2, rate);
        assert_eq!(pacer.wstamp.since(now).as_us(), 2799);
    }

    #[test]
    fn before_departure_times_gaps_count_from_the_last_departure() {
        let mut pacer = Pacer::of(true, Kernel::published(4, 15));
        burst(&mut pacer, Time::ZERO + Span::ms(5), 1, Rate::mbit(8));
        assert_eq!(pacer.wstamp, Time::ZERO + Span::us(5000 + 1480));
        assert_eq!(pacer.delay(Time::ZERO + Span::ms(5)), Span::ZERO);
    }
}
