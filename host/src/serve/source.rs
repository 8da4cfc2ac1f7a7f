//! Source addresses and the prefixes to which limits of the server apply.
//!
//! | level | IPv4 | IPv6 |
//! |---|---|---|
//! | 0, all sources | /0 | /0 |
//! | 1 | /16 | /32 |
//! | 2 | /24 | /48 |
//! | 3, a source | the address | /64 |
//!
//! IPv4 addresses within IPv6 addresses (mapped, or NAT64 of RFC 6052) count as IPv4.

use crate::protocols::handshake::canonical_ip;
use std::net::IpAddr;

/// Number of levels.
pub const LEVELS: usize = 4;

/// Largest number of items of one prefix, from the widest level to a source.
pub type Most = [u64; LEVELS - 1];

/// Prefix length at each level: of IPv4 within `::ffff:0:0/96`, and of IPv6.
const BITS: [(u32, u32); LEVELS] = [(0, 0), (112, 32), (120, 48), (128, 64)];

/// The smallest unit of limits: an IPv4 address, or the /64 of an IPv6 address. Stored as 128 bits;
/// an IPv4 address lies within `::ffff:0:0/96`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Source(u128);

impl Source {
    /// The prefix of the source at a level, 0 to [`LEVELS`] - 1; at level 0 zero for every source.
    pub fn prefix(self, level: usize) -> u128 {
        let (v4, v6) = BITS[level];
        let is_v4 = self.0 >> 32 == 0xffff;
        let bits = if is_v4 { v4 } else { v6 };
        self.0 & u128::MAX.checked_shl(128 - bits).unwrap_or(0)
    }
}

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Source {
        match canonical_ip(ip) {
            IpAddr::V4(v4) => Source(u128::from(v4.to_ipv6_mapped())),
            IpAddr::V6(v6) => Source(u128::from(v6) >> 64 << 64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn each_level_keeps_the_bits_of_the_table() {
        for (address, prefixes) in [
            (
                "192.0.2.1",
                [
                    "::",
                    "::ffff:192.0.0.0",
                    "::ffff:192.0.2.0",
                    "::ffff:192.0.2.1",
                ],
            ),
            // NAT64.
            (
                "64:ff9b::192.0.2.1",
                [
                    "::",
                    "::ffff:192.0.0.0",
                    "::ffff:192.0.2.0",
                    "::ffff:192.0.2.1",
                ],
            ),
            (
                "2001:db8:1:2:3::4",
                ["::", "2001:db8::", "2001:db8:1::", "2001:db8:1:2::"],
            ),
        ] {
            let source = Source::from(address.parse::<IpAddr>().expect("an address"));
            for (level, prefix) in prefixes.iter().enumerate() {
                let prefix: Ipv6Addr = prefix.parse().expect("an address");
                assert_eq!(
                    source.prefix(level),
                    u128::from(prefix),
                    "{address} {level}"
                );
            }
        }
    }
}
