//! ECN at the sender: negotiation, and the response to marks.
//!
//! Algorithm: a SYN with ECE and CWR requests ECN, a SYN-ACK with ECE agrees. A retransmitted SYN
//! does not request ECN (`tcp_ecn_fallback`). After agreement, new data leaves as ECT(0), or as
//! ECT(1) with Counted. An ACK with ECE in Open or Disorder begins a reduction. The state becomes
//! Cwr, and PRR reduces the window to the threshold of the congestion control. The reduction ends
//! when data sent after its begin is acknowledged. In Cwr, Recovery and Loss, an ACK with ECE
//! begins no further reduction. In Recovery and Loss, an ACK with ECE prevents an undo of the
//! present reduction. There are four kinds ([`EcnUse`]):
//!
//! | | other ECN-capable packets | marks reported by an ACK | feedback to the receiver |
//! |---|---|---|---|
//! | Latched | none | with ECE: every packet it delivers | CWR after a reduction |
//! | Echoed | SYN, ACKs, retransmissions | as Latched | CWR, without effect |
//! | Counted | the same; all as ECT(1) | the increase of its counter (ACE) | none |
//! | Accurate | ACKs, retransmissions | the increase of its counter and of its option | none |
//!
//! CWR is on the next new segment, the first of its super-packet. If a sender requests Counted and
//! the answer is that of RFC 3168, the kind is Latched.
//!
//! The counter has three bits, so it may wrap if an ACK delivers more than seven packets. In this
//! case, the increase is taken as the greatest one with these three bits that does not exceed the
//! number of delivered packets. With Accurate, the option decides whether the counter has wrapped
//! ([`Accurate::marks`]).
//!
//! With Accurate, every segment has the option ([`TcpOptions::AccEcn`]), and so has an ACK with
//! room for it. A full segment has 1436 bytes of payload instead of 1448. The first retransmission
//! of the SYN still requests Accurate.
//!
//! Sources: RFC 3168 sections 6.1, 6.1.1.1, 6.1.2; RFC 8257 sections 3.1, 3.5; RFC 9768 section
//! 3.1.2, 3.2.2.5.2 and appendix A.2; Linux 6.12. `core/tests/replay.rs` reproduces Linux's
//! behaviour with Latched packet by packet. Counted has only the counter of RFC 9768, without the
//! TCP option; SYN and SYN-ACK only negotiate it. With Counted, the counter of an ACK that delivers
//! no data is not read, because the ACK may be an old one.
//!
//! Accurate follows Linux 7.3 (`tcp_ecn` 3 at both ends, `tcp_ecn_option` 2): `tcp_ecn.h`,
//! `__tcp_accecn_process`. Deviations: the SYN of DCTCP is not ECN-capable, and a repeated SYN-ACK
//! still agrees. The checks for middleboxes that clear fields are absent, because no path of
//! narrows clears them.

use super::input::News;
use super::{Sender, Time};
use crate::cc::Cause;
use crate::packet::Ecn as Bits;
use crate::tcp::wire::{AckSegment, MarkedBytes, Segment};
use crate::tcp::{Config, EcnUse, State};
use crate::transport::TcpOptions;

/// The modulus of the counter.
const ROUND: u32 = 8;
/// The initial value of the counter.
pub(in crate::tcp) const FIRST_ACE: u8 = 5;

/// The sender's state of ECN.
#[derive(Clone, Debug, Default)]
pub(super) struct Ecn {
    /// The kind that the SYN requests.
    asks: EcnUse,
    /// The kind that both ends agreed on.
    how: EcnUse,
    /// The code point of all packets except new data.
    pub control: Bits,
    /// The next new segment carries CWR.
    cwr_due: bool,
    /// The receiver's counter in the last ACK.
    ace: u8,
    /// The timestamp of the present ACK is newer than all before.
    pub newer: bool,
    accurate: Accurate,
}

/// The sender's state of accurate ECN.
#[derive(Clone, Debug, Default)]
struct Accurate {
    /// The counters of the last option, and the bytes delivered since then by their estimated code
    /// point.
    bytes: MarkedBytes,
    /// The estimated code point of data that an ACK without option delivers.
    usual: Option<Counter>,
    /// Average of packets per ACK, in 1/64 packet; 0 before the first one.
    per_ack: u32,
}

/// A counter of the AccECN option.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Counter {
    Ect0,
    Ce,
}

/// Unit of the average of packets per ACK, and the weight of a new ACK: 2⁻⁶.
const PER_ACK_SHIFT: u32 = 6;
/// Above this average of packets per ACK, ACKs are compressed, and the counter is assumed not to
/// have wrapped.
const COMPRESSED_ACKS: u32 = 4 << PER_ACK_SHIFT;
/// The counters of the option have 24 bits.
const COUNTER_BITS: u32 = 24;

impl Accurate {
    /// Returns the number of marks that an ACK reports. The ACK delivered `delivered` packets with
    /// `bytes` of payload; `known`: marks so far; `ordered`: SACK is in use, or no data is missing.
    ///
    /// For an ACK that delivers up to seven packets, the counter alone decides. For more packets,
    /// the bytes of the option decide between the smallest and the greatest increase with the
    /// counter's three bits. For 16 packets and more, the share of marked bytes gives an estimate
    /// between the smallest and the greatest increase. Without the option, the smallest increase
    /// counts if ACKs of more than four packets are usual, and the greatest otherwise.
    fn marks(
        &mut self,
        ack: &AckSegment,
        known: u64,
        delivered: u32,
        bytes: u64,
        (ordered, mss): (bool, u32),
    ) -> u32 {
        let before = self.bytes.ce;
        let valid = self.read_option(ack, bytes);
        if delivered > 0 {
            let per_ack = delivered << PER_ACK_SHIFT;
            self.per_ack = match self.per_ack {
                0 => per_ack,
                old => ((old << PER_ACK_SHIFT) - old + per_ack) >> PER_ACK_SHIFT,
            }
            .min(u32::from(u16::MAX));
        }
        let ace = u32::from(ack.marks.ace()) + ROUND - u32::from(FIRST_ACE);
        let least = ace.wrapping_sub(known as u32) % ROUND;
        if delivered < ROUND {
            return least;
        }
        let most = delivered - (delivered - least) % ROUND;
        if !valid {
            return if self.per_ack > COMPRESSED_ACKS {
                least
            } else {
                most
            };
        }
        let marked = u64::from(self.bytes.ce.wrapping_sub(before));
        let mss = u64::from(mss);
        if marked == 0 {
            least
        } else if delivered >= 2 * ROUND && ordered {
            if bytes <= marked {
                return most;
            }
            let share = (marked * u64::from(delivered)).div_ceil(bytes) as u32;
            most.min(least + share / ROUND * ROUND)
        } else if marked > u64::from(least) * mss || 2 * marked >= u64::from(most) * mss {
            most
        } else {
            least
        }
    }

    /// Updates the byte counters by an ACK that delivered `bytes` of payload. Returns whether the
    /// increase of the bytes with CE is known.
    fn read_option(&mut self, ack: &AckSegment, bytes: u64) -> bool {
        let Some(told) = ack.bytes() else {
            match self.usual {
                Some(Counter::Ect0) => self.bytes.ect0 = self.bytes.ect0.wrapping_add(bytes as u32),
                Some(Counter::Ce) => self.bytes.ce = self.bytes.ce.wrapping_add(bytes as u32),
                None => return false,
            }
            return true;
        };
        // The difference modulo 2²⁴, as a signed number.
        let grown = |told: u32, known: u32| {
            let unused = u32::BITS - COUNTER_BITS;
            (told.wrapping_sub(known) << unused) as i32 >> unused
        };
        let usual = self.usual;
        let mut unclear = false;
        let mut changed = false;
        let mut take = |known: &mut u32, told: u32, counter: Counter, now: &mut Option<Counter>| {
            let delta = grown(told, *known);
            *known = known.wrapping_add(delta as u32);
            unclear |= delta < 0;
            if delta != 0 && usual != Some(counter) {
                unclear |= changed;
                if !changed {
                    *now = Some(counter);
                }
                changed = true;
            }
        };
        take(&mut self.bytes.ce, told.ce, Counter::Ce, &mut self.usual);
        if ack.marks.counters() > 2 {
            take(
                &mut self.bytes.ect0,
                told.ect0,
                Counter::Ect0,
                &mut self.usual,
            );
        }
        if unclear {
            self.usual = None;
        }
        usual.is_some() && !unclear
    }
}

impl Ecn {
    /// Creates the state of a connection whose SYN requests the kind `asks`.
    pub fn new(asks: EcnUse) -> Ecn {
        Ecn {
            asks,
            control: asks.control(),
            ace: FIRST_ACE,
            ..Ecn::default()
        }
    }
    /// The kind that both ends agreed on.
    pub fn agreed(&self) -> EcnUse {
        self.how
    }
    /// The TCP options of every segment.
    pub fn options(&self, cfg: &Config) -> TcpOptions {
        cfg.options(self.how == EcnUse::Accurate)
    }
    /// Returns whether both ends use ECN.
    pub fn on(&self) -> bool {
        self.how != EcnUse::Off
    }
    /// Returns whether both ends use the requested kind.
    pub fn as_asked(&self) -> bool {
        self.on() && self.how == self.asks
    }
    /// Sets the flags of a SYN: the original if `retransmits` is 0, otherwise this retransmission.
    pub fn mark_syn(&self, cfg: &Config, retransmits: u32, syn: &mut Segment) {
        let most = u32::from(self.asks == EcnUse::Accurate);
        syn.cwr = self.asks != EcnUse::Off && retransmits <= most;
        syn.ecn = self.asks.handshake();
        // A SYN announces the host's own maximum segment size.
        syn.options = TcpOptions::new(
            cfg.announced(),
            cfg.timestamps,
            self.asks == EcnUse::Accurate,
        );
    }
    /// Handles the SYN-ACK.
    pub fn on_syn_ack(&mut self, ack: &AckSegment) {
        // A receiver that will count sets the field of the counter.
        if ack.ece && self.asks == EcnUse::Counted && ack.marks.ace() == 0 {
            self.how = EcnUse::Latched;
        } else if ack.ece {
            self.how = self.asks;
        }
        self.control = self.how.control();
    }
    /// Sets the ECN fields of new data, a super-packet or the first segment of one.
    #[inline]
    pub fn mark_data(&mut self, segment: &mut Segment) {
        if self.on() {
            segment.ecn = self.how.data();
            segment.cwr = core::mem::take(&mut self.cwr_due);
        }
    }
    /// Returns whether an ACK reports marks by ECE.
    pub fn echoed(&self, ack: &AckSegment) -> bool {
        ack.ece && !ack.syn && matches!(self.how, EcnUse::Latched | EcnUse::Echoed)
    }
    /// Returns how many packets an ACK without ECE and option may deliver and yet report no mark.
    #[inline]
    pub fn most_unmarked(&self, ack: &AckSegment) -> u64 {
        match self.how {
            EcnUse::Counted if ack.marks.ace() == self.ace => u64::from(ROUND) - 1,
            EcnUse::Counted | EcnUse::Accurate => 0,
            EcnUse::Off | EcnUse::Latched | EcnUse::Echoed => u64::MAX,
        }
    }
    /// Returns the increase of the receiver's counter, for `delivered` packets.
    fn counted(&mut self, ack: &AckSegment, delivered: u32) -> u32 {
        let ace = ack.marks.ace() % ROUND as u8;
        let grown = u32::from(ace.wrapping_sub(self.ace)) % ROUND;
        self.ace = ace;
        if delivered < ROUND {
            grown
        } else {
            delivered - (delivered - grown) % ROUND
        }
    }
    /// The window was reduced.
    pub fn reduced(&mut self) {
        self.cwr_due = matches!(self.how, EcnUse::Latched | EcnUse::Echoed);
    }
    /// The reduction was undone before CWR was sent.
    pub fn withdraw(&mut self) {
        self.cwr_due = false;
    }
}

impl Sender {
    /// Begins a reduction outside of recovery, after an ACK with marks or at the request of a
    /// congestion control, unless one is in progress.
    pub(super) fn enter_cwr(&mut self, now: Time, cause: Cause) {
        self.prior_ssthresh = None;
        if matches!(self.state, State::Open | State::Disorder) {
            self.undo = None;
            self.begin_reduction(now, cause);
            self.set_state(now, State::Cwr);
        }
    }
    /// Counts the packets that an ACK delivered, as Linux's `delivered` and `delivered_ce`.
    #[inline]
    pub(super) fn count_delivered(&mut self, ack: &AckSegment, news: &mut News) {
        self.delivered.packets += u64::from(news.delivered);
        if news.ece {
            news.marked = news.delivered;
        } else if self.ecn.how == EcnUse::Counted && (news.una_advanced || news.sacked) {
            news.marked = self.ecn.counted(ack, news.delivered);
            news.ece = news.marked > 0;
        } else if self.ecn.how == EcnUse::Accurate
            && (news.una_advanced || news.sacked || self.ecn.newer)
        {
            self.count_accurately(ack, news);
        }
        self.delivered_ce += u64::from(news.marked);
    }
    #[inline(never)]
    fn count_accurately(&mut self, ack: &AckSegment, news: &mut News) {
        let ordered = self.cfg.sack || matches!(self.state, State::Open | State::Cwr);
        let (known, bytes) = (self.delivered_ce, news.delivered_bytes);
        let mss = self.board.options.mss();
        let accurate = &mut self.ecn.accurate;
        news.marked = accurate.marks(ack, known, news.delivered, bytes, (ordered, mss));
        news.ece = news.marked > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::MSS;

    fn ack(ace: u8) -> AckSegment {
        AckSegment {
            marks: crate::tcp::wire::AckMarks::new(ace, Bits::NotEct),
            ..AckSegment::default()
        }
    }

    /// RFC 9768 appendix A.2: five, then two more; then an ACK of ten packets whose counter grew by
    /// two may report ten marks.
    #[test]
    fn a_counter_that_may_have_gone_round_is_taken_to_have() {
        let mut ecn = Ecn::new(EcnUse::Counted);
        assert_eq!(ecn.counted(&ack(5), 2), 0);
        assert_eq!(ecn.counted(&ack(7), 2), 2);
        assert_eq!(ecn.counted(&ack(1), 7), 2);
        assert_eq!(ecn.counted(&ack(3), 10), 10);
        assert_eq!(ecn.counted(&ack(3), 10), 8);
        assert_eq!(ecn.counted(&ack(2), 8), 7);
        assert_eq!(ecn.counted(&ack(2), 16), 16);
        assert_eq!(ecn.counted(&ack(3), 16), 9);
    }

    /// RFC 9768 section 3.1.2: an answer of ECE alone is RFC 3168's.
    #[test]
    fn who_would_count_falls_back_to_a_latch() {
        for (ace, agreed, as_asked) in [(0, EcnUse::Latched, false), (3, EcnUse::Counted, true)] {
            let mut ecn = Ecn::new(EcnUse::Counted);
            ecn.on_syn_ack(&AckSegment {
                syn: true,
                ece: true,
                ..ack(ace)
            });
            assert_eq!(
                (ecn.how, ecn.control, ecn.as_asked()),
                (agreed, agreed.control(), as_asked)
            );
        }
    }

    /// Linux 7.3 `__tcp_accecn_process`: up to seven packets, the counter decides alone. For more
    /// packets, the bytes of the option show whether the counter has wrapped.
    #[test]
    fn the_option_decides_whether_the_counter_has_wrapped() {
        const FULL: u64 = 1436;
        let told = |ace: u8, ect0: u64, ce: u64| {
            let bytes = MarkedBytes {
                ect0: (ect0 * FULL) as u32,
                ce: (ce * FULL) as u32,
            };
            ack(ace).with_option(3, bytes)
        };
        let mut ends = Accurate::default();
        // Two unmarked packets: they show the usual code point.
        assert_eq!(ends.marks(&told(5, 2, 0), 0, 2, 2 * FULL, (true, MSS)), 0);
        // Seven packets, three of them marked.
        assert_eq!(ends.marks(&told(0, 6, 3), 0, 7, 7 * FULL, (true, MSS)), 3);
        // Ten packets, all marked: the counter grew by 10 - 8.
        assert_eq!(
            ends.marks(&told(2, 6, 13), 3, 10, 10 * FULL, (true, MSS)),
            10
        );
        // Ten packets, one marked.
        assert_eq!(
            ends.marks(&told(3, 15, 14), 13, 10, 10 * FULL, (true, MSS)),
            1
        );
        // Ten packets, none marked, with the same bits as if eight were.
        assert_eq!(
            ends.marks(&told(3, 25, 14), 14, 10, 10 * FULL, (true, MSS)),
            0
        );
        // Forty packets, 17 of them marked: an estimate by bytes.
        assert_eq!(
            ends.marks(&told(4, 48, 31), 14, 40, 40 * FULL, (true, MSS)),
            17
        );
    }

    /// Without the option, a wrapped counter is taken at its greatest, unless ACKs of more than
    /// four packets are usual.
    #[test]
    fn without_the_option_the_usual_number_of_packets_decides() {
        let mut ends = Accurate::default();
        assert_eq!(ends.marks(&ack(5), 0, 2, 2896, (true, MSS)), 0);
        assert_eq!(ends.marks(&ack(5), 0, 9, 13_032, (true, MSS)), 8);
        for _ in 0..200 {
            ends.marks(&ack(5), 0, 8, 11_584, (true, MSS));
        }
        assert_eq!(ends.marks(&ack(5), 0, 9, 13_032, (true, MSS)), 0);
    }

    /// The bytes of an ACK without option count for the code point seen last. Counters are modulo
    /// 2²⁴.
    #[test]
    fn counters_wrap_and_are_continued_without_option() {
        let mut ends = Accurate {
            bytes: MarkedBytes {
                ect0: (1 << 24) - 1000,
                ce: 0,
            },
            ..Accurate::default()
        };
        let bytes = MarkedBytes { ect0: 436, ce: 0 };
        ends.marks(&ack(5).with_option(3, bytes), 0, 1, 1436, (true, MSS));
        assert_eq!(ends.usual, Some(Counter::Ect0));
        assert_eq!(ends.bytes.ect0, (1 << 24) + 436);
        ends.marks(&ack(5), 0, 2, 2872, (true, MSS));
        assert_eq!(ends.bytes.ect0, (1 << 24) + 436 + 2872);
        // A counter that decreased: nothing is certain.
        let back = MarkedBytes { ect0: 0, ce: 0 };
        ends.marks(&ack(5).with_option(3, back), 0, 1, 1436, (true, MSS));
        assert_eq!(ends.usual, None);
    }

    /// RFC 9768 section 3.1.4: the first retransmission of the SYN still requests Accurate.
    #[test]
    fn a_repeated_syn_requests_accurate_ecn_once_more() {
        let request = |asks: EcnUse| {
            [0, 1, 2].map(|retransmits| {
                let mut syn = Segment::default();
                Ecn::new(asks).mark_syn(&Config::default(), retransmits, &mut syn);
                syn.cwr
            })
        };
        assert_eq!(request(EcnUse::Latched), [true, false, false]);
        assert_eq!(request(EcnUse::Accurate), [true, true, false]);
    }

    #[test]
    fn what_both_agreed_on_decides_what_is_capable() {
        for (asks, agrees, control, data) in [
            (EcnUse::Latched, true, Bits::NotEct, Bits::Ect0),
            (EcnUse::Echoed, true, Bits::Ect0, Bits::Ect0),
            (EcnUse::Counted, true, Bits::Ect1, Bits::Ect1),
            (EcnUse::Accurate, true, Bits::Ect0, Bits::Ect0),
            (EcnUse::Echoed, false, Bits::NotEct, Bits::NotEct),
            (EcnUse::Off, true, Bits::NotEct, Bits::NotEct),
        ] {
            let mut ecn = Ecn::new(asks);
            let mut syn = Segment::default();
            ecn.mark_syn(&Config::default(), 0, &mut syn);
            assert_eq!((syn.cwr, syn.ecn), (asks != EcnUse::Off, asks.handshake()));
            let syn_ack = AckSegment {
                syn: true,
                ece: agrees,
                ..ack(FIRST_ACE)
            };
            ecn.on_syn_ack(&syn_ack);
            let mut segment = Segment::default();
            ecn.mark_data(&mut segment);
            assert_eq!((ecn.control, segment.ecn), (control, data), "{asks:?}");
        }
    }
}
