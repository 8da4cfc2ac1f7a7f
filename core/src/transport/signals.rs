//! Congestion signals that a congestion control requires of its connection.

use crate::packet::Ecn;

/// Use of explicit congestion notification by the two ends of a connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum EcnUse {
    /// ECN is not used.
    #[default]
    Off,
    /// Classic ECN (RFC 3168): the receiver echoes a mark until the sender confirms it. The sender
    /// reacts at most once per round trip.
    Latched,
    /// The receiver echoes every mark, and every packet is ECN-capable, also ACKs and
    /// retransmissions (RFC 8257).
    Echoed,
    /// Marks are counted, and packets have code point ECT(1) (RFC 9331, RFC 9768).
    Counted,
    /// Accurate ECN (RFC 9768) as in Linux. Marks are counted, in a field of the header and in a
    /// TCP option; packets have code point ECT(0).
    Accurate,
}

impl EcnUse {
    /// Returns the ECN code point of new data.
    pub fn data(self) -> Ecn {
        match self {
            EcnUse::Off => Ecn::NotEct,
            EcnUse::Latched | EcnUse::Echoed | EcnUse::Accurate => Ecn::Ect0,
            EcnUse::Counted => Ecn::Ect1,
        }
    }
    /// Returns the ECN code point of ACKs and retransmissions.
    pub fn control(self) -> Ecn {
        match self {
            EcnUse::Off | EcnUse::Latched => Ecn::NotEct,
            EcnUse::Echoed | EcnUse::Counted | EcnUse::Accurate => self.data(),
        }
    }
    /// Returns the ECN code point of SYN and SYN-ACK.
    pub fn handshake(self) -> Ecn {
        match self {
            EcnUse::Accurate => Ecn::NotEct,
            _ => self.control(),
        }
    }
}

/// The signals that a congestion control requires of its connection.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Signals {
    /// Use of ECN if both ends support it.
    pub ecn: EcnUse,
    /// Whether the receiver sends selective acknowledgements (SACK).
    pub sack: bool,
}
