//! Parses routes that `ip -o route` prints, and makes the words of a new route.

use super::quoted;
use ::core::net::{IpAddr, Ipv4Addr};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const FLAGS: [&str; 6] = ["linkdown", "onlink", "dead", "pervasive", "offload", "trap"];

/// Words that `ip route` prints and that a new route must not contain, each with the number of its
/// arguments.
const DROPPED: [(&str, usize); 5] = [
    ("expires", 2),
    ("error", 1),
    ("pref", 1),
    ("cache", 0),
    ("congctl", 1),
];

/// Types of routes that plans do not support.
const TYPES: [&str; 7] = [
    "unreachable",
    "blackhole",
    "prohibit",
    "broadcast",
    "local",
    "multicast",
    "unicast",
];

/// A network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u32,
}

impl Network {
    fn bits(address: IpAddr) -> u128 {
        match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => v6.to_bits(),
        }
    }
    /// The first bits of an address, as many as the network has.
    fn prefix(&self, address: IpAddr) -> u128 {
        let bits = Network::bits(address);
        bits & u128::MAX.checked_shl(128 - self.length).unwrap_or(0)
    }
    fn parse(text: &str) -> Option<Network> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let plain = length.len() <= 3 && length.bytes().all(|b| b.is_ascii_digit());
        let length = match length.parse::<Ipv4Addr>() {
            _ if !text.contains('/') => most,
            Ok(mask) if address.is_ipv4() => {
                let ones = mask.to_bits().leading_ones();
                (ones == mask.to_bits().count_ones()).then_some(ones)?
            }
            _ => length.parse().ok().filter(|n| plain && *n <= most)?,
        };
        Some(Network { address, length })
    }
    /// Whether the address has bits behind the prefix.
    fn has_host_bits(&self) -> bool {
        self.prefix(self.address) != Network::bits(self.address)
    }
    /// `inet` or `inet6`.
    pub fn family(&self) -> &'static str {
        if self.address.is_ipv4() {
            "inet"
        } else {
            "inet6"
        }
    }
    /// The prefix as `ip route` writes it.
    pub fn text(&self) -> String {
        match self.length {
            0 => "default".into(),
            length => format!("{}/{length}", self.address),
        }
    }
}

/// The network of a destination text.
///
/// # Errors
///
/// If the text is not a network.
pub fn network(text: &str) -> Result<Network, String> {
    let found = Network::parse(if text == "default" { "0.0.0.0/0" } else { text });
    let problem = match found {
        Some(network) if !network.has_host_bits() => return Ok(network),
        Some(_) => format!("{text} has host bits set"),
        None => {
            let name = quoted(text);
            format!("{name} does not appear to be an IPv4 or IPv6 network")
        }
    };
    Err(format!(
        "--to {text}: a network is written 192.0.2.0/24, 2001:db8::/32, or default ({problem})"
    ))
}

/// The words of a line of `ip -o route`; the first one is the prefix with its length. Empty for
/// routes that plans do not support.
pub fn words(line: &str) -> Vec<String> {
    let line = line.replace('\\', " ");
    let kept = line.split_whitespace().filter(|word| !FLAGS.contains(word));
    let mut words: Vec<String> = kept.map(ToString::to_string).collect();
    let Some(first) = words
        .first_mut()
        .filter(|first| !TYPES.contains(&first.as_str()))
    else {
        return Vec::new();
    };
    if first != "default" && !first.contains('/') {
        *first += if first.contains(':') { "/128" } else { "/32" };
    }
    if words.iter().any(|word| word == "nexthop") {
        return Vec::new();
    }
    words
}

/// The command that creates or changes a route with these words.
pub fn replacement(family: &str, words: &[String]) -> String {
    let version = if family == "inet" { "-4" } else { "-6" };
    format!("ip {version} route replace {}", words.join(" "))
}

/// The words of a route without those that a new route must not contain.
pub fn stripped(words: &[String]) -> Vec<String> {
    let (mut kept, mut skip) = (Vec::new(), 0);
    for word in words {
        if skip > 0 {
            skip -= 1;
        } else if let Some((_, arguments)) = DROPPED.iter().find(|(own, _)| own == word) {
            skip = *arguments;
        } else {
            kept.push(word.clone());
        }
    }
    kept
}

/// The words for the next hop, interface and source address of a route.
pub fn next_hop(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["via", "dev", "src"] {
        if let Some(at) = words.iter().position(|word| word == key) {
            found.extend(words[at..].iter().take(2).cloned());
        }
    }
    found
}

/// The congestion control of a route; `None` if it has none.
pub fn congctl(words: &[String]) -> Option<&str> {
    let at = words.iter().position(|word| word == "congctl")?;
    words.get(at + 1).map(String::as_str)
}

/// The most specific of these routes that contains the whole destination; `None` if there is none.
pub fn covering<'a>(network: &Network, routes: &'a [Vec<String>]) -> Option<&'a Vec<String>> {
    let mut best: Option<(u32, &Vec<String>)> = None;
    for words in routes {
        let Some(route) = words.first().and_then(|first| match first.as_str() {
            "default" => Some(Network {
                length: 0,
                ..*network
            }),
            text => Network::parse(text).filter(|route| !route.has_host_bits()),
        }) else {
            continue;
        };
        let wider = route.family() == network.family() && route.length <= network.length;
        let inside = route.prefix(network.address) == route.prefix(route.address);
        if wider && inside && best.is_none_or(|(length, _)| route.length > length) {
            best = Some((route.length, words));
        }
    }
    best.map(|(_, words)| words)
}
