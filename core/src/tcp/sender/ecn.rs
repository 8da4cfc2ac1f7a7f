//! ECN at the sender: negotiation, and the response to marks.
//!
//! Algorithm: a SYN with ECE and CWR requests ECN, a SYN-ACK with ECE agrees. A retransmitted SYN
//! does not request it (`tcp_ecn_fallback`). Then new data leaves as ECT(0). An ACK with ECE in
//! Open or Disorder begins a reduction. The state becomes Cwr, and PRR reduces the window to the
//! threshold of the congestion control. The reduction ends when data sent after its begin is
//! acknowledged. In Cwr, Recovery and Loss an ACK with ECE begins none, but in the last two it
//! prevents an undo. There are three kinds ([`EcnUse`]):
//!
//! | | other ECN-capable packets | marks reported by an ACK | feedback to the receiver |
//! |---|---|---|---|
//! | Latched | none | with ECE: every packet it delivers | CWR after a reduction |
//! | Echoed | SYN, ACKs, retransmissions | as Latched | CWR, without effect |
//! | Counted | the same; all as ECT(1) | the increase of its counter (ACE) | none |
//!
//! CWR is on the next new segment, the first of its super-packet. If a sender requests Counted and
//! the answer is that of RFC 3168, the kind is Latched.
//!
//! The counter has three bits, so it may wrap if an ACK delivers more than seven packets. Then the
//! increase is the greatest one with these bits that does not exceed the delivered packets.
//!
//! Sources: RFC 3168 sections 6.1, 6.1.1.1, 6.1.2; RFC 8257 sections 3.1, 3.5; RFC 9768 section
//! 3.1.2, 3.2.2.5.2 and appendix A.2; Linux 6.12. `core/tests/replay.rs` reproduces Linux's
//! response to a latch packet by packet. Of RFC 9768 only the counter is implemented, without the
//! TCP option. SYN and SYN-ACK only negotiate counting. An ACK that delivers no data may be an old
//! one, so its counter is not read.

use super::input::News;
use super::{Sender, Time};
use crate::cc::Cause;
use crate::packet::Ecn as Bits;
use crate::tcp::wire::{AckSegment, Segment};
use crate::tcp::{EcnUse, State};

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
}

impl Ecn {
    /// Before the connection.
    pub fn new(asks: EcnUse) -> Ecn {
        Ecn {
            asks,
            control: asks.control(),
            ace: FIRST_ACE,
            ..Ecn::default()
        }
    }
    /// Returns whether both ends use ECN.
    pub fn on(&self) -> bool {
        self.how != EcnUse::Off
    }
    /// Returns whether both ends use the requested kind.
    pub fn as_asked(&self) -> bool {
        self.on() && self.how == self.asks
    }
    /// Sets the flags of a SYN that was sent `retransmits` times before.
    pub fn mark_syn(&self, retransmits: u32, syn: &mut Segment) {
        syn.cwr = self.asks != EcnUse::Off && retransmits == 0;
        syn.ecn = self.control;
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
    /// Marks a segment of new data; `first`: of its super-packet.
    pub fn mark_data(&mut self, first: bool, segment: &mut Segment) {
        if self.on() {
            segment.ecn = self.how.data();
            segment.cwr = first && core::mem::take(&mut self.cwr_due);
        }
    }
    /// Returns whether an ACK reports marks by ECE.
    pub fn echoed(&self, ack: &AckSegment) -> bool {
        ack.ece && !ack.syn && matches!(self.how, EcnUse::Latched | EcnUse::Echoed)
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
    pub(super) fn count_delivered(&mut self, ack: &AckSegment, news: &mut News) {
        self.delivered.packets += u64::from(news.delivered);
        if news.ece {
            news.marked = news.delivered;
        } else if self.ecn.how == EcnUse::Counted && (news.una_advanced || news.sacked) {
            news.marked = self.ecn.counted(ack, news.delivered);
            news.ece = news.marked > 0;
        }
        self.delivered_ce += u64::from(news.marked);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn what_both_agreed_on_decides_what_is_capable() {
        for (asks, agrees, control, data) in [
            (EcnUse::Latched, true, Bits::NotEct, Bits::Ect0),
            (EcnUse::Echoed, true, Bits::Ect0, Bits::Ect0),
            (EcnUse::Counted, true, Bits::Ect1, Bits::Ect1),
            (EcnUse::Echoed, false, Bits::NotEct, Bits::NotEct),
            (EcnUse::Off, true, Bits::NotEct, Bits::NotEct),
        ] {
            let mut ecn = Ecn::new(asks);
            let mut syn = Segment::default();
            ecn.mark_syn(0, &mut syn);
            assert_eq!((syn.cwr, syn.ecn), (asks != EcnUse::Off, asks.control()));
            let syn_ack = AckSegment {
                syn: true,
                ece: agrees,
                ..ack(FIRST_ACE)
            };
            ecn.on_syn_ack(&syn_ack);
            let mut segment = Segment::default();
            ecn.mark_data(true, &mut segment);
            assert_eq!((ecn.control, segment.ecn), (control, data), "{asks:?}");
        }
    }
}
