//! ECN at the receiver: marks in ACKs, and the ACKs that marks accelerate.
//!
//! Algorithm, by the kind that both ends agreed on ([`EcnUse`]):
//! - Latched: from a segment marked CE until one with CWR, every ACK has ECE. The first mark of
//!   such a period grants two quick ACKs. A segment with CWR is acknowledged at once, because its
//!   sender may have a small window.
//! - Echoed: an ACK has ECE if the last segment was marked. When that changes, a delayed ACK leaves
//!   first, with the old echo, for the segments before. The segment itself is acknowledged at once.
//! - Counted: every ACK carries the number of marked packets plus five, modulo eight. The first
//!   mark after a packet without one is acknowledged at once, and so is every second mark.
//!
//! Once ECN-capable segments have arrived, each segment that is not ECN-capable gets two quick
//! ACKs: it is likely a retransmission.
//!
//! A listener whose own ECN is Latched rejects ECN for a SYN that is ECN-capable itself: its sender
//! expects more than a latch. A listener that echoes or counts agrees. The SYN of a sender that
//! would count has AE, represented here by ECT(1), which nothing else uses. A latching listener
//! agrees to that as well: RFC 9768 has the sender fall back.
//!
//! Sources: RFC 3168 section 6.1.3; RFC 8257 section 3.2; RFC 9768 sections 3.2.2.5 and 3.2.2.5.1;
//! Linux 6.12, whose latch is reproduced packet by packet (`core/tests/replay.rs`).

use crate::packet::Ecn;
use crate::tcp::EcnUse;
use crate::tcp::sender::FIRST_ACE;
use crate::tcp::wire::Segment;

/// Quick ACKs for a mark, and for a likely retransmission.
pub(super) const QUICK: u32 = 2;
/// RFC 9768 section 3.1.2, table 2.
const SYN_CAME_WITH_ECT1: u8 = 0b011;
/// Number of marks after which an ACK leaves at once.
const HURRY: u8 = 2;

/// The effect of a segment's mark on its ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Heed {
    /// No effect.
    Nothing,
    /// The ACK of this segment and the next one are quick.
    Quick,
    /// A delayed ACK leaves before, up to this byte and with this echo; then the ACK of this
    /// segment leaves at once.
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
    /// Those of them that no ACK has reported.
    untold: u8,
}

impl Marks {
    /// Handles a SYN at an end that is `willing` to use this kind of ECN.
    pub fn on_syn(&mut self, willing: EcnUse, syn: &Segment) {
        let refused = willing == EcnUse::Latched && matches!(syn.ecn, Ecn::Ect0 | Ecn::Ce);
        if syn.cwr && !refused {
            self.how = willing;
        }
    }
    /// Sets the kind that both ends agreed on, for own data too.
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
    pub fn control(&self) -> Ecn {
        self.how.control()
    }
    /// Handles any packet. Returns whether its ACK must leave at once.
    pub fn on_packet(&mut self, ecn: Ecn) -> bool {
        if self.how != EcnUse::Counted {
            return false;
        }
        let before = core::mem::replace(&mut self.marked, ecn == Ecn::Ce);
        if !self.marked {
            return false;
        }
        self.count = self.count.wrapping_add(1);
        self.untold = self.untold.saturating_add(1);
        !before || self.untold >= HURRY
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
    /// The sender reports that it has reduced its window.
    pub fn on_cwr(&mut self) {
        self.echo = false;
    }
    /// Returns whether an ACK has ECE now.
    pub fn echo(&self) -> bool {
        self.echo
    }
    /// The counter field of the SYN-ACK: that the SYN was ECT(1) (a counting sender), or nothing.
    pub fn answer(&self) -> u8 {
        match self.how {
            EcnUse::Counted => SYN_CAME_WITH_ECT1,
            _ => 0,
        }
    }
    /// The counter of a leaving ACK.
    pub fn ace(&mut self) -> u8 {
        self.untold = 0;
        match self.how {
            EcnUse::Counted => self.count.wrapping_add(FIRST_ACE) % 8,
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
            ecn: how.control(),
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

    #[test]
    fn marks_are_counted_from_five_and_every_second_one_hurries() {
        let mut m = marks(EcnUse::Counted);
        assert_eq!(m.ace(), 5);
        let hurries = [Ecn::Ect1, Ecn::Ce, Ecn::Ce, Ecn::Ce, Ecn::Ect1, Ecn::Ce].map(|ecn| {
            let now = m.on_packet(ecn);
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
