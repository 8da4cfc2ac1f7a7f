//! Congestion signals: what a congestion control requires of its connection.

use crate::packet::Ecn;

/// How the two ends of one connection use explicit congestion notification.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnUse {
    /// Not at all.
    #[default]
    Off,
    /// As RFC 3168 has it: a mark is echoed until the sender answers it, once per round trip.
    Latched,
    /// Every mark is echoed, and everything that leaves is ECN-capable (RFC 8257).
    Echoed,
    /// Marks are counted, and what leaves has code point ECT(1) (RFC 9331, RFC 9768).
    Counted,
}

impl EcnUse {
    /// The code point of new data.
    pub fn data(self) -> Ecn {
        match self {
            EcnUse::Off => Ecn::NotEct,
            EcnUse::Latched | EcnUse::Echoed => Ecn::Ect0,
            EcnUse::Counted => Ecn::Ect1,
        }
    }
    /// The code point of everything else: SYNs, ACKs, and what is sent again.
    pub fn control(self) -> Ecn {
        match self {
            EcnUse::Off | EcnUse::Latched => Ecn::NotEct,
            EcnUse::Echoed | EcnUse::Counted => self.data(),
        }
    }
}

/// The signals that a congestion control requires of its connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Signals {
    /// How ECN is used where both ends support it.
    pub ecn: EcnUse,
    /// Does the receiver select what it acknowledges (SACK)?
    pub sack: bool,
}
