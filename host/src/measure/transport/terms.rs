//! The terms on which both ends of a flow agree before it starts. The settings of this host's TCP,
//! which its state machines use.

use crate::measure::bulk::UNSENT;
use crate::sys;
use crate::sys::kernel;
use crate::sys::socket::path_mtu;
use narrows_core::cc::{self as controls, CcKind, Need};
use narrows_core::kernel::{Kernel, nearest};
use narrows_core::tcp::{Config, EcnUse};
use narrows_core::transport::TIMESTAMPS;
use narrows_core::units::Bytes;
use serde_json::{Value, json};
use std::os::fd::OwnedFd;

/// The congestion control if none is selected: Linux's default.
pub const DEFAULT: &str = "cubic";
/// Largest IP packet, bytes: that of Ethernet. A larger one would cross no usual path.
const MOST_MTU: u32 = 1500;
/// Smallest IP packet that a path must carry, bytes (IPv6, RFC 8200 section 5).
const LEAST_MTU: u32 = 1280;
/// Headers of IPv4, of IPv6, and of UDP, bytes.
const HEADERS: (u32, u32, u32) = (20, 40, 8);

/// The agreement of both ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Payload of a full segment, bytes.
    pub payload: u32,
    /// Use of ECN.
    pub ecn: EcnUse,
    /// Whether the receiver sends selective acknowledgements.
    pub sack: bool,
}

/// The kinds of ECN that a congestion control may require, by name.
const ECN: [(EcnUse, &str); 3] = [
    (EcnUse::Off, "off"),
    (EcnUse::Echoed, "echoed"),
    (EcnUse::Counted, "counted"),
];

impl Terms {
    /// The terms that a sender with this congestion control proposes.
    pub fn of(cc: &CcKind) -> Terms {
        let signals = cc.signals();
        let needs = cc.needs(Need::EcnEcho) || cc.needs(Need::EcnCount);
        Terms {
            payload: payload(MOST_MTU, true),
            ecn: if needs { signals.ecn } else { EcnUse::Off },
            sack: signals.sack,
        }
    }
    /// These terms for a connected socket: a full segment fits into the MTU of its path.
    pub fn fitted(self, socket: &OwnedFd, v4: bool) -> Terms {
        let mtu = path_mtu(socket).map_or(MOST_MTU, |mtu| mtu.clamp(LEAST_MTU, MOST_MTU));
        self.with_payload(payload(mtu, v4))
    }
    /// These terms with a payload of at most `most` bytes.
    pub fn with_payload(self, most: u32) -> Terms {
        Terms {
            payload: self.payload.min(most),
            ..self
        }
    }
    /// Encodes the terms.
    pub fn to_json(self) -> Value {
        let ecn = ECN.iter().find(|(ecn, _)| *ecn == self.ecn);
        json!({ "payload": self.payload, "ecn": ecn.map(|(_, name)| name), "sack": self.sack })
    }
    /// Decodes the terms of the other end; `None` if they are impossible.
    pub fn from_json(value: &Value) -> Option<Terms> {
        let least = payload(LEAST_MTU, false);
        let size = value["payload"]
            .as_u64()
            .and_then(|n| u32::try_from(n).ok());
        let name = value["ecn"].as_str()?;
        Some(Terms {
            payload: size.filter(|n| (least..=payload(MOST_MTU, true)).contains(n))?,
            ecn: ECN.iter().find(|(_, known)| *known == name)?.0,
            sack: value["sack"].as_bool()?,
        })
    }
    /// The configuration of an end on this host.
    pub fn config(self) -> Config {
        let usual = Config::default();
        let (receive, send) = (buffer("tcp_rmem"), buffer("tcp_wmem"));
        let (rmem_default, rmem_max) = receive.unwrap_or((usual.rmem_default, usual.rmem_max));
        let (wmem_default, wmem_max) = send.unwrap_or((usual.wmem_default, usual.wmem_max));
        let mss = self.payload + TIMESTAMPS as u32;
        Config {
            hz: sys::kernel_hz(),
            kernel: Kernel::named(&nearest(&kernel::release())).unwrap_or_default(),
            rmem_default,
            rmem_max,
            wmem_default,
            wmem_max,
            notsent_lowat: Bytes::new(UNSENT.into()),
            ecn: self.ecn,
            sack: self.sack,
            mss,
            peer_mss: mss,
            ..usual
        }
    }
}

/// Payload of a segment in an IP packet of `mtu` bytes.
fn payload(mtu: u32, v4: bool) -> u32 {
    let (four, six, udp) = HEADERS;
    mtu - if v4 { four } else { six } - udp - super::segment::DATA as u32
}

/// Initial and maximum size of a TCP buffer of this host (`tcp_rmem`, `tcp_wmem`).
fn buffer(name: &str) -> Option<(Bytes, Bytes)> {
    let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .filter_map(|n| n.parse().ok())
        .collect();
    match numbers[..] {
        [_, initial, most] if initial > 0 && most >= initial => {
            Some((Bytes::new(initial), Bytes::new(most)))
        }
        _ => None,
    }
}

/// Maximum receive buffer of this host's TCP (`tcp_rmem`), bytes.
#[cfg(feature = "quic")]
pub(super) fn receive_buffer() -> u64 {
    let usual = Config::default().rmem_max;
    buffer("tcp_rmem").map_or(usual, |(_, most)| most).get()
}

/// The congestion control called `name`, or the default one, of `known`; the error is the reason
/// for which it cannot send over a real path.
pub fn cc<'a>(known: &'a [CcKind], name: Option<&str>) -> Result<&'a CcKind, String> {
    let name = name.unwrap_or(DEFAULT);
    let names = || {
        let usable = known.iter().filter(|kind| !kind.needs(Need::Feedback));
        usable.map(|kind| kind.name).collect::<Vec<_>>().join(", ")
    };
    match known.iter().find(|kind| kind.name == name) {
        None => Err(format!(
            "{name}: unknown; with --transport udp, write --cc with one of {}",
            names()
        )),
        Some(kind) if kind.needs(Need::Feedback) => Err(format!(
            "{name}: needs routers that write into its packets; with --transport udp, write --cc \
             with one of {}",
            names()
        )),
        Some(kind) => Ok(kind),
    }
}

/// The congestion controls of narrows.
pub fn standard() -> Vec<CcKind> {
    controls::KINDS.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_again_and_impossible_ones_rejected() {
        let known = standard();
        for (name, ecn) in [("cubic", "off"), ("dctcp", "echoed"), ("prague", "counted")] {
            let terms = Terms::of(cc(&known, Some(name)).unwrap());
            let told = terms.to_json();
            assert_eq!(
                (&told["ecn"], &told["payload"]),
                (&json!(ecn), &json!(1448))
            );
            assert_eq!(Terms::from_json(&told), Some(terms));
        }
        for wrong in [
            json!({ "payload": 65_000, "ecn": "off", "sack": true }),
            json!({ "payload": 1, "ecn": "off", "sack": true }),
            json!({ "payload": 1448, "ecn": "latched", "sack": true }),
            json!({ "payload": 1448, "ecn": "off" }),
        ] {
            assert_eq!(Terms::from_json(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_control_that_needs_routers_is_refused() {
        let known = standard();
        assert_eq!(cc(&known, None).map(|kind| kind.name), Ok("cubic"));
        for (name, why) in [("xcp", "needs routers"), ("nothing", "unknown")] {
            let refused = cc(&known, Some(name)).map(|kind| kind.name).unwrap_err();
            assert!(
                refused.contains(why) && refused.contains("bbr3"),
                "{refused}"
            );
        }
    }
}
