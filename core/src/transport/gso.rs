//! Generic segmentation offload (GSO): the maximum size of a super-packet, which the network device
//! divides into segments.

use super::MSS;
use crate::units::Bytes;

/// The maximum size of a super-packet; a burst of a sender is at most one super-packet of this
/// size.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Gso {
    /// Super-packets of up to 64 KiB.
    #[default]
    On,
    /// No super-packets: one segment (Linux: `gso_max_segs` 1 of the device).
    Off,
    /// A maximum number of segments (Linux: `gso_max_segs`).
    Segments(u32),
    /// A maximum number of bytes (Linux: `gso_max_size`).
    Bytes(Bytes),
}

/// The value of `gso_max_size` of most devices, in bytes.
const SIZE: u64 = 65_536;
/// Bytes that Linux reserves for headers.
const RESERVE: u64 = 321;

impl Gso {
    /// Returns the maximum number of payload bytes of a super-packet.
    #[inline]
    pub fn payload(self) -> u64 {
        let size = match self {
            Gso::Bytes(bytes) => bytes.get().min(SIZE),
            _ => SIZE,
        };
        size.saturating_sub(RESERVE).max(u64::from(MSS))
    }
    /// Returns the maximum number of segments of a super-packet, with `mss` bytes of payload each.
    #[inline]
    pub fn segments(self, mss: u32) -> u32 {
        let most = match self {
            Gso::Off => 1,
            Gso::Segments(n) => n,
            Gso::On | Gso::Bytes(_) => u32::MAX,
        };
        most.min((self.payload() / u64::from(mss.max(1))) as u32)
            .max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn super_packets_have_at_least_a_segment_and_at_most_45() {
        let segments = |gso: Gso| gso.segments(MSS);
        assert_eq!(segments(Gso::On), 45);
        assert_eq!(
            [Gso::Off, Gso::Segments(17), Gso::Segments(100)].map(segments),
            [1, 17, 45]
        );
        let bytes =
            [1514, 3 * 1448 + 321, 4 * 1448 + 320, 1 << 30].map(|n| Gso::Bytes(Bytes::new(n)));
        assert_eq!(bytes.map(segments), [1, 3, 3, 45]);
    }
}
