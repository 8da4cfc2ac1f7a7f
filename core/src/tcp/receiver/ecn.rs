//! ECN at the receiver (RFC 3168 as Linux 6.12 runs it).
//!
//! Law: from a segment marked CE until one with CWR, every ACK says ECE. The first mark of such a time grants two quick ACKs,
//! and so does every segment that is not ECN-capable once others were: it is likely a retransmission, whose sender has a
//! small window. A segment with CWR is acknowledged at once for the same reason.
//! Sources: RFC 3168 section 6.1.3; Linux 6.12, packet by packet (`core/tests/replay.rs`).

use crate::packet::Ecn;

/// Quick ACKs for a mark, and for a likely retransmission.
pub(super) const QUICK: u32 = 2;

/// What a receiver knows of marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    /// Did both ends agree on ECN?
    pub on: bool,
    /// A mark waits for the sender's answer (CWR).
    demands_cwr: bool,
    /// An ECN-capable segment has arrived.
    seen: bool,
}

impl Marks {
    /// Data arrives; answers whether its ACKs had better be quick.
    pub fn on_data(&mut self, ecn: Ecn) -> bool {
        if !self.on {
            return false;
        }
        match ecn {
            Ecn::NotEct => self.seen,
            Ecn::Ce => {
                self.seen = true;
                !core::mem::replace(&mut self.demands_cwr, true)
            }
            Ecn::Ect0 | Ecn::Ect1 => {
                self.seen = true;
                false
            }
        }
    }
    /// The sender says that it has reduced its window.
    pub fn on_cwr(&mut self) {
        self.demands_cwr = false;
    }
    /// Does an ACK say ECE now?
    pub fn echo(&self) -> bool {
        self.demands_cwr
    }
}
