//! ECN at the sender (RFC 3168 as Linux 6.12 runs it).
//!
//! Law: a SYN with ECE and CWR asks, a SYN-ACK with ECE agrees; a SYN that is sent again asks no more (`tcp_ecn_fallback`).
//! Then new data leaves as ECT(0); what is sent again, probes of a shut window and pure ACKs do not. An ACK with ECE, in
//! Open or Disorder, begins a reduction: state Cwr, PRR down to the law's threshold, over when something sent after it is
//! acknowledged. In Cwr, Recovery and Loss it does nothing more, but in the last two it forbids to undo. Every reduction,
//! whatever its cause, puts CWR on the next new segment (the first of its super-packet), which tells the receiver to stop.
//! Sources: RFC 3168 sections 6.1, 6.1.1.1, 6.1.2; Linux 6.12, packet by packet (`core/tests/replay.rs`).

use super::input::News;
use super::{Sender, Time};
use crate::cc::Cause;
use crate::packet::Ecn as Bits;
use crate::tcp::wire::{AckSegment, Segment};
use crate::tcp::State;

/// What a sender knows of ECN.
#[derive(Clone, Debug, Default)]
pub(super) struct Ecn {
    /// Does the SYN ask?
    asks: bool,
    /// Did both ends agree?
    on: bool,
    /// The next new segment says that the window was reduced.
    cwr_due: bool,
}

impl Ecn {
    /// Before the connection; `asks`: it shall be tried.
    pub fn new(asks: bool) -> Ecn {
        Ecn { asks, ..Ecn::default() }
    }
    /// What a SYN says that was sent `retransmits` times before.
    pub fn mark_syn(&self, retransmits: u32, syn: &mut Segment) {
        syn.cwr = self.asks && retransmits == 0;
    }
    /// The SYN-ACK is here.
    pub fn on_syn_ack(&mut self, ack: &AckSegment) {
        self.on = self.asks && ack.ece;
    }
    /// A segment of new data leaves; `first`: of its super-packet.
    pub fn mark_data(&mut self, first: bool, segment: &mut Segment) {
        if self.on {
            segment.ecn = Bits::Ect0;
            segment.cwr = first && core::mem::take(&mut self.cwr_due);
        }
    }
    /// Does an ACK report marks?
    pub fn echoed(&self, ack: &AckSegment) -> bool {
        self.on && ack.ece && !ack.syn
    }
    /// The window shrinks.
    pub fn reduced(&mut self) {
        self.cwr_due = self.on;
    }
    /// The reduction was taken back before anybody was told of it.
    pub fn withdraw(&mut self) {
        self.cwr_due = false;
    }
}

impl Sender {
    /// An ACK with ECE in no state of recovery, or a law that asks: a reduction begins, unless one is under way.
    pub(super) fn enter_cwr(&mut self, now: Time, cause: Cause) {
        self.prior_ssthresh = None;
        if matches!(self.state, State::Open | State::Disorder) {
            self.undo = None;
            self.begin_reduction(now, cause);
            self.set_state(now, State::Cwr);
        }
    }
    /// Counts what an ACK delivered, as Linux's `delivered` and `delivered_ce`.
    pub(super) fn count_delivered(&mut self, news: &News) {
        self.delivered.packets += u64::from(news.delivered);
        if news.ece {
            self.delivered_ce += u64::from(news.delivered);
        }
    }
}
