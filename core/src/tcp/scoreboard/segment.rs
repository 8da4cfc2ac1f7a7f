//! A segment in flight: its place in the stream, its transmission and its flags.

/// SACKed by the receiver.
pub const SACKED: u16 = 1;
/// Marked lost.
pub const LOST: u16 = 2;
/// A retransmission of the segment is in flight.
pub const RETRANS: u16 = 4;
/// The segment has been retransmitted at least once.
pub const EVER_RETRANS: u16 = 8;
pub(super) const LINKED: u16 = 16;
/// The segment was removed from the order of transmission by a timeout; it is restored if the
/// timeout was spurious.
pub(super) const TIMED_OUT: u16 = 32;
/// The next segment left in the same super-packet.
pub const GLUED: u16 = 64;
/// The segment ended a write of the application.
pub const PUSHED: u16 = 128;
/// The segment left while the application limited the connection.
pub const APP_LIMITED: u16 = 256;

/// One segment in flight.
#[derive(Copy, Clone, Debug, Default)]
pub struct Seg {
    /// Offset of its first byte.
    pub seq: u64,
    /// Time when the segment was last sent, µs.
    pub sent_us: u64,
    /// Packets that had been delivered when the segment was last sent.
    pub delivered: u64,
    /// µs between the delivery of the last of those packets and this transmission.
    pub(super) delivered_before: u32,
    /// µs between the transmission of the packet delivered last and this transmission.
    pub(super) first_sent_before: u32,
    pub(super) older: u64,
    pub(super) newer: u64,
    pub(super) skip: u64,
    /// Payload bytes.
    pub len: u32,
    /// `SACKED`, `LOST`, `RETRANS`, `EVER_RETRANS`, `GLUED`, `PUSHED`, `APP_LIMITED`.
    pub flags: u16,
}

/// A connection's delivery counters when a packet leaves. A delivery-rate sample runs from here to
/// the packet's ACK.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Packets delivered so far.
    pub delivered: u64,
    /// Time when the last of the delivered packets was delivered, µs.
    pub delivered_us: u64,
    /// Time when the packet delivered last had been sent, µs.
    pub first_sent_us: u64,
    /// Whether the application limited the connection.
    pub app_limited: bool,
}

impl Seg {
    /// The byte after its last byte.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
    /// Returns whether any of `flags` is set.
    pub fn is(&self, flags: u16) -> bool {
        self.flags & flags != 0
    }
    /// The delivery counters when the segment was last sent.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            delivered: self.delivered,
            delivered_us: self.sent_us - u64::from(self.delivered_before),
            first_sent_us: self.sent_us - u64::from(self.first_sent_before),
            app_limited: self.is(APP_LIMITED),
        }
    }
    /// A segment that leaves at `sent_us`, when the connection has the counters `known`. Its place
    /// in the stream is added by [`Scoreboard::push`](super::Scoreboard::push).
    #[inline]
    pub fn sent(sent_us: u64, known: &Snapshot) -> Seg {
        let mut seg = Seg::default();
        seg.stamp(sent_us, known);
        seg
    }
    #[inline]
    pub(super) fn stamp(&mut self, sent_us: u64, known: &Snapshot) {
        let before = |us: u64| sent_us.saturating_sub(us).min(u64::from(u32::MAX)) as u32;
        self.sent_us = sent_us;
        self.delivered = known.delivered;
        self.delivered_before = before(known.delivered_us);
        self.first_sent_before = before(known.first_sent_us);
        self.flags = (self.flags & !APP_LIMITED) | if known.app_limited { APP_LIMITED } else { 0 };
    }
}
