//! The circuit breaker of a flow (RFC 8084).
//!
//! It ends a flow if more than half of its packets were lost in each of three consecutive
//! intervals. An interval has at least one second and ten round trips. A flow with a working
//! congestion control loses far fewer. To lose half of its packets, it must send twice as fast as
//! the path delivers. An interval with few packets does not
//! count, since the retransmission timer already limits the rate. The breaker also ends a flow
//! whose peer sends nothing for [`SILENT`], because a sender needs feedback (RFC 8084 section 4).
//!
//! RFC 8084 leaves the threshold to the application. A lower threshold would end valid measurements
//! of congestion controls that tolerate random loss, such as BBR.

use narrows_core::units::{Span, Time};

/// Number of consecutive intervals.
const INTERVALS: u32 = 3;
/// Shortest interval, and the same in round trips.
const LEAST: (Span, u64) = (Span::s(1), 10);
/// Number of sent packets from which on an interval counts.
const PACKETS: u64 = 20;
/// Time without a datagram of the peer after which the flow ends.
pub const SILENT: Span = Span::s(15);

/// Why the breaker ended a flow.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Tripped {
    /// Losses.
    Loss,
    /// No feedback.
    Silence,
}

impl Tripped {
    /// The reason for users.
    pub fn text(self) -> &'static str {
        match self {
            Tripped::Loss => {
                "the circuit breaker ended the flow: the path lost more than half of its packets \
                 for three intervals"
            }
            Tripped::Silence => {
                "the circuit breaker ended the flow: the other end sent nothing for 15 s"
            }
        }
    }
}

/// Counters of a sender.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Bytes sent, including retransmissions.
    pub sent: u64,
    /// Bytes retransmitted, each of which was lost, or considered lost.
    pub resent: u64,
    /// Payload of a packet, bytes.
    pub payload: u64,
}

/// The breaker of one flow.
#[derive(Clone, Debug)]
pub struct Breaker {
    /// End of the interval in progress.
    ends: Time,
    /// Counters at its start.
    counts: Counts,
    /// Number of consecutive intervals with too many losses.
    bad: u32,
}

impl Breaker {
    /// A breaker whose first interval starts now.
    pub fn new(now: Time) -> Breaker {
        Breaker {
            ends: now + LEAST.0,
            counts: Counts::default(),
            bad: 0,
        }
    }
    /// The time at which [`check`](Self::check) must be called.
    pub fn due(&self) -> Time {
        self.ends
    }
    /// Ends the interval if its time has passed. Returns why the flow must end, if it must. `srtt`:
    /// the smoothed round-trip time; `heard`: arrival of the last datagram of the peer.
    pub fn check(&mut self, now: Time, srtt: Span, heard: Time, counts: Counts) -> Option<Tripped> {
        if now.since(heard) > SILENT {
            return Some(Tripped::Silence);
        }
        if now < self.ends {
            return None;
        }
        let sent = counts.sent.saturating_sub(self.counts.sent);
        let resent = counts.resent.saturating_sub(self.counts.resent);
        self.counts = counts;
        self.ends = now + LEAST.0.max(Span::ns(srtt.as_ns().saturating_mul(LEAST.1)));
        if sent >= PACKETS * counts.payload {
            self.bad = if 2 * resent > sent { self.bad + 1 } else { 0 };
        }
        (self.bad >= INTERVALS).then_some(Tripped::Loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of one second in which 1000 packets leave, of which `resent` are retransmissions.
    fn after(resent: &[u64], packets: u64) -> Option<Tripped> {
        let start = Time::ZERO + Span::s(1);
        let mut breaker = Breaker::new(start);
        let mut counts = Counts {
            payload: 1448,
            ..Counts::default()
        };
        let (mut now, mut tripped) = (start, None);
        for resent in resent {
            now += Span::s(1);
            counts.sent += packets * 1448;
            counts.resent += resent * 1448;
            tripped = tripped.or(breaker.check(now, Span::ms(50), now, counts));
        }
        tripped
    }

    #[test]
    fn three_intervals_with_more_than_half_lost_end_a_flow() {
        assert_eq!(after(&[501, 501], 1000), None);
        assert_eq!(after(&[501, 501, 501], 1000), Some(Tripped::Loss));
        assert_eq!(after(&[501, 501, 499, 501, 501], 1000), None);
        assert_eq!(after(&[500; 10], 1000), None);
    }

    #[test]
    fn a_flow_that_only_its_timer_sends_goes_on() {
        assert_eq!(after(&[2; 10], 2), None);
    }

    #[test]
    fn a_silent_peer_ends_a_flow() {
        let start = Time::ZERO + Span::s(1);
        let mut breaker = Breaker::new(start);
        let mut check = |s| {
            let now = start + Span::s(s);
            breaker.check(now, Span::ms(1), start, Counts::default())
        };
        assert_eq!(check(15), None);
        assert_eq!(check(16), Some(Tripped::Silence));
    }
}
