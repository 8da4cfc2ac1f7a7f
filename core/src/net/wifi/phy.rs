//! The duration of a transmission: preamble, symbols, and the answer to it.
//!
//! ```text
//!   802.11n   L-STF 8 L-LTF 8 L-SIG 4 HT-SIG 8    HT-STF 4  HT-LTF 4·n              | symbols
//!   802.11ac  L-STF 8 L-LTF 8 L-SIG 4 VHT-SIG-A 8 VHT-STF 4 VHT-LTF 4·n VHT-SIG-B 4 | symbols
//!   802.11a/g L-STF 8 L-LTF 8 SIGNAL 4                                              | symbols
//!   802.11b   long preamble and header 192                                          | bits
//! ```
//!
//! Algorithm: `symbols = ⌈(16 + 8·bytes + 6) / N_DBPS⌉` of 4 µs, or of 3.6 µs with a short guard
//! interval; then the sum is rounded up to 4 µs. A frame is answered after SIFS, at the highest
//! basic rate that does not exceed the rate of its modulation. Basic rates are 6, 12 and 24 Mbit/s,
//! in 802.11b 1, 2, 5.5 and 11.
//!
//! Sources: IEEE 802.11-2016, tables 19-27 to 19-34 (HT), 21-30 to 21-45 (VHT), 17-4 (OFDM), 16-2
//! (DSSS); sections 19.4.3, 21.4.3, 10.7.6.5. Deviations: one encoder (each additional one adds six
//! tail bits: at most one symbol); no STBC, no LDPC extra symbol; no short 802.11b preamble.

use crate::units::{Bytes, Rate, Span};

/// The standard that an access point and its stations use.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Standard {
    /// 802.11n (HT).
    #[default]
    N,
    /// 802.11ac (VHT).
    Ac,
}

/// The width of the channel.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Width {
    /// 20 MHz.
    #[default]
    W20,
    /// 40 MHz.
    W40,
    /// 80 MHz, 802.11ac only.
    W80,
}

/// The frequency band; it determines slots and interframe spaces.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Band {
    /// 5 GHz.
    #[default]
    Ghz5,
    /// 2.4 GHz with short slots, shared with 802.11b.
    Ghz2,
}

impl Band {
    /// Duration of a contention slot.
    pub fn slot(self) -> Span {
        Span::us(9)
    }
    /// SIFS: the interframe space before an answer.
    pub fn sifs(self) -> Span {
        match self {
            Band::Ghz5 => Span::us(16),
            Band::Ghz2 => Span::us(10),
        }
    }
    /// Signal extension after OFDM frames, so that SIFS is the same for 802.11b.
    fn extension(self) -> Span {
        match self {
            Band::Ghz5 => Span::ZERO,
            Band::Ghz2 => Span::us(6),
        }
    }
    /// Additional wait after a transmission that no receiver could decode: SIFS and an ACK at the
    /// lowest basic rate (EIFS − DIFS).
    pub fn penalty(self) -> Span {
        let lowest = match self {
            Band::Ghz5 => Phy::ofdm(6, self),
            Band::Ghz2 => Phy::dsss(Rate::mbit(1)),
        };
        self.sifs() + lowest.map_or(Span::ZERO, |phy| phy.duration(ACK))
    }
}

/// Size of an ACK.
pub const ACK: Bytes = Bytes::new(14);
/// Size of a block ACK with a compressed bitmap.
pub const BLOCK_ACK: Bytes = Bytes::new(32);

/// Data bits per symbol with one stream, by MCS: 20, 40, 80 MHz.
const HT20: [u32; 10] = [26, 52, 78, 104, 156, 208, 234, 260, 312, 0];
const HT40: [u32; 10] = [54, 108, 162, 216, 324, 432, 486, 540, 648, 720];
const VHT80: [u32; 10] = [117, 234, 351, 468, 702, 936, 1053, 1170, 1404, 1560];
/// Data bits per symbol of 802.11a/g, by the rate in Mbit/s.
const OFDM: [(u64, u32); 8] = [
    (6, 24),
    (9, 36),
    (12, 48),
    (18, 72),
    (24, 96),
    (36, 144),
    (48, 192),
    (54, 216),
];
/// The rates of 802.11b in kbit/s.
const DSSS: [u64; 4] = [1000, 2000, 5500, 11_000];

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Code {
    /// Data bits per symbol, and the duration of a symbol in ns.
    Ofdm { bits: u32, symbol_ns: u64 },
    /// kbit/s.
    Dsss { kbit: u64 },
}

/// The modulation of a link, with its durations.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Phy {
    code: Code,
    /// Time before and after the data.
    around: Span,
    /// Durations of the answers without SIFS: an ACK, and a block ACK.
    ack_durations: (Span, Span),
    streams: u32,
    aggregates: bool,
    /// The standard's A-MPDU limit.
    most_bytes: Bytes,
}

impl Phy {
    /// 802.11n (MCS of one stream 0 to 7) or 802.11ac (0 to 9). `None` if the standard has no such
    /// combination.
    pub fn new(
        standard: Standard,
        band: Band,
        width: Width,
        mcs: u8,
        streams: u8,
        short_guard: bool,
    ) -> Option<Phy> {
        let (most, table) = match (standard, width) {
            (Standard::N, Width::W80) => return None,
            (Standard::N, Width::W20) => (7, HT20),
            (Standard::N, Width::W40) => (7, HT40),
            (Standard::Ac, Width::W20) => (if streams % 3 == 0 { 9 } else { 8 }, HT20),
            (Standard::Ac, Width::W40) => (9, HT40),
            (Standard::Ac, Width::W80) => (9, VHT80),
        };
        let most_streams = if standard == Standard::N { 4 } else { 8 };
        // Bits that do not fill a symbol's carriers evenly: 802.11ac excludes the combination.
        let odd = standard == Standard::Ac
            && width == Width::W80
            && matches!((mcs, streams), (6, 3 | 7) | (9, 6));
        if mcs > most || streams == 0 || streams > most_streams || odd {
            return None;
        }
        let one = match table[usize::from(mcs)] {
            // 346⅔ bits of each of three streams.
            0 => 1040 * u32::from(streams) / 3,
            bits => bits * u32::from(streams),
        };
        let fields = match standard {
            Standard::N => 32 + 4 * long_training(streams),
            Standard::Ac => 36 + 4 * long_training(streams),
        };
        let code = Code::Ofdm {
            bits: one,
            symbol_ns: if short_guard { 3600 } else { 4000 },
        };
        let modulation = match mcs {
            0 => 6,
            1 | 2 => 12,
            _ => 24,
        };
        Some(Phy {
            code,
            around: Span::us(fields) + band.extension(),
            ack_durations: ack_durations(modulation, band),
            streams: u32::from(streams),
            aggregates: true,
            most_bytes: match standard {
                Standard::N => Bytes::new(65_535),
                Standard::Ac => Bytes::new(1_048_575),
            },
        })
    }

    /// A rate of 802.11a/g, in Mbit/s; `None` if there is no such rate.
    fn ofdm(mbit: u64, band: Band) -> Option<Phy> {
        let bits = OFDM
            .iter()
            .find(|(rate, _)| *rate == mbit)
            .map(|(_, bits)| *bits)?;
        Some(Phy {
            code: Code::Ofdm {
                bits,
                symbol_ns: 4000,
            },
            around: Span::us(20) + band.extension(),
            ack_durations: (Span::ZERO, Span::ZERO),
            streams: 1,
            aggregates: false,
            most_bytes: Bytes::new(4095),
        })
    }

    /// A rate of 802.11b; `None` if there is no such rate.
    fn dsss(rate: Rate) -> Option<Phy> {
        let kbit = DSSS
            .into_iter()
            .find(|kbit| Rate::bit(kbit * 1000) == rate)?;
        Some(Phy {
            code: Code::Dsss { kbit },
            around: Span::us(192),
            ack_durations: (Span::ZERO, Span::ZERO),
            streams: 1,
            aggregates: false,
            most_bytes: Bytes::new(4095),
        })
    }

    /// A rate of 802.11a, b or g, without aggregation. `None` if the band has no such rate.
    pub fn legacy(rate: Rate, band: Band) -> Option<Phy> {
        let mbit = rate.as_bit() / 1_000_000;
        if let Some(phy) = Phy::ofdm(mbit, band).filter(|_| Rate::mbit(mbit) == rate) {
            let basic = OFDM
                .iter()
                .map(|(rate, _)| *rate)
                .filter(|rate| [6, 12, 24].contains(rate));
            let modulation = basic.filter(|rate| *rate <= mbit).max().unwrap_or(6);
            return Some(Phy {
                ack_durations: ack_durations(modulation, band),
                ..phy
            });
        }
        let phy = Phy::dsss(rate).filter(|_| band == Band::Ghz2)?;
        Some(Phy {
            ack_durations: (phy.duration(ACK), phy.duration(BLOCK_ACK)),
            ..phy
        })
    }

    /// Every rate of 802.11a, b and g in a band.
    pub fn legacy_rates(band: Band) -> impl Iterator<Item = Rate> {
        let b = DSSS.into_iter().map(|kbit| Rate::bit(kbit * 1000));
        let b = b.filter(move |_| band == Band::Ghz2);
        b.chain(OFDM.into_iter().map(|(mbit, _)| Rate::mbit(mbit)))
    }

    /// Duration of a frame of this size.
    pub fn duration(&self, bytes: Bytes) -> Span {
        match self.code {
            Code::Ofdm { bits, symbol_ns } => {
                let symbols = (bytes.get() * 8 + 22).div_ceil(u64::from(bits.max(1)));
                self.around + Span::ns((symbols * symbol_ns).next_multiple_of(4000))
            }
            Code::Dsss { kbit } => self.around + Span::us((bytes.get() * 8 * 1000).div_ceil(kbit)),
        }
    }

    /// The maximum number of bytes whose symbols last at most this long.
    pub fn bytes_in(&self, span: Span) -> Bytes {
        let bits = match self.code {
            Code::Ofdm { bits, symbol_ns } => {
                (span.as_ns() / symbol_ns * u64::from(bits)).saturating_sub(22)
            }
            Code::Dsss { kbit } => span.as_us() * kbit / 1000,
        };
        Bytes::new(bits / 8)
    }

    /// The data rate of its symbols.
    pub fn rate(&self) -> Rate {
        match self.code {
            Code::Ofdm { bits, symbol_ns } => {
                Rate::bit(u64::from(bits) * 1_000_000_000 / symbol_ns)
            }
            Code::Dsss { kbit } => Rate::bit(kbit * 1000),
        }
    }

    /// Duration of the answer without SIFS: a block ACK, or an ACK for a single frame.
    pub fn ack_duration(&self, block: bool) -> Span {
        if block {
            self.ack_durations.1
        } else {
            self.ack_durations.0
        }
    }

    /// Returns whether frames may be aggregated.
    pub fn aggregates(&self) -> bool {
        self.aggregates
    }

    /// The maximum number of bytes of one transmission.
    pub fn most_bytes(&self) -> Bytes {
        self.most_bytes
    }

    /// Number of spatial streams.
    pub fn streams(&self) -> u32 {
        self.streams
    }
}

/// The durations of an ACK and a block ACK at `mbit` Mbit/s.
fn ack_durations(mbit: u64, band: Band) -> (Span, Span) {
    Phy::ofdm(mbit, band).map_or((Span::ZERO, Span::ZERO), |phy| {
        (phy.duration(ACK), phy.duration(BLOCK_ACK))
    })
}

/// The number of long training fields for `streams` streams.
fn long_training(streams: u8) -> u64 {
    match streams {
        0..=2 => u64::from(streams),
        3 | 4 => 4,
        5 | 6 => 6,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ht(mcs: u8, streams: u8) -> Phy {
        Phy::new(Standard::N, Band::Ghz5, Width::W20, mcs, streams, true).unwrap()
    }

    #[test]
    fn rates_are_the_standards() {
        let mbit = |phy: Phy| libm::round(phy.rate().as_mbit() * 10.0) / 10.0;
        assert_eq!((mbit(ht(0, 1)), mbit(ht(7, 2))), (7.2, 144.4));
        let vht =
            |width, mcs, streams| Phy::new(Standard::Ac, Band::Ghz5, width, mcs, streams, true);
        assert_eq!(vht(Width::W80, 9, 2).map(mbit), Some(866.7));
        assert_eq!(vht(Width::W40, 9, 1).map(mbit), Some(200.0));
        assert_eq!(vht(Width::W20, 9, 3).map(mbit), Some(288.9));
        assert_eq!(vht(Width::W20, 9, 1), None);
        assert_eq!(vht(Width::W80, 6, 3), None);
        assert!(
            Phy::legacy_rates(Band::Ghz2)
                .all(|rate| Phy::legacy(rate, Band::Ghz2).map(|p| p.rate()) == Some(rate))
        );
        assert_eq!(Phy::legacy(Rate::mbit(1), Band::Ghz5), None);
    }

    #[test]
    fn durations_are_the_standards() {
        let us = |span: Span| span.as_ns() as f64 / 1000.0;
        // 36 µs of fields; 8 · 1538 + 22 bits in 475 symbols of 3.6 µs, which end on a whole 4 µs.
        assert_eq!(us(ht(0, 1).duration(Bytes::new(1538))), 36.0 + 1712.0);
        assert_eq!(us(ht(7, 2).duration(Bytes::new(0))), 40.0 + 4.0);
        let vht = Phy::new(Standard::Ac, Band::Ghz5, Width::W80, 9, 2, false).unwrap();
        assert_eq!(us(vht.duration(Bytes::new(1000))), 44.0 + 12.0);
        // At 24 Mbit/s a block ACK takes 32 µs and an ACK 28; a slow frame has a slow answer.
        assert_eq!(
            (
                us(ht(7, 2).ack_duration(true)),
                us(ht(7, 2).ack_duration(false))
            ),
            (32.0, 28.0)
        );
        assert_eq!(us(ht(0, 1).ack_duration(true)), 68.0);
        let b = Phy::legacy(Rate::mbit(1), Band::Ghz2).unwrap();
        assert_eq!(
            (us(b.duration(Bytes::new(1538))), us(b.ack_duration(false))),
            (192.0 + 12_304.0, 304.0)
        );
    }

    #[test]
    fn four_milliseconds_hold_two_full_frames_at_the_lowest_rate() {
        let bytes = ht(0, 1).bytes_in(Span::ms(4)).get();
        assert!((2 * 1542..3 * 1542).contains(&bytes), "{bytes}");
        assert!(ht(7, 2).bytes_in(Span::ms(4)) > Bytes::new(65_535));
    }
}
