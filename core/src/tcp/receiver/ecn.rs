//! ECN at the receiver: marks in ACKs, and the ACKs that marks accelerate.
//!
//! Algorithm, by the kind that both ends agreed on ([`EcnUse`]):
//! - Latched: from a segment marked CE until one with CWR, every ACK has ECE. The first mark of
//!   such a period grants two quick ACKs. A segment with CWR is acknowledged at once, because its
//!   sender may have a small window.
//! - Echoed: an ACK has ECE if the last segment was marked. When this echo changes and an ACK is
//!   delayed, this ACK leaves first, with the old echo, for the segments before. The segment itself
//!   is acknowledged at once.
//! - Counted: every ACK carries the number of marked packets plus five, modulo eight. The first
//!   mark after a packet without one is acknowledged at once, and so is every second mark.
//! - Accurate: every ACK carries this number, and the bytes that arrived with CE and ECT(0), if its
//!   option has room beside the SACK blocks ([`Marks::option`]). A packet whose ECN code point
//!   differs from that of the packet before is acknowledged at once.
//!
//! Once ECN-capable segments have arrived, each segment that is not ECN-capable gets two quick
//! ACKs: it is likely a retransmission.
//!
//! A listener that supports only Latched rejects ECN for a SYN packet that carries ECT(0) or CE:
//! its sender expects more than a latch. A listener that supports Echoed or Counted agrees. The SYN
//! of a sender that requests Counted has the flag AE, represented here by ECT(1), which no other
//! SYN has. A listener that supports only Latched agrees to this SYN as well: RFC 9768 requires the
//! sender to fall back.
//!
//! Sources: RFC 3168 section 6.1.3; RFC 8257 section 3.2; RFC 9768 sections 3.2.2.5 and 3.2.2.5.1;
//! Linux 6.12. Linux's behaviour with Latched is reproduced packet by packet
//! (`core/tests/replay.rs`). The kind Accurate follows Linux 7.3: `tcp_ecn_received_counters`,
//! `tcp_options_fit_accecn`. With Accurate, Linux also acknowledges at once when six marks are
//! unreported; here no ACK of in-order data waits for so many.

use crate::packet::Ecn;
use crate::tcp::EcnUse;
use crate::tcp::sender::FIRST_ACE;
use crate::tcp::wire::{MAX_SACKS, MarkedBytes, Segment};

/// Maximum number of quick ACKs for a mark, and for a likely retransmission.
pub(super) const QUICK: u32 = 2;
/// The ACE field of a SYN-ACK, by the ECN field of the SYN (RFC 9768 section 3.1.2, table 2).
const SYN_CAME_WITH_ECT1: u8 = 0b011;
const SYN_CAME_WITHOUT_ECT: u8 = 0b010;
/// Number of unreported marks at which an ACK leaves at once.
const HURRY: u8 = 2;

/// The effect of a segment's mark on its ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Heed {
    /// No effect.
    Nothing,
    /// The ACKs of this segment and of the next one are quick.
    Quick,
    /// If an ACK is delayed, this ACK leaves first: it acknowledges data up to this byte and has
    /// this echo. Then the ACK of this segment leaves at once.
    After(u64, bool),
}

/// The receiver's state of ECN.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// The kind that both ends agreed on.
    how: EcnUse,
    /// ACKs have ECE. Latched: a mark that the sender has not confirmed (CWR). Echoed: the last
    /// segment was marked.
    echo: bool,
    /// Echoed: the last ECN-capable segment was marked. Counted: the last packet was.
    marked: bool,
    /// An ECN-capable segment has arrived.
    seen: bool,
    /// Echoed: `nxt` when the last ECN-capable segment had arrived.
    nxt: u64,
    /// Counted: marked packets, modulo 256.
    count: u8,
    /// Counted: marked packets that no ACK has reported.
    untold: u8,
    /// Accurate: the code point of the last packet.
    last: Ecn,
    /// Accurate: bytes of payload by code point.
    bytes: MarkedBytes,
    /// Accurate: the number of counters that the next option must have, because of data since the
    /// last option.
    least: u8,
}

impl Marks {
    /// Handles a SYN at an end that is `willing` to use this kind of ECN.
    pub fn on_syn(&mut self, willing: EcnUse, syn: &Segment) {
        let refused = willing == EcnUse::Latched && matches!(syn.ecn, Ecn::Ect0 | Ecn::Ce);
        if syn.cwr && !refused {
            self.how = willing;
        }
    }
    /// Sets the kind that both ends agreed on, also for the data that this end sends.
    pub fn agree(&mut self, how: EcnUse) {
        self.how = how;
    }
    /// The kind that both ends agreed on.
    pub fn agreed(&self) -> EcnUse {
        self.how
    }
    /// Returns whether both ends agreed on ECN.
    pub fn on(&self) -> bool {
        self.how != EcnUse::Off
    }
    /// The ECN bits of an ACK.
    #[inline]
    pub fn control(&self) -> Ecn {
        self.how.control()
    }
    /// The ECN bits of a SYN-ACK.
    pub fn handshake(&self) -> Ecn {
        self.how.handshake()
    }
    /// Handles any packet with `len` bytes of payload. Returns whether the ACK of this packet must
    /// leave at once.
    #[inline]
    pub fn on_packet(&mut self, ecn: Ecn, len: u32) -> bool {
        match self.how {
            EcnUse::Counted => {}
            EcnUse::Accurate => return self.count(ecn, len),
            _ => return false,
        }
        let before = core::mem::replace(&mut self.marked, ecn == Ecn::Ce);
        if !self.marked {
            return false;
        }
        self.count = self.count.wrapping_add(1);
        self.untold = self.untold.saturating_add(1);
        !before || self.untold >= HURRY
    }
    /// Counts a packet; returns whether its code point differs from that of the packet before.
    fn count(&mut self, ecn: Ecn, len: u32) -> bool {
        self.seen |= ecn != Ecn::NotEct;
        let (bytes, counters) = match ecn {
            Ecn::Ce => {
                self.count = self.count.wrapping_add(1);
                (Some(&mut self.bytes.ce), 2)
            }
            Ecn::Ect0 => (Some(&mut self.bytes.ect0), 3),
            Ecn::NotEct | Ecn::Ect1 => (None, 0),
        };
        if let Some(bytes) = bytes.filter(|_| len > 0) {
            *bytes = bytes.wrapping_add(len);
            self.least = self.least.max(counters);
        }
        core::mem::replace(&mut self.last, ecn) != ecn
    }
    /// Returns the AccECN option for an ACK with `blocks` SACK blocks: the number of counters and
    /// their values. The third value is the number of SACK blocks that fit beside the option. TCP
    /// options have 40 bytes, of which timestamps take 12: beside one block there is room for three
    /// counters, beside two for two. A third block gives way to counters that are needed if two are
    /// enough.
    #[inline]
    pub fn option(&mut self, blocks: u8) -> (u8, MarkedBytes, u8) {
        let (counters, blocks) = match (blocks, self.least) {
            _ if self.how != EcnUse::Accurate => (0, blocks),
            (0 | 1, _) => (3, blocks),
            (2, 0..=2) => (2, 2),
            (_, 1..=2) => (2, MAX_SACKS as u8 - 1),
            _ => (0, blocks),
        };
        if counters > 0 {
            self.least = 0;
        }
        (counters, self.bytes, blocks)
    }
    /// Handles data; everything below `nxt` has arrived.
    pub fn on_data(&mut self, ecn: Ecn, nxt: u64) -> Heed {
        match (self.how, ecn) {
            (EcnUse::Off, _) => Heed::Nothing,
            (_, Ecn::NotEct) if self.seen => Heed::Quick,
            (_, Ecn::NotEct) => Heed::Nothing,
            (EcnUse::Echoed, _) => self.echo_of(ecn == Ecn::Ce, nxt),
            (how, _) => {
                self.seen = true;
                let first = how == EcnUse::Latched
                    && ecn == Ecn::Ce
                    && !core::mem::replace(&mut self.echo, true);
                if first { Heed::Quick } else { Heed::Nothing }
            }
        }
    }
    fn echo_of(&mut self, marked: bool, nxt: u64) -> Heed {
        self.seen = true;
        let changed = core::mem::replace(&mut self.marked, marked) != marked;
        let before = core::mem::replace(&mut self.nxt, nxt);
        self.echo = marked;
        if changed {
            Heed::After(before, !marked)
        } else {
            Heed::Nothing
        }
    }
    /// A segment with CWR has arrived: the sender has reduced its window.
    pub fn on_cwr(&mut self) {
        self.echo = false;
    }
    /// Returns whether an ACK has ECE now.
    #[inline]
    pub fn echo(&self) -> bool {
        self.echo
    }
    /// The ACE field of the SYN-ACK, which reports the ECN field of the SYN: ECT(1) for Counted,
    /// Not-ECT for Accurate; 0 with other kinds.
    pub fn answer(&self) -> u8 {
        match self.how {
            EcnUse::Counted => SYN_CAME_WITH_ECT1,
            EcnUse::Accurate => SYN_CAME_WITHOUT_ECT,
            _ => 0,
        }
    }
    /// The ACE field of an ACK that leaves, which reports all marks so far.
    #[inline]
    pub fn ace(&mut self) -> u8 {
        self.untold = 0;
        match self.how {
            EcnUse::Counted | EcnUse::Accurate => self.count.wrapping_add(FIRST_ACE) % 8,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(how: EcnUse) -> Marks {
        let mut marks = Marks::default();
        let syn = Segment {
            syn: true,
            cwr: true,
            ecn: how.handshake(),
            ..Segment::default()
        };
        marks.on_syn(how, &syn);
        assert!(marks.on());
        marks
    }

    #[test]
    fn a_latching_listener_refuses_a_syn_that_is_capable() {
        for (willing, ecn, agrees) in [
            (EcnUse::Latched, Ecn::NotEct, true),
            (EcnUse::Latched, Ecn::Ect0, false),
            (EcnUse::Latched, Ecn::Ce, false),
            (EcnUse::Latched, Ecn::Ect1, true),
            (EcnUse::Echoed, Ecn::Ect0, true),
            (EcnUse::Echoed, Ecn::Ce, true),
            (EcnUse::Counted, Ecn::Ect1, true),
            (EcnUse::Accurate, Ecn::NotEct, true),
            (EcnUse::Off, Ecn::NotEct, false),
        ] {
            let mut marks = Marks::default();
            let syn = Segment {
                syn: true,
                cwr: true,
                ecn,
                ..Segment::default()
            };
            marks.on_syn(willing, &syn);
            assert_eq!(marks.on(), agrees, "{willing:?} {ecn:?}");
        }
    }

    /// RFC 8257 section 3.2, figure 1.
    #[test]
    fn an_echo_says_what_the_last_segment_was() {
        let mut m = marks(EcnUse::Echoed);
        assert_eq!((m.on_data(Ecn::Ect0, 10), m.echo()), (Heed::Nothing, false));
        assert_eq!(
            (m.on_data(Ecn::Ce, 20), m.echo()),
            (Heed::After(10, false), true)
        );
        assert_eq!((m.on_data(Ecn::Ce, 30), m.echo()), (Heed::Nothing, true));
        m.on_cwr();
        assert_eq!((m.on_data(Ecn::Ce, 40), m.echo()), (Heed::Nothing, true));
        assert_eq!(
            (m.on_data(Ecn::Ect0, 50), m.echo()),
            (Heed::After(40, true), false)
        );
    }

    #[test]
    fn a_latch_holds_until_it_is_answered() {
        let mut m = marks(EcnUse::Latched);
        assert_eq!((m.on_data(Ecn::Ce, 10), m.echo()), (Heed::Quick, true));
        assert_eq!((m.on_data(Ecn::Ect0, 20), m.echo()), (Heed::Nothing, true));
        m.on_cwr();
        assert!(!m.echo());
    }

    /// Linux 7.3 `tcp_ecn_received_counters`: a change of the code point in either direction.
    #[test]
    fn accurate_ecn_acknowledges_changes_at_once() {
        let mut m = marks(EcnUse::Accurate);
        let packets = [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::Ect0];
        let at_once = packets.map(|ecn| m.on_packet(ecn, 1436));
        assert_eq!(at_once, [true, false, true, false, true]);
        assert_eq!(m.ace(), 7);
        let (counters, bytes, _) = m.option(0);
        assert_eq!((counters, bytes.ect0, bytes.ce), (3, 3 * 1436, 2 * 1436));
    }

    /// Linux 7.3 `tcp_options_fit_accecn`.
    #[test]
    fn sack_blocks_leave_room_for_fewer_counters() {
        let room = |data: &[Ecn], blocks: u8| {
            let mut m = marks(EcnUse::Accurate);
            data.iter().for_each(|ecn| {
                m.on_packet(*ecn, 1436);
            });
            let (counters, _, left) = m.option(blocks);
            (counters, left)
        };
        let (plain, marked) = (&[Ecn::Ect0][..], &[Ecn::Ce][..]);
        assert_eq!([0, 1].map(|n| room(plain, n)), [(3, 0), (3, 1)]);
        // Both counters of data that arrived must fit.
        assert_eq!([2, 3].map(|n| room(plain, n)), [(0, 2), (0, 3)]);
        assert_eq!([2, 3].map(|n| room(marked, n)), [(2, 2), (2, 2)]);
        assert_eq!([2, 3].map(|n| room(&[], n)), [(2, 2), (0, 3)]);
    }

    #[test]
    fn marks_are_counted_from_five_and_every_second_one_hurries() {
        let mut m = marks(EcnUse::Counted);
        assert_eq!(m.ace(), 5);
        let hurries = [Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect1, Ecn::Ce].map(|ecn| {
            let now = m.on_packet(ecn, 1448);
            if now {
                m.ace();
            }
            now
        });
        // The first at once; of the following, every second.
        assert_eq!(hurries, [false, true, false, true, false, true]);
        assert_eq!(m.ace(), (5 + 4) % 8);
        assert!(!m.echo());
    }
}
