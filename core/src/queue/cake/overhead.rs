//! Overhead of a line: the bytes that the shaper charges for a packet.
//!
//! Algorithm: if an overhead is set, the Ethernet header of the frame (14 bytes) is replaced by
//! `overhead` bytes. A packet counts at least `mpu` bytes. With ATM, every 48 bytes of this size or
//! part of them count as a cell of 53 bytes. PTM adds one byte for every 64 bytes or part of them.
//! Sources: tc-cake(8); Linux 6.12.

use crate::param::Params;
use crate::units::Bytes;

/// The Ethernet header, which an overhead replaces.
const ETHERNET: i64 = 14;

/// The cells into which a line divides packets.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Cells {
    None,
    Atm,
    Ptm,
}

/// The overhead of a line.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Bytes that are added to the size of a frame; negative if the overhead is less than the
    /// Ethernet header.
    more: i64,
    mpu: i64,
    cells: Cells,
    /// Whether exactly the bytes of a frame are charged.
    bare: bool,
}

/// The words of tc for lines, each with overhead, mpu and cells. The first is tc's default.
#[rustfmt::skip]
const LINES: &[(&str, i64, i64, Cells)] = &[
    ("raw",               0,  0, Cells::None),
    ("conservative",     48,  0, Cells::Atm),
    ("pppoa-vcmux",      10,  0, Cells::Atm),
    ("pppoa-llc",        14,  0, Cells::Atm),
    ("pppoe-vcmux",      32,  0, Cells::Atm),
    ("pppoe-llcsnap",    40,  0, Cells::Atm),
    ("bridged-vcmux",    24,  0, Cells::Atm),
    ("bridged-llcsnap",  32,  0, Cells::Atm),
    ("ipoa-vcmux",        8,  0, Cells::Atm),
    ("ipoa-llcsnap",     16,  0, Cells::Atm),
    ("pppoe-ptm",        30,  0, Cells::Ptm),
    ("bridged-ptm",      22,  0, Cells::Ptm),
    ("ethernet",         38, 84, Cells::None),
    ("docsis",           18, 64, Cells::None),
];

/// The words of the parameter `line`.
pub const WORDS: &[&str] = &[
    "raw",
    "conservative",
    "pppoa-vcmux",
    "pppoa-llc",
    "pppoe-vcmux",
    "pppoe-llcsnap",
    "bridged-vcmux",
    "bridged-llcsnap",
    "ipoa-vcmux",
    "ipoa-llcsnap",
    "pppoe-ptm",
    "bridged-ptm",
    "ethernet",
    "docsis",
];

impl Line {
    /// The line that the parameters `line`, `overhead`, `ether_vlan`, `mpu` and `cells` specify.
    pub fn of(params: &Params) -> Line {
        let word = params.word("line");
        let (_, overhead, mpu, cells) = *LINES
            .iter()
            .find(|line| line.0 == word)
            .unwrap_or(&LINES[0]);
        let given = params.number("overhead") as i64;
        let vlan = if params.bool("ether_vlan") { 4 } else { 0 };
        let more = vlan + if given == 0 { overhead } else { given };
        let more = if word == "raw" && more == 0 {
            0
        } else {
            more - ETHERNET
        };
        let mpu = match params.bytes("mpu").get() {
            0 => mpu,
            mpu => mpu as i64,
        };
        let cells = match params.word("cells") {
            "atm" => Cells::Atm,
            "ptm" => Cells::Ptm,
            "noatm" => Cells::None,
            _ => cells,
        };
        Line {
            more,
            mpu,
            cells,
            bare: (more, mpu, cells) == (0, 0, Cells::None),
        }
    }
    /// Returns whether exactly the bytes of a frame are charged.
    #[inline]
    pub fn is_bare(&self) -> bool {
        self.bare
    }
    /// The bytes that are charged for a frame of `size` bytes.
    pub fn bytes(&self, size: Bytes) -> u64 {
        let size = size.get();
        if self.bare {
            return size;
        }
        let len = (size.min(1 << 40) as i64 + self.more).max(self.mpu).max(0) as u64;
        match self.cells {
            Cells::None => len,
            Cells::Atm => len.div_ceil(48) * 53,
            Cells::Ptm => len + len.div_ceil(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::param::Value;
    use crate::queue::cake::params::PARAMS;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn len(line: Line, size: u64) -> u64 {
        line.bytes(Bytes::new(size))
    }
    fn line(set: &[(&'static str, Value)]) -> Line {
        let mut params = Params::defaults(PARAMS);
        set.iter()
            .for_each(|(name, value)| params.set(name, value.clone()));
        Line::of(&params)
    }

    #[test]
    fn words_match_the_table_of_lines() {
        assert_eq!(WORDS, LINES.iter().map(|line| line.0).collect::<Vec<_>>());
    }

    #[test]
    fn charged_bytes_include_overhead_and_cells() {
        assert_eq!(len(line(&[]), 1514), 1514);
        let word = |word: &str| line(&[("line", Value::Word(word.to_string()))]);
        // 1500 B and 40 B make 33 cells; 46 B and 40 B make two.
        assert_eq!(len(word("pppoe-llcsnap"), 1514), 33 * 53);
        assert_eq!(len(word("pppoe-llcsnap"), 60), 2 * 53);
        assert_eq!(len(word("pppoe-ptm"), 1514), 1530 + 24);
        assert_eq!(
            (len(word("ethernet"), 60), len(word("ethernet"), 1514)),
            (84, 1538)
        );
        assert_eq!(
            (
                len(word("conservative"), 60),
                len(word("conservative"), 1514)
            ),
            (106, 1749)
        );
        assert_eq!(
            len(line(&[("cells", Value::Word("atm".to_string()))]), 1514),
            1696
        );
        let overhead = line(&[("overhead", Value::Number(-64.0))]);
        assert_eq!(len(overhead, 60), 0);
    }
}
