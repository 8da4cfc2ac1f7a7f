//! Traffic shaping as in routers: a token bucket that is filled once per interval, not
//! continuously.
//!
//! Tokens arrive at the ends of intervals of `Tc = Bc / CIR`, counted from the start of the clock.
//! The head of the queue leaves as soon as the bucket holds enough tokens; the bucket starts full.
//!
//! - **shape average**: `Bc` bytes arrive in each interval, and the bucket holds at most `Bc + Be`.
//!   The target is the CIR. An additional burst of `Be` may follow an idle period. At most `Bc + Be
//!   + n Bc` bytes leave in `n` intervals.
//! - **shape peak**: `Bc + Be` bytes arrive in each interval, and the bucket holds at most `Bc +
//!   Be`. The target rate is `CIR (1 + Be / Bc)`, which is twice the CIR if `Be = Bc`.
//!
//! Sources: Cisco, "Policing and Shaping Overview" (IOS 15.1); MWR 2941 command reference, `shape`
//! (formula of the peak rate); Catalyst 4224 configuration guide, "Traffic Shaping". According to
//! the Catalyst guide, `Be` 0 means "no more than the burst size every interval". If the next
//! packet needs more tokens than remain in an interval, these tokens are therefore lost. The actual
//! rate is then below the target rate by up to a packet per interval. Routers may do better: no
//! source states how they treat a packet that needs more tokens than the bucket holds.
//!
//! All arithmetic is exact, as in [`link`](super::link). Only reported instants are rounded (up).

use crate::units::{Bytes, Rate, Time};

/// A token bucket that is filled in steps.
#[derive(Clone, Debug)]
pub struct Shaper {
    /// The duration of an interval, as the bit-nanoseconds of `Bc` bytes: divided by the rate in
    /// bit/s, these are nanoseconds.
    interval: u128,
    cir: u64,
    step: u64,
    depth: u64,
    tokens: u64,
    /// The number of past intervals.
    over: u64,
}

impl Shaper {
    /// Creates the shaper of `shape average CIR Bc Be`.
    pub fn average(cir: Rate, bc: Bytes, be: Bytes) -> Shaper {
        Shaper::new(cir, bc, bc, bc + be)
    }
    /// Creates the shaper of `shape peak CIR Bc Be`.
    pub fn peak(cir: Rate, bc: Bytes, be: Bytes) -> Shaper {
        Shaper::new(cir, bc, bc + be, bc + be)
    }
    fn new(cir: Rate, bc: Bytes, step: Bytes, depth: Bytes) -> Shaper {
        let bc = bc.get().max(1);
        Shaper {
            interval: u128::from(bc) * 8_000_000_000,
            cir: cir.as_bit().max(1),
            step: step.get().max(1),
            depth: depth.get().max(1),
            tokens: depth.get().max(1),
            over: 0,
        }
    }
    /// Returns the target rate.
    pub fn target(&self) -> Rate {
        let bits = u128::from(self.cir) * 8_000_000_000 * u128::from(self.step) / self.interval;
        Rate::bit(u64::try_from(bits).unwrap_or(u64::MAX))
    }
    /// Returns whether a packet of `size` would wait forever.
    pub fn never_passes(&self, size: Bytes) -> bool {
        size.get() > self.depth
    }
    /// Takes the tokens for `size` bytes at `now`, or returns the time when there are enough.
    pub fn take(&mut self, now: Time, size: Bytes) -> Result<(), Time> {
        let over = u128::from(now.as_ns()) * u128::from(self.cir) / self.interval;
        let over = u64::try_from(over).unwrap_or(u64::MAX).max(self.over);
        let came = (over - self.over).saturating_mul(self.step);
        self.over = over;
        self.tokens = self.tokens.saturating_add(came).min(self.depth);
        if let Some(rest) = self.tokens.checked_sub(size.get()) {
            self.tokens = rest;
            return Ok(());
        }
        let more = (size.get() - self.tokens).div_ceil(self.step);
        let at = (u128::from(self.over) + u128::from(more)) * self.interval;
        let ns = u64::try_from(at.div_ceil(u128::from(self.cir))).unwrap_or(u64::MAX);
        Err(Time::from_ns(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    const MSS: Bytes = Bytes::new(1514);

    /// Returns the departure time of each packet of a backlog.
    fn drain(shaper: &mut Shaper, from: Time, packets: usize) -> alloc::vec::Vec<Time> {
        let mut now = from;
        (0..packets)
            .map(|_| {
                while let Err(later) = shaper.take(now, MSS) {
                    assert!(later > now);
                    now = later;
                }
                now
            })
            .collect()
    }

    #[test]
    fn average_shapes_to_the_cir_and_peak_to_its_formula() {
        let (cir, bc) = (Rate::mbit(2), Bytes::new(25_000));
        assert_eq!(Shaper::average(cir, bc, bc).target(), cir);
        assert_eq!(Shaper::peak(cir, bc, bc).target(), Rate::mbit(4));
        assert_eq!(
            Shaper::peak(cir, bc, Bytes::new(12_500)).target(),
            Rate::mbit(3)
        );
        assert_eq!(Shaper::peak(cir, bc, Bytes::ZERO).target(), cir);
    }

    #[test]
    fn a_backlog_is_sent_at_the_target() {
        let (cir, bc) = (Rate::mbit(2), Bytes::new(25_000));
        for (mut shaper, rate, depth) in [
            (Shaper::average(cir, bc, bc), 2_000_000, 50_000),
            // Be absorbs the rest that is smaller than a packet; peak has no such room, and 2 x
            // 25000 B hold 33 packets.
            (Shaper::peak(cir, bc, bc), 33 * 1514 * 8 * 10, 0),
        ] {
            let left = drain(&mut shaper, Time::ZERO, 20_000);
            let sent = 20_000 * 1514 - depth;
            let exact = sent as f64 * 8.0 / rate as f64;
            let took = left[19_999].as_s();
            assert!((took - exact).abs() <= 0.1, "{took} s, not {exact} s");
        }
    }

    #[test]
    fn packets_leave_at_the_ends_of_intervals() {
        // Tc is 100 ms.
        let mut shaper = Shaper::average(Rate::mbit(2), Bytes::new(25_000), Bytes::ZERO);
        let left = drain(&mut shaper, Time::ZERO, 40);
        for (n, at) in left.iter().enumerate() {
            assert_eq!(
                *at,
                Time::ZERO + Span::ms(100 * (n as u64 / 16)),
                "packet {n}"
            );
        }
    }

    #[test]
    fn idleness_earns_be_and_no_more() {
        let mut shaper = Shaper::average(Rate::mbit(2), Bytes::new(15_140), Bytes::new(30_280));
        drain(&mut shaper, Time::ZERO, 30);
        let begin = Time::ZERO + Span::s(60);
        let left = drain(&mut shaper, begin, 31);
        assert_eq!((left[0], left[29]), (begin, begin));
        assert!(left[30] > begin);
        let mut peak = Shaper::peak(Rate::mbit(2), Bytes::new(15_140), Bytes::new(30_280));
        let left = drain(&mut peak, begin, 61);
        // Intervals of 60.56 ms; the 991st begins at 60.01496 s.
        assert_eq!(left[30], Time::from_ns(991 * 60_560_000));
        assert_eq!(left[60], Time::from_ns(992 * 60_560_000));
    }

    #[test]
    fn an_interval_without_a_whole_number_of_nanoseconds_does_not_drift() {
        // Tc = 1514 x 8 / 7 Mbit/s = 1730285.714... ns
        let mut shaper = Shaper::average(Rate::mbit(7), MSS, MSS);
        let left = drain(&mut shaper, Time::ZERO, 1_000_002);
        assert_eq!(
            left[1_000_001],
            Time::from_ns((1514u64 * 8_000_000_000 * 1_000_000).div_ceil(7_000_000))
        );
    }

    #[test]
    fn packets_larger_than_the_bucket_never_pass_and_nothing_overflows() {
        let shaper = Shaper::average(Rate::mbit(2), Bytes::new(1000), Bytes::new(500));
        assert!(shaper.never_passes(MSS) && !shaper.never_passes(Bytes::new(1500)));
        for cir in [0, 1, u64::MAX] {
            let mut shaper =
                Shaper::peak(Rate::bit(cir), Bytes::new(u64::MAX), Bytes::new(u64::MAX));
            assert_eq!(shaper.take(Time::MAX, MSS), Ok(()));
            let mut shaper = Shaper::average(Rate::bit(cir), Bytes::ZERO, Bytes::ZERO);
            let _ = shaper.take(Time::MAX, MSS);
        }
    }
}
