//! Protection against wrapped sequence numbers (PAWS), which on paths that reorder costs packets.
//!
//! Law: what carries a timestamp more than one tick of its clock (1 ms) older than the newest that
//! came with what was due is refused, however good it is. Data is answered with an ACK, and with
//! what was seen before (DSACK) if it was; the ACK itself tells nothing new. Of ACKs those pass
//! that are plain duplicates: the same ACK number, no wider a window, and younger than a timeout.
//!
//! So a repair that fills the first hole makes its receiver refuse what was sent before it and
//! comes after it, and a sender takes no news from an ACK that another has overtaken by two
//! milliseconds.
//!
//! Source: RFC 7323 section 5; Linux 6.12 `tcp_validate_incoming`, `tcp_disordered_ack`. Over 18.7
//! Mbit/s, 31.8 ms and ±2 ms of jitter Linux's receiver refuses 12 of 8700 segments of a CUBIC flow
//! in 6 s, all beyond a hole, and the flow reduces its window for them; over ±2 ms on the way back
//! a BBR and a CUBIC flow refuse 1186 ACKs in 10 s. Left out: the ACK, one in half a second at
//! most, with which a sender answers an ACK that it refuses.

/// By how much a timestamp may be older, ms (`TCP_PAWS_WINDOW`).
const TOLERATED: u32 = 1;

/// Is `stamp` too old beside the newest one seen?
pub(super) fn is_past(newest: u32, stamp: u32) -> bool {
    newest > stamp.saturating_add(TOLERATED)
}

/// May a plain duplicate be as old as that? A clock is thought to tick 1200 times a second at most.
pub(super) fn is_recent_duplicate(newest: u32, stamp: u32, timeout_us: u64) -> bool {
    u64::from(newest - stamp) <= timeout_us * 1200 / 1_000_000
}

#[cfg(test)]
mod tests {
    use crate::cc::reno::Reno;
    use crate::tcp::wire::{AckSegment, Range, Segment};
    use crate::tcp::{Config, MSS, Receiver, Sender};
    use crate::units::{Span, Time};
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }
    fn range(from: u64, to: u64) -> Range {
        let mss = u64::from(MSS);
        Range {
            start: from * mss,
            end: to * mss,
        }
    }
    fn arrives(receiver: &mut Receiver, n: u64, sent: u32, ms: u64) -> Vec<AckSegment> {
        let mut acks = Vec::new();
        let seg = Segment {
            seq: n * u64::from(MSS),
            len: MSS,
            tsval: sent,
            ..Segment::default()
        };
        receiver.on_segment(at(ms), &seg, &mut |ack| acks.push(ack));
        acks
    }

    /// As on Linux 6.12: segment 1 was lost and is sent again in millisecond 24; then come 6, sent
    /// in 20, and 7, sent in 23.
    #[test]
    fn a_repair_that_overtakes_makes_the_receiver_refuse_what_comes_after() {
        let mut receiver = Receiver::new(&Config::default());
        receiver.accept(at(0), 30_000, crate::tcp::EcnUse::Off);
        for (n, sent) in [(0, 10), (3, 11), (4, 11), (5, 12)] {
            arrives(&mut receiver, n, sent, 40);
        }
        arrives(&mut receiver, 1, 24, 54);
        let refused = arrives(&mut receiver, 6, 20, 55);
        let taken = arrives(&mut receiver, 7, 23, 56);
        let told = |acks: &[AckSegment]| acks.first().map(|a| (a.ack, a.n_sacks, a.sacks[0]));
        assert_eq!(told(&refused), Some((range(0, 2).end, 1, range(3, 6))));
        assert_eq!(told(&taken), Some((range(0, 2).end, 2, range(7, 8))));
    }

    /// What was seen before is told of, from the past or not.
    #[test]
    fn what_was_seen_before_is_told_of() {
        let mut receiver = Receiver::new(&Config::default());
        receiver.accept(at(0), 30_000, crate::tcp::EcnUse::Off);
        arrives(&mut receiver, 0, 10, 40);
        arrives(&mut receiver, 1, 24, 54);
        let acks = arrives(&mut receiver, 1, 12, 55);
        assert_eq!(
            acks.first().map(|a| (a.ack, a.sacks[0])),
            Some((range(0, 2).end, range(1, 2)))
        );
    }

    /// The ACK of two segments of which a third is selected, two milliseconds older than one that
    /// came before, says nothing; one of a millisecond does.
    #[test]
    fn an_ack_that_was_overtaken_by_two_milliseconds_says_nothing() {
        let selected = |age: u32| {
            let mut sender = Sender::new(Config::default().into(), Box::new(Reno), None);
            sender.connect(at(0), &mut |_| ());
            let mut tells = |ms: u64, syn: bool, tsval: u32, selected: Option<u64>| {
                let mut ack = AckSegment {
                    ack: if ms > 60 { range(0, 2).end } else { 0 },
                    window: 1 << 20,
                    syn,
                    tsval,
                    ..AckSegment::default()
                };
                if let Some(n) = selected {
                    (ack.n_sacks, ack.sacks[0]) = (1, range(n, n + 1));
                }
                sender.on_segment(at(ms), &ack, &mut |_| ());
            };
            tells(30, true, 15, None);
            tells(60, false, 50, Some(5));
            tells(61, false, 50 - age, Some(3));
            sender.info().bytes_acked / u64::from(MSS)
        };
        assert_eq!([0, 1, 2].map(selected), [2, 2, 0]);
    }

    #[test]
    fn a_duplicate_may_be_as_old_as_a_timeout() {
        assert!(super::is_past(1000, 998) && !super::is_past(1000, 999) && !super::is_past(0, 5));
        assert!(super::is_recent_duplicate(1000, 760, 200_000));
        assert!(!super::is_recent_duplicate(1000, 759, 200_000));
    }
}
