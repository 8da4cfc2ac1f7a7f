//! Segmentation offload: the largest super-packet.

use super::MSS;
use crate::units::Bytes;

/// The largest super-packet, which bounds a sender's bursts.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum Gso {
    /// 64 KiB.
    #[default]
    On,
    /// One segment: `gso_max_segs` of 1.
    Off,
    /// `gso_max_segs`.
    Segments(u32),
    /// `gso_max_size`.
    Bytes(Bytes),
}

/// `gso_max_size` of most devices.
const SIZE: u64 = 65_536;
/// Bytes that Linux reserves for headers.
const RESERVE: u64 = 321;

impl Gso {
    /// Maximum number of payload bytes.
    pub fn payload(self) -> u64 {
        let size = match self {
            Gso::Bytes(bytes) => bytes.get().min(SIZE),
            _ => SIZE,
        };
        size.saturating_sub(RESERVE).max(u64::from(MSS))
    }
    /// Maximum number of segments.
    pub fn segments(self) -> u32 {
        let most = match self {
            Gso::Off => 1,
            Gso::Segments(n) => n,
            Gso::On | Gso::Bytes(_) => u32::MAX,
        };
        most.min((self.payload() / u64::from(MSS)) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn super_packets_have_at_least_a_segment_and_at_most_45() {
        let segments = |gso: Gso| gso.segments();
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
