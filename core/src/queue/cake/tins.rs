//! Tins: the tin of a packet, and the share of the rate that each tin may use with priority.
//!
//! Sources: tc-cake(8), RFC 4594, RFC 8622 (LE); the tables by measurement of Linux 6.12, each code
//! point sent once to each mode (docs/reference/queue/cake.md).

/// A mode of the parameter `diffserv`: a set of tins, and the code points of each tin.
#[derive(Copy, Clone, Debug)]
pub struct Diffserv {
    /// The name of the mode in tc.
    pub word: &'static str,
    /// The tins in their order: of the tins within their thresholds, the last one sends first.
    pub tins: &'static [Share],
    /// The tin of a code point.
    pub tin: fn(u8) -> usize,
}

/// The name of a tin and its share of the rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The name in `tc -s qdisc`, except for numbers, which are tc's "Tin 0".
    pub name: &'static str,
    /// The threshold of the tin, as a part of the shaper's rate.
    pub rate: Threshold,
    /// Without a rate, the share of the link: bytes that the tin's deficit gains per turn.
    pub weight: i64,
}

/// A part of the shaper's rate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Threshold {
    /// The rate divided by 2 to the power of this number.
    Halved(u32),
    /// The rate times 7/8 to the power of this number.
    SevenEighths(u32),
}

impl Threshold {
    /// Returns this part of `rate`.
    pub fn of(self, rate: u64) -> u64 {
        match self {
            Threshold::Halved(times) => rate >> times,
            Threshold::SevenEighths(times) => {
                (0..times).fold(rate, |rate, _| (u128::from(rate) * 7 / 8) as u64)
            }
        }
    }
}

const fn halved(name: &'static str, times: u32) -> Share {
    Share {
        name,
        rate: Threshold::Halved(times),
        weight: 1024 >> times,
    }
}

/// Eight tins, each with seven eighths of the threshold and weight of the tin before it.
const LADDER: [Share; 8] = {
    let names = [
        "tin 0", "tin 1", "tin 2", "tin 3", "tin 4", "tin 5", "tin 6", "tin 7",
    ];
    let (mut ladder, mut tin, mut weight) = ([halved("", 0); 8], 0, 256);
    while tin < 8 {
        ladder[tin] = Share {
            name: names[tin],
            rate: Threshold::SevenEighths(tin as u32),
            weight,
        };
        weight = weight * 7 / 8;
        tin += 1;
    }
    ladder
};

/// All modes; the first is tc's default.
pub const DIFFSERV: &[Diffserv] = &[
    Diffserv {
        word: "diffserv3",
        tins: &[
            halved("best effort", 0),
            halved("bulk", 4),
            halved("voice", 2),
        ],
        tin: |dscp| match dscp {
            1 | 8 => 1,
            4 | 44 | 46 | 48 | 56 => 2,
            _ => 0,
        },
    },
    Diffserv {
        word: "diffserv4",
        tins: &[
            halved("best effort", 0),
            halved("bulk", 4),
            halved("video", 1),
            halved("voice", 2),
        ],
        tin: |dscp| match dscp {
            1 | 8 => 1,
            4 | 16 | 18 | 20 | 22 | 24 | 26 | 28 | 30 | 34 | 36 | 38 => 2,
            32 | 40 | 44 | 46 | 48 | 56 => 3,
            _ => 0,
        },
    },
    Diffserv {
        word: "diffserv8",
        tins: &LADDER,
        tin: |dscp| match dscp {
            1 => 0,
            2 | 8 | 10 | 12 | 14 => 1,
            24 | 26 | 28 | 30 | 34 | 36 | 38 => 3,
            4 | 18 | 20 | 22 => 4,
            16 => 5,
            32 | 40 | 44 | 46 => 6,
            48 | 56 => 7,
            _ => 2,
        },
    },
    Diffserv {
        word: "besteffort",
        tins: &[Share {
            name: "best effort",
            rate: Threshold::Halved(0),
            weight: 65_535,
        }],
        tin: |_| 0,
    },
    Diffserv {
        word: "precedence",
        tins: &LADDER,
        tin: |dscp| usize::from(dscp >> 3 & 7),
    },
];

/// The words of the parameter `diffserv`.
pub const WORDS: &[&str] = &[
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "besteffort",
    "precedence",
];

/// The mode of a word of tc.
pub fn of(word: &str) -> &'static Diffserv {
    DIFFSERV
        .iter()
        .find(|way| way.word == word)
        .unwrap_or(&DIFFSERV[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    /// The tins of Linux 6.12 for code points 0 to 63, in the order of `tc -s qdisc`, which has
    /// bulk before best effort.
    const LINUX: [(&str, &str); 5] = [
        (
            "diffserv3",
            "1011211101111111111111111111111111111111111121212111111121111111",
        ),
        (
            "diffserv4",
            "1011211101111111212121212121212131212121311131313111111131111111",
        ),
        (
            "diffserv8",
            "2012422212121212524242423232323262323232622262627222222272222222",
        ),
        (
            "besteffort",
            "0000000000000000000000000000000000000000000000000000000000000000",
        ),
        (
            "precedence",
            "0000000011111111222222223333333344444444555555556666666677777777",
        ),
    ];

    #[test]
    fn every_code_point_maps_to_a_tin() {
        for (word, linux) in LINUX {
            let way = of(word);
            let place = |tin: usize| match (way.tins.len(), tin) {
                (3 | 4, tin @ (0 | 1)) => 1 - tin,
                (_, tin) => tin,
            };
            let ours: String = (0..64)
                .map(|dscp| char::from(b'0' + place((way.tin)(dscp)) as u8))
                .collect();
            assert_eq!(ours, linux, "{word}");
        }
        assert_eq!(
            WORDS,
            DIFFSERV.iter().map(|way| way.word).collect::<Vec<_>>()
        );
    }

    /// `thresh` of `tc -s qdisc` at 20 Mbit/s, in kbit/s.
    #[test]
    fn thresholds_are_as_in_linux() {
        let of = |word| -> Vec<u64> {
            let way = of(word);
            way.tins
                .iter()
                .map(|tin| tin.rate.of(2_500_000) * 8 / 1000)
                .collect()
        };
        assert_eq!(of("diffserv3"), [20_000, 1250, 5000]);
        assert_eq!(of("diffserv4"), [20_000, 1250, 10_000, 5000]);
        let ladder = [20_000, 17_500, 15_312, 13_398, 11_723, 10_258, 8975, 7853];
        assert_eq!(
            (of("diffserv8"), of("precedence")),
            (ladder.to_vec(), ladder.to_vec())
        );
    }
}
