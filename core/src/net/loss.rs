//! Random loss.
//!
//! Linux's `netem` on a sender's own interface draws once for what TCP hands down: a super-packet of two to 45 segments is
//! lost whole or not at all (measured on Linux 6.12: at 50 Mbit/s, 0.1 % loss takes segments in pairs and more, also where
//! the interface has its offloads off, for TCP's bursts are cut after the queue). That is what `loss` means; loss on a wire,
//! drawn for each packet, is `per = "packet"`.

use crate::rng::Rng;
use crate::scenario::{Loss, LossUnit};

/// Each is lost independently of the others.
#[derive(Clone, Debug)]
pub struct Independent {
    per: LossUnit,
    lost_before: bool,
    /// A packet is lost when its 64 random bits are below; `None` draws nothing.
    threshold: Option<u64>,
    rng: Rng,
}

impl Independent {
    /// Loses a packet with `probability` (clamped to 0…1).
    pub fn new(spec: &Loss, rng: Rng) -> Independent {
        let probability = spec.probability;
        // The cast saturates: at 1 a packet survives once in 2⁶⁴.
        let threshold = (probability > 0.0).then_some((probability * 18_446_744_073_709_551_616.0) as u64);
        Independent {
            per: spec.per,
            lost_before: false,
            threshold,
            rng,
        }
    }
    /// Is the next packet lost? `joined`: it shares a super-packet with the one before.
    pub fn is_lost(&mut self, joined: bool) -> bool {
        let Some(threshold) = self.threshold else {
            return false;
        };
        if !(joined && self.per == LossUnit::SuperPacket) {
            self.lost_before = self.rng.next_u64() < threshold;
        }
        self.lost_before
    }
}
