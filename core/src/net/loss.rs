//! Random loss.

use crate::rng::Rng;

/// Each packet is lost independently of the others.
#[derive(Clone, Debug)]
pub struct Independent {
    /// A packet is lost when its 64 random bits are below; `None` draws nothing.
    threshold: Option<u64>,
    rng: Rng,
}

impl Independent {
    /// Loses a packet with `probability` (clamped to 0…1).
    pub fn new(probability: f64, rng: Rng) -> Independent {
        // The cast saturates: at 1 a packet survives once in 2⁶⁴.
        let threshold = (probability > 0.0).then_some((probability * 18_446_744_073_709_551_616.0) as u64);
        Independent { threshold, rng }
    }
    /// Is the next packet lost?
    pub fn next(&mut self) -> bool {
        match self.threshold {
            Some(threshold) => self.rng.next_u64() < threshold,
            None => false,
        }
    }
}
