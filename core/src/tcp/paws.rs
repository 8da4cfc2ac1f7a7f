//! Protection against wrapped sequence numbers (PAWS), which also rejects packets on paths that
//! reorder.
//!
//! A packet is rejected if its timestamp is more than 1 ms (one tick of the timestamp clock) older
//! than the newest accepted one. The receiver compares with segments that start at or below its
//! last ACK number, the sender with ACKs. Rejected data is answered with an ACK, and with a DSACK
//! if the data is a duplicate; the acknowledgement in it is ignored. A duplicate ACK with an old
//! timestamp is accepted if it repeats the last ACK number, its window is not larger, and it is
//! recent. A duplicate ACK is recent if its timestamp is older than the newest one by at most one
//! retransmission timeout.
//!
//! Once a retransmission has filled the first hole, the receiver therefore rejects segments that
//! were sent before the retransmission but arrive after it. A sender ignores an ACK if another ACK
//! that was sent at least two milliseconds later has overtaken it.
//!
//! Source: RFC 7323 section 5; Linux 6.12 `tcp_validate_incoming`, `tcp_disordered_ack`. The
//! rejections were measured over a path of 18.7 Mbit/s, 31.8 ms RTT and ±2 ms of jitter. In 6 s,
//! Linux's receiver rejects 12 of 8700 segments of a CUBIC flow. All rejected segments are beyond a
//! hole, and the flow reduces its window because of them. With ±2 ms on the reverse path, the
//! senders of a BBR and a CUBIC flow reject 1186 ACKs in 10 s. Deviation: the ACK in answer to a
//! rejected ACK (at most one in half a second) is left out.

/// The time by which a timestamp may be older than the newest one, ms (`TCP_PAWS_WINDOW`).
const TOLERATED: u32 = 1;

/// Returns whether the timestamp `stamp` is too old compared with the newest one.
pub(super) fn is_past(newest: u32, stamp: u32) -> bool {
    newest > stamp.saturating_add(TOLERATED)
}

/// Returns whether the timestamp of a duplicate ACK is older than the newest one by at most one
/// retransmission timeout. The peer's timestamp clock is assumed to tick at most 1200 times per
/// second.
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

    /// As on Linux 6.12: segment 1 was lost and is retransmitted in millisecond 24. Then segments
    /// 6, sent in 20, and 7, sent in 23, arrive.
    #[test]
    fn paws_rejects_segments_older_than_an_overtaking_retransmit() {
        let mut receiver = Receiver::new(&Config::default());
        receiver.accept(at(0), 30_000, crate::tcp::EcnUse::Off);
        for (n, sent) in [(0, 10), (3, 11), (4, 11), (5, 12)] {
            arrives(&mut receiver, n, sent, 40);
        }
        arrives(&mut receiver, 1, 24, 54);
        let refused = arrives(&mut receiver, 6, 20, 55);
        let taken = arrives(&mut receiver, 7, 23, 56);
        let fields = |acks: &[AckSegment]| acks.first().map(|a| (a.ack, a.n_sacks, a.sacks[0]));
        assert_eq!(fields(&refused), Some((range(0, 2).end, 1, range(3, 6))));
        assert_eq!(fields(&taken), Some((range(0, 2).end, 2, range(7, 8))));
    }

    /// Duplicates are reported, with an old timestamp or without.
    #[test]
    fn an_old_duplicate_is_reported_by_dsack() {
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

    /// An ACK of two segments that SACKs a third is ignored if it is two milliseconds older than an
    /// ACK before it. One of a millisecond is not.
    #[test]
    fn an_ack_overtaken_by_two_milliseconds_is_ignored() {
        let sacked = |age: u32| {
            let mut sender = Sender::new(Config::default().into(), Box::new(Reno), None);
            sender.connect(at(0), &mut |_| ());
            let mut receives = |ms: u64, syn: bool, tsval: u32, sacked: Option<u64>| {
                let mut ack = AckSegment {
                    ack: if ms > 60 { range(0, 2).end } else { 0 },
                    window: 1 << 20,
                    syn,
                    tsval,
                    ..AckSegment::default()
                };
                if let Some(n) = sacked {
                    (ack.n_sacks, ack.sacks[0]) = (1, range(n, n + 1));
                }
                sender.on_segment(at(ms), &ack, &mut |_| ());
            };
            receives(30, true, 15, None);
            receives(60, false, 50, Some(5));
            receives(61, false, 50 - age, Some(3));
            sender.info().bytes_acked / u64::from(MSS)
        };
        assert_eq!([0, 1, 2].map(sacked), [2, 2, 0]);
    }

    #[test]
    fn a_duplicate_may_be_as_old_as_a_timeout() {
        assert!(super::is_past(1000, 998) && !super::is_past(1000, 999) && !super::is_past(0, 5));
        assert!(super::is_recent_duplicate(1000, 760, 200_000));
        assert!(!super::is_recent_duplicate(1000, 759, 200_000));
    }
}
