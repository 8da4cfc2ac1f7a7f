//! Sets the congestion control of a route (`RTAX_CC_ALGO`, Linux 4.0). Connections to the route's
//! destination use it regardless of the default.
//!
//! The route is sent back as the kernel reported it, except for its congestion control and
//! attributes that the kernel does not accept. If there is no route for exactly that prefix, one is
//! created with the gateway and device of the route in use. A revert removes it.

use crate::sys::netlink::{Message, Netlink, attribute, attributes, text};
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;

const FIXED: usize = 12;
const CC_ALGO: u16 = 16;
/// `RTNH_F_ONLINK`, which libc does not name.
const ONLINK: u32 = 4;

/// The destination of a route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The address of the destination.
    pub address: IpAddr,
    /// The prefix length of the destination.
    pub bits: u8,
}

impl Prefix {
    /// Reads a prefix such as `192.0.2.0/24`, `2001:db8::/32`, `192.0.2.1` or `default`; `None` if
    /// invalid. The address must be IPv6 if `v6`, else IPv4.
    pub fn parse(text: &str, v6: bool) -> Option<Prefix> {
        if text == "default" {
            let any: IpAddr = if v6 { [0; 16].into() } else { [0; 4].into() };
            return Some(Prefix {
                address: any,
                bits: 0,
            });
        }
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address
            .parse()
            .ok()
            .filter(|a: &IpAddr| a.is_ipv6() == v6)?;
        let most = if v6 { 128 } else { 32 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|b| *b <= most))?;
        Some(Prefix { address, bits })
    }
    fn octets(&self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(a) => a.octets().to_vec(),
            IpAddr::V6(a) => a.octets().to_vec(),
        }
    }
    fn family(&self) -> u8 {
        if self.address.is_ipv6() {
            libc::AF_INET6 as u8
        } else {
            libc::AF_INET as u8
        }
    }
}

/// The unicast route for exactly that prefix in the main table, as the kernel reports it; an error
/// if there are several.
fn find(to: &Prefix) -> io::Result<Option<Vec<u8>>> {
    let fixed = [to.family(), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let found = Netlink::new()?.list(Message::new(libc::RTM_GETROUTE, &[&fixed]))?;
    let ours = |body: &Vec<u8>| {
        let told = attributes(body.get(FIXED..).unwrap_or_default());
        let table = attribute(&told, libc::RTA_TABLE)
            .and_then(<[u8]>::first_chunk)
            .map_or(u32::from(body[4]), |t| u32::from_ne_bytes(*t));
        let there = attribute(&told, libc::RTA_DST).map_or(to.bits == 0, |dst| dst == to.octets());
        body[0] == to.family()
            && body[1] == to.bits
            && there
            && table == u32::from(libc::RT_TABLE_MAIN)
            && body[7] == libc::RTN_UNICAST
    };
    let mut found: Vec<Vec<u8>> = found
        .into_iter()
        .filter(|b| b.len() >= FIXED)
        .filter(ours)
        .collect();
    if found.len() > 1 {
        let text = format!(
            "{}/{}: several routes exist for it; narrows changes none of them",
            to.address, to.bits
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(found.pop())
}

/// The congestion control of a route.
fn cc(body: &[u8]) -> Option<String> {
    let told = attributes(body.get(FIXED..)?);
    attribute(&attributes(attribute(&told, libc::RTA_METRICS)?), CC_ALGO).map(text)
}

/// The request of type `kind` for a route with congestion control `cc`, or with none. All other
/// attributes are those of `body`.
fn again(body: &[u8], cc: Option<&str>, kind: u16) -> Message {
    /// Attribute that the kernel reports and does not accept: age and expiry of the route.
    const TOLD_ONLY: u16 = libc::RTA_CACHEINFO;
    let mut fixed = body[..FIXED].to_vec();
    // Flags other than `onlink` describe the state of the route and cannot be set.
    let flags = body[8..12]
        .first_chunk()
        .map_or(0, |f| u32::from_ne_bytes(*f))
        & ONLINK;
    fixed[8..].copy_from_slice(&flags.to_ne_bytes());
    let mut made = Message::new(kind, &[&fixed]);
    let mut metrics = Vec::new();
    for (kind, value) in attributes(&body[FIXED..]) {
        if kind == libc::RTA_METRICS {
            metrics = attributes(value)
                .into_iter()
                .filter(|(k, _)| *k != CC_ALGO)
                .collect();
        } else if kind != TOLD_ONLY {
            made = made.attribute(kind, value);
        }
    }
    let name = cc.map(|cc| [cc.as_bytes(), &[0]].concat());
    if let Some(name) = &name {
        metrics.push((CC_ALGO, name));
    }
    if metrics.is_empty() {
        return made;
    }
    made.attribute(libc::RTA_METRICS, &nested(&metrics))
}

fn nested(list: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, value) in list {
        bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// The route for exactly that prefix as JSON, with its congestion control; `null` if there is none.
pub fn live(to: &Prefix) -> io::Result<Value> {
    Ok(match find(to)? {
        None => Value::Null,
        Some(body) => json!({ "cc": cc(&body), "hex": super::to_hex(&body) }),
    })
}

/// A new route for exactly that prefix, with the gateway and device that the kernel uses for the
/// prefix's address.
fn towards(to: &Prefix) -> io::Result<Vec<u8>> {
    let fixed = [
        to.family(),
        to.octets().len() as u8 * 8,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];
    let question =
        Message::new(libc::RTM_GETROUTE, &[&fixed]).attribute(libc::RTA_DST, &to.octets());
    let found = Netlink::new()?.one(question)?;
    let told = attributes(found.get(FIXED..).unwrap_or_default());
    let gateway = attribute(&told, libc::RTA_GATEWAY);
    let scope = if gateway.is_none() {
        libc::RT_SCOPE_LINK
    } else {
        libc::RT_SCOPE_UNIVERSE
    };
    let mut list = vec![];
    let dst = to.octets();
    if to.bits > 0 {
        list.push((libc::RTA_DST, &dst[..]));
    }
    for kind in [libc::RTA_GATEWAY, libc::RTA_OIF] {
        list.extend(attribute(&told, kind).map(|value| (kind, value)));
    }
    let kind = [
        to.family(),
        to.bits,
        0,
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_STATIC,
        scope,
        libc::RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    Ok([&kind[..], &nested(&list)].concat())
}

fn at(to: &Prefix) -> impl Fn(io::Error) -> io::Error + '_ {
    move |e| io::Error::new(e.kind(), format!("route {}/{}: {e}", to.address, to.bits))
}

/// Whether the route expires, as routes from router advertisements do. A route created from it
/// would not expire.
fn expires(body: &[u8]) -> bool {
    /// Offset of `rta_expires` in `struct rta_cacheinfo`, in bytes.
    const EXPIRES: usize = 8;
    let told = attributes(body.get(FIXED..).unwrap_or_default());
    let cache =
        attribute(&told, libc::RTA_CACHEINFO).and_then(|cache| cache.get(EXPIRES..EXPIRES + 4));
    cache.is_some_and(|expires| expires != [0; 4])
}

/// Sets the congestion control of the route for `to`, and creates the route if necessary. `None`
/// removes the congestion control.
pub fn set(to: &Prefix, cc: Option<&str>) -> io::Result<()> {
    let body = match find(to)? {
        Some(body) if expires(&body) => {
            let text = "a router announced it and it expires, which a copy would not; select a \
             longer prefix, or the default";
            return Err(at(to)(io::Error::new(io::ErrorKind::InvalidInput, text)));
        }
        Some(body) => body,
        None => towards(to).map_err(at(to))?,
    };
    Netlink::new()?
        .ask(again(&body, cc, libc::RTM_NEWROUTE))
        .map_err(at(to))
}

/// Restores the congestion control of the route; all other attributes keep their present values. A
/// route that did not exist before is removed.
pub fn restore(to: &Prefix, before: &Value) -> io::Result<()> {
    match (find(to)?, before) {
        (Some(body), Value::Null) => Netlink::new()?
            .tell(again(&body, None, libc::RTM_DELROUTE), 0)
            .map_err(at(to)),
        (Some(body), before) => {
            let message = again(&body, before["cc"].as_str(), libc::RTM_NEWROUTE);
            Netlink::new()?.ask(message).map_err(at(to))
        }
        // The route no longer exists; for example, it was removed with its device.
        (None, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_people_write_them() {
        let read = |text, v6| Prefix::parse(text, v6).map(|p| (p.address.to_string(), p.bits));
        assert_eq!(
            read("192.0.2.0/24", false),
            Some(("192.0.2.0".to_string(), 24))
        );
        assert_eq!(
            read("2001:db8::1", true),
            Some(("2001:db8::1".to_string(), 128))
        );
        assert_eq!(read("default", true), Some(("::".to_string(), 0)));
        for odd in ["192.0.2.0/33", "x", "192.0.2.0/24 dev lo", "::1", ""] {
            assert_eq!(read(odd, false), None, "{odd}");
        }
    }

    #[test]
    fn a_route_keeps_all_but_its_congestion_control() {
        let mut body = vec![2, 32, 0, 0, 254, 4, 253, 1, 0x10, 0, 0, 0];
        let metrics = nested(&[(11, &20_u32.to_ne_bytes()), (CC_ALGO, b"cubic\0")]);
        body.extend(nested(&[
            (libc::RTA_DST, &[192, 0, 2, 1]),
            (libc::RTA_METRICS, &metrics),
        ]));
        assert_eq!(cc(&body).as_deref(), Some("cubic"));
        let changed = again(&body, Some("bbr"), libc::RTM_NEWROUTE);
        let changed = changed.body();
        assert_eq!(cc(changed).as_deref(), Some("bbr"));
        let back = again(changed, Some("cubic"), libc::RTM_NEWROUTE);
        assert_eq!(back.body()[FIXED..], body[FIXED..]);
        assert_eq!(cc(again(&body, None, libc::RTM_NEWROUTE).body()), None);
        assert!(!expires(&body));
        body.extend(nested(&[(
            libc::RTA_CACHEINFO,
            &[0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0],
        )]));
        assert!(expires(&body));
        assert!(!expires(again(&body, None, libc::RTM_NEWROUTE).body()));
    }
}
