//! ECN at the receiver: what its ACKs say of marks, and which of them hurry.
//!
//! Law, by what both ends agreed on ([`EcnUse`]):
//! - Latched: from a segment marked CE until one with CWR, every ACK says ECE. The first mark of
//!   such a time grants two quick ACKs, and a segment with CWR is acknowledged at once: its sender
//!   may have a small window.
//! - Echoed: an ACK says ECE if the last segment was marked. When that changes, an ACK that is
//!   being delayed leaves first, for what came before and as it was then; the segment itself is
//!   acknowledged at once.
//! - Counted: every ACK says how many marked packets have arrived, and five more, modulo eight. The
//!   first mark after a packet without one is acknowledged at once, and so is every second mark.
//!
//! Once ECN-capable segments have come, two quick ACKs go to each that is not: it is likely a
//! retransmission.
//!
//! A listener whose own ECN is Latched refuses a SYN that is ECN-capable itself: it comes from a
//! sender that expects more than a latch. One that echoes or counts agrees. To a sender that would
//! count (its SYN says so by AE, here by ECT(1), which nobody else uses) the latching one agrees as
//! well: RFC 9768 has it fall back.
//!
//! Sources: RFC 3168 section 6.1.3; RFC 8257 section 3.2; RFC 9768 sections 3.2.2.5 and 3.2.2.5.1;
//! Linux 6.12, whose latch is followed packet by packet (`core/tests/replay.rs`).

use crate::packet::Ecn;
use crate::tcp::EcnUse;
use crate::tcp::sender::FIRST_ACE;
use crate::tcp::wire::Segment;

/// Quick ACKs for a mark, and for a likely retransmission.
pub(super) const QUICK: u32 = 2;
/// RFC 9768 section 3.1.2, table 2.
const SYN_CAME_WITH_ECT1: u8 = 0b011;
/// So many marks are acknowledged at once.
const HURRY: u8 = 2;

/// What becomes of the ACK for a segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Heed {
    /// What would become of it anyway.
    Nothing,
    /// This one and the next are quick.
    Quick,
    /// Before it, one that is being delayed leaves, up to this byte and with this echo; then it
    /// leaves at once.
    After(u64, bool),
}

/// What a receiver knows of marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// What both ends agreed on.
    how: EcnUse,
    /// ACKs say ECE. Latched: a mark waits for the sender's answer (CWR). Echoed: the last segment
    /// was marked.
    echo: bool,
    /// Echoed: the last ECN-capable segment was marked. Counted: the last packet was.
    marked: bool,
    /// An ECN-capable segment has arrived.
    seen: bool,
    /// Echoed: `nxt` when the last ECN-capable segment had arrived.
    nxt: u64,
    /// Counted: marked packets, modulo 256.
    count: u8,
    /// Of them those that no ACK has told of.
    untold: u8,
}

impl Marks {
    /// A SYN arrives at an end that is `willing` to use ECN so.
    pub fn on_syn(&mut self, willing: EcnUse, syn: &Segment) {
        let refused = willing == EcnUse::Latched && matches!(syn.ecn, Ecn::Ect0 | Ecn::Ce);
        if syn.cwr && !refused {
            self.how = willing;
        }
    }
    /// Both ends agreed on it, on the way that this end's own data goes.
    pub fn agree(&mut self, how: EcnUse) {
        self.how = how;
    }
    /// What both ends agreed on.
    pub fn agreed(&self) -> EcnUse {
        self.how
    }
    /// Did both ends agree?
    pub fn on(&self) -> bool {
        self.how != EcnUse::Off
    }
    /// The ECN bits of an ACK.
    pub fn control(&self) -> Ecn {
        self.how.control()
    }
    /// A packet arrives, whatever it carries. Answers whether its ACK must leave at once.
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
    /// Data has arrived, and with it everything below `nxt`.
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
    /// The sender says that it has reduced its window.
    pub fn on_cwr(&mut self) {
        self.echo = false;
    }
    /// Does an ACK say ECE now?
    pub fn echo(&self) -> bool {
        self.echo
    }
    /// The SYN-ACK's counter field: that the SYN came with ECT(1), which says that marks will be
    /// counted, or nothing.
    pub fn answer(&self) -> u8 {
        match self.how {
            EcnUse::Counted => SYN_CAME_WITH_ECT1,
            _ => 0,
        }
    }
    /// An ACK leaves: its counter.
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
        // The first at once; of those that follow, each second.
        assert_eq!(hurries, [false, true, false, true, false, true]);
        assert_eq!(m.ace(), (5 + 4) % 8);
        assert!(!m.echo());
    }
}
