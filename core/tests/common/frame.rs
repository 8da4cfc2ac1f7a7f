//! A packet of one flow without ECN, for tests of which the packet is not the subject.

use narrows_core::packet::{Ecn, Packet};
use narrows_core::units::{Bytes, Time};

/// A packet with any content.
#[derive(Clone, Debug)]
pub struct Frame<T> {
    /// Bytes on the wire.
    pub size: u64,
    pub content: T,
    entered: Time,
}

impl<T> Frame<T> {
    /// A packet that has not entered a queue.
    pub fn new(size: u64, content: T) -> Frame<T> {
        Frame {
            size,
            content,
            entered: Time::ZERO,
        }
    }
}

impl<T> Packet for Frame<T> {
    fn size(&self) -> Bytes {
        Bytes::new(self.size)
    }
    fn enqueued_at(&self) -> Time {
        self.entered
    }
    fn set_enqueued_at(&mut self, now: Time) {
        self.entered = now;
    }
    fn flow_hash(&self, _seed: u64) -> u32 {
        0
    }
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
    fn set_ce(&mut self) {}
}
