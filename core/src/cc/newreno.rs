//! NewReno: Reno's window without SACK, where duplicate ACKs alone report losses.
//!
//! Algorithm: the window is [Reno](super::reno)'s. The third duplicate ACK marks the first segment
//! lost and begins recovery. Each duplicate ACK before recovery allows the transmission of one new
//! segment; in recovery, PRR determines how many segments leave. A partial ACK acknowledges new
//! data in recovery without ending recovery. A partial ACK also marks the first unacknowledged
//! segment lost. Thus one lost segment per round trip is retransmitted. Recovery ends when data
//! beyond the last byte that was sent before recovery is acknowledged.
//!
//! Sources: RFC 6582 (which obsoletes 3782 and 2582); RFC 3042 (limited transmit); Linux 6.12 with
//! `net.ipv4.tcp_sack=0`. `tcp::sender::dupack` implements the algorithm and lists the deviations
//! of Linux from the RFCs; this file only requires a connection without SACK.

use super::reno::Reno;
use super::{CcKind, Family, Need};
use alloc::boxed::Box;

/// The registry entry.
pub const KIND: CcKind = CcKind {
    name: "newreno",
    help: "Reno without SACK: duplicate ACKs indicate losses, of which one per RTT is repaired",
    source: "RFC 6582; Linux 6.12 without SACK",
    family: Family::Loss,
    year: 1996,
    needs: &[Need::NoSack],
    default_in: &[],
    params: &[],
    make: &|_, _| Box::new(Reno),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::wire::{AckSegment, Segment};
    use crate::tcp::{Config, EcnNegotiation, MSS, Receiver, Sender, State};
    use crate::units::{Span, Time};
    use alloc::vec::Vec;

    const WINDOW: u64 = 1 << 20;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::ms(ms)
    }
    fn number(s: &Segment) -> u64 {
        s.seq / u64::from(MSS)
    }

    /// A sender that has sent segments 0 to 9, 40 ms after its SYN.
    struct Test {
        sender: Sender,
        window: u64,
        /// The first segment that the last ACK did not acknowledge.
        acked: u64,
        /// The first segment that has not been sent.
        next: u64,
    }

    impl Test {
        fn begun() -> Test {
            Test::behind(WINDOW)
        }
        /// As `begun`, with a peer that offers a receive window of `window` bytes.
        fn behind(window: u64) -> Test {
            let config = Config::default().under(KIND.signals(), EcnNegotiation::Off);
            let mut sender = Sender::new(
                config.into(),
                (KIND.make)(&Default::default(), &Default::default()),
                None,
            );
            sender.connect(at(0), &mut |_| ());
            let syn_ack = AckSegment {
                syn: true,
                window,
                ..AckSegment::default()
            };
            let mut sent = Vec::new();
            sender.on_segment(at(40), &syn_ack, &mut |s| sent.push(number(&s)));
            assert_eq!(sent[1..], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
            Test {
                sender,
                window,
                acked: 0,
                next: 10,
            }
        }
        /// An ACK for everything below segment `next`; returns the segments that leave.
        fn ack(&mut self, ms: u64, next: u64) -> Vec<u64> {
            self.acked = next;
            let ack = AckSegment {
                ack: next * u64::from(MSS),
                window: self.window,
                tsecr: ms as u32 - 40,
                ..AckSegment::default()
            };
            let mut sent = Vec::new();
            self.sender
                .on_segment(at(ms), &ack, &mut |s| sent.push(number(&s)));
            // The application was woken.
            if self.sender.next_wakeup().is_some_and(|t| t <= at(ms)) {
                self.sender.on_timer(at(ms), &mut |s| sent.push(number(&s)));
            }
            self.next = sent.iter().fold(self.next, |next, &n| next.max(n + 1));
            sent
        }
        fn duplicate(&mut self, ms: u64) -> Vec<u64> {
            self.ack(ms, self.acked)
        }
        /// `n` duplicates from 80 ms on, 2 ms apart, each handled at its time.
        fn duplicates(&mut self, n: u64) -> Vec<Vec<u64>> {
            (0..n).map(|i| self.duplicate(80 + 2 * i)).collect()
        }
        fn in_flight(&self) -> u32 {
            self.sender.info().in_flight
        }
    }

    #[test]
    fn each_of_the_first_two_dupacks_sends_a_new_segment() {
        let mut t = Test::begun();
        assert_eq!(t.duplicates(2), [[10], [11]]);
        assert_eq!(
            (t.sender.info().state, t.in_flight()),
            (State::Disorder, 10)
        );
    }

    #[test]
    fn the_third_dupack_marks_the_first_segment_lost() {
        let mut t = Test::begun();
        assert_eq!(t.duplicates(3)[2], [0]);
        let info = t.sender.info();
        assert_eq!((info.state, info.ssthresh), (State::Recovery, Some(5)));
    }

    /// Segments 0 and 4 are lost. Segments 1 to 3 and 5 to 11 cause ten duplicates. The
    /// retransmission of 0 causes an ACK for 4, which shows the second loss.
    #[test]
    fn a_partial_ack_marks_the_next_segment_lost() {
        let mut t = Test::begun();
        t.duplicates(10);
        assert!(t.ack(130, 4).starts_with(&[4]));
        assert_eq!(t.sender.info().state, State::Recovery);
        // It also subtracts three duplicates; segment 4 is lost and already retransmitted.
        assert_eq!(t.in_flight(), (t.next - 4) as u32 - (10 - 3));
    }

    #[test]
    fn segments_counted_by_dupacks_are_not_in_flight() {
        let mut t = Test::begun();
        let window = t.sender.info().cwnd;
        t.duplicates(3);
        let info = t.sender.info();
        // Twelve left, three have arrived, one is lost and already retransmitted.
        assert_eq!(
            (window, info.in_flight, info.delivered),
            (10, 12 - 3, 1 + 3)
        );
    }

    /// At least one of the segments in flight is missing. If there are more duplicates than other
    /// segments, the path reorders: from then on three duplicates are not enough.
    #[test]
    fn more_duplicates_than_segments_are_reordering() {
        let mut t = Test::behind(40 * u64::from(MSS));
        t.duplicates(60);
        assert!(t.in_flight() >= 1);
        let delivered = t.sender.info().delivered;
        t.duplicate(200);
        assert_eq!(t.sender.info().delivered, delivered);
        t.ack(240, t.next);
        assert_eq!(t.sender.info().state, State::Open);
        for ms in [280, 282, 284] {
            t.duplicate(ms);
        }
        assert_eq!(t.sender.info().state, State::Disorder);
    }

    /// Recovery began when segments up to 11 had left. An ACK for exactly these segments does not
    /// end recovery, and duplicates after it begin no new one. The next ACK of more data ends it,
    /// without an undo.
    #[test]
    fn recovery_ends_after_all_data_sent_before_it_are_acknowledged() {
        let mut t = Test::begun();
        t.duplicates(11);
        t.ack(130, 12);
        assert_eq!(t.sender.info().state, State::Recovery);
        for _ in 0..3 {
            assert!(!t.duplicate(131).contains(&12));
        }
        t.ack(172, 13);
        let info = t.sender.info();
        assert_eq!(
            (info.state, info.cwnd, info.ssthresh),
            (State::Open, 5, Some(5))
        );
    }

    #[test]
    fn a_timeout_marks_all_segments_lost_without_an_earlier_probe() {
        let mut t = Test::begun();
        // 40 ms and the minimum variance, 200 ms; a probe would come after 80 ms.
        let fires = t.sender.next_wakeup().unwrap();
        assert!(fires >= at(280), "{fires:?}");
        t.duplicate(80);
        let fires = t.sender.next_wakeup().unwrap();
        let mut sent = Vec::new();
        t.sender.on_timer(fires, &mut |s| sent.push(number(&s)));
        let info = t.sender.info();
        assert_eq!(
            (sent, info.state, info.in_flight),
            (alloc::vec![0], State::Loss, 1)
        );
    }

    /// Segments 0 and 2 are lost at first. Each of the other segments causes an ACK without SACK,
    /// and so does a duplicate segment.
    #[test]
    fn the_receiver_sends_no_sack_and_acknowledges_every_segment() {
        let mut receiver =
            Receiver::new(&Config::default().under(KIND.signals(), EcnNegotiation::Off));
        let mut acks = Vec::new();
        let mut arrive = |ms: u64, seg: Segment| {
            receiver.on_segment(at(ms), &seg, &mut |a| {
                acks.push((a.ack / u64::from(MSS), a.n_sacks, a.window))
            });
        };
        let syn = Segment {
            syn: true,
            ..Segment::default()
        };
        let data = |n: u64| Segment {
            seq: n * u64::from(MSS),
            len: MSS,
            ..Segment::default()
        };
        arrive(0, syn);
        arrive(40, Segment::default());
        for n in [1, 3, 4, 5, 6, 7, 8, 0, 0, 2] {
            arrive(41, data(n));
        }
        let at: Vec<_> = acks.iter().skip(1).map(|a| a.0).collect();
        assert_eq!(at, [0, 0, 0, 0, 0, 0, 0, 2, 2, 9]);
        assert!(acks.iter().all(|a| a.1 == 0));
        // While a segment is missing the window is constant, because its ACKs must be duplicates.
        assert!(acks[1..8].iter().all(|a| a.2 == acks[1].2), "{acks:?}");
        assert!(acks[10].2 > acks[1].2);
    }
}
