//! ECN at the sender: asked for, answered, told of.
//!
//! Law: a SYN with ECE and CWR asks, a SYN-ACK with ECE agrees; a SYN that is sent again asks no
//! more (`tcp_ecn_fallback`). Then new data leaves as ECT(0). An ACK with ECE, in Open or Disorder,
//! begins a reduction: state Cwr, PRR down to the law's threshold, over when something sent after
//! it is acknowledged. In Cwr, Recovery and Loss it does nothing more, but in the last two it
//! forbids to undo. Three ways of it ([`EcnUse`]):
//!
//! | | what else is ECN-capable | an ACK tells of | the receiver is told |
//! |---|---|---|---|
//! | Latched | nothing | all that it delivers, if it says ECE | CWR on the next new segment after a reduction (the first of its super-packet) |
//! | Echoed | all: SYN, ACKs, what is sent again | as many | likewise; it changes nothing |
//! | Counted | all, as ECT(1) | what its counter (ACE) has grown by | nothing |
//!
//! Who asks to count and is answered as RFC 3168 has it falls back to that: Latched.
//!
//! The counter has three bits. When an ACK delivers more than seven packets it may have gone round,
//! and the greatest growth is taken that has these bits and is not more than was delivered.
//!
//! Sources: RFC 3168 sections 6.1, 6.1.1.1, 6.1.2; RFC 8257 sections 3.1, 3.5; RFC 9768 section
//! 3.1.2, 3.2.2.5.2 and appendix A.2; Linux 6.12, whose answer to a latch is followed packet by
//! packet (`core/tests/replay.rs`). Of RFC 9768 there is the counter alone: no TCP option, and
//! SYN and SYN-ACK say no more than whether marks will be counted. An ACK that delivers nothing new
//! may be an old one: its counter is not read.

use super::input::News;
use super::{Sender, Time};
use crate::cc::Cause;
use crate::packet::Ecn as Bits;
use crate::tcp::wire::{AckSegment, Segment};
use crate::tcp::{EcnUse, State};

/// The counter counts modulo this.
const ROUND: u32 = 8;
/// What it begins at.
pub(in crate::tcp) const FIRST_ACE: u8 = 5;

/// What a sender knows of ECN.
#[derive(Clone, Debug, Default)]
pub(super) struct Ecn {
    /// What the SYN asks for.
    asks: EcnUse,
    /// What both ends agreed on.
    how: EcnUse,
    /// The code point of what is not new data.
    pub control: Bits,
    /// The next new segment says that the window was reduced.
    cwr_due: bool,
    /// The receiver's counter, as the last ACK had it.
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
    /// Do both ends use it?
    pub fn on(&self) -> bool {
        self.how != EcnUse::Off
    }
    /// Likewise, in the way that was asked for?
    pub fn as_asked(&self) -> bool {
        self.on() && self.how == self.asks
    }
    /// What a SYN says that was sent `retransmits` times before.
    pub fn mark_syn(&self, retransmits: u32, syn: &mut Segment) {
        syn.cwr = self.asks != EcnUse::Off && retransmits == 0;
        syn.ecn = self.control;
    }
    /// The SYN-ACK is here.
    pub fn on_syn_ack(&mut self, ack: &AckSegment) {
        // Who will count says so in the counter's field.
        if ack.ece && self.asks == EcnUse::Counted && ack.marks.ace() == 0 {
            self.how = EcnUse::Latched;
        } else if ack.ece {
            self.how = self.asks;
        }
        self.control = self.how.control();
    }
    /// A segment of new data leaves; `first`: of its super-packet.
    pub fn mark_data(&mut self, first: bool, segment: &mut Segment) {
        if self.on() {
            segment.ecn = self.how.data();
            segment.cwr = first && core::mem::take(&mut self.cwr_due);
        }
    }
    /// Does an ACK say ECE?
    pub fn echoed(&self, ack: &AckSegment) -> bool {
        ack.ece && !ack.syn && matches!(self.how, EcnUse::Latched | EcnUse::Echoed)
    }
    /// So many more marks has the receiver counted, of `delivered` packets.
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
    /// The window shrinks.
    pub fn reduced(&mut self) {
        self.cwr_due = matches!(self.how, EcnUse::Latched | EcnUse::Echoed);
    }
    /// The reduction was taken back before anybody was told of it.
    pub fn withdraw(&mut self) {
        self.cwr_due = false;
    }
}

impl Sender {
    /// An ACK that tells of marks in no state of recovery, or a law that asks: a reduction begins,
    /// unless one is under way.
    pub(super) fn enter_cwr(&mut self, now: Time, cause: Cause) {
        self.prior_ssthresh = None;
        if matches!(self.state, State::Open | State::Disorder) {
            self.undo = None;
            self.begin_reduction(now, cause);
            self.set_state(now, State::Cwr);
        }
    }
    /// Counts what an ACK delivered, as Linux's `delivered` and `delivered_ce`.
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
    /// two may have met ten marks.
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
