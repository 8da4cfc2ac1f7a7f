//! Random loss, where `netem` at the sender puts it: before a super-packet (TSO) is split.
//!
//! Law: each super-packet is lost with the probability, all of its segments at once. So each segment is lost with this
//! probability too, but losses come in bursts and the window shrinks less often than it would by segments lost one by one.
//! Source: Linux 6.12 `sch_netem`, which splits a super-packet only to corrupt it.

use crate::rng::Rng;

/// Each super-packet is lost independently of the others.
#[derive(Clone, Debug)]
pub struct Independent {
    /// A packet is lost when its 64 random bits are below; `None` draws nothing.
    threshold: Option<u64>,
    lost: bool,
    rng: Rng,
}

impl Independent {
    /// Loses a super-packet with `probability` (clamped to 0…1).
    pub fn new(probability: f64, rng: Rng) -> Independent {
        // The cast saturates: at 1 a packet survives once in 2⁶⁴.
        let threshold = (probability > 0.0).then_some((probability * 18_446_744_073_709_551_616.0) as u64);
        Independent {
            threshold,
            lost: false,
            rng,
        }
    }
    /// Is the next packet lost? One that is `joined` to the packet before it shares its fate.
    pub fn is_lost(&mut self, joined: bool) -> bool {
        if let (Some(threshold), false) = (self.threshold, joined) {
            self.lost = self.rng.next_u64() < threshold;
        }
        self.lost
    }
}
