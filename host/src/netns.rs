//! A host: a network namespace of its own with one TUN device, `e0`.
//!
//! The namespace has no name: it lives in the descriptor that a [`Space`] holds and in the threads
//! that entered it, and dies with them, however they end. Nothing has to be taken back.
//!
//! The device's queue is ours: a `pfifo` (or `fq`) of [`QUEUE`] packets, which the device itself
//! also holds at most; it is emptied in every tick, and what it drops all the same is told among
//! the instruments.

use crate::error::HostError;
use crate::sys;
use crate::sys::netlink::{Link, Netlink};
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::thread;

/// What its device is called.
pub const DEVICE: &str = "e0";
/// Packets that the device holds at most.
pub const QUEUE: u32 = 5000;
/// Bytes of an IP packet at most.
const MTU: u32 = 1500;
const LOOPBACK: u32 = 1;
/// Another host, as this one reaches it.
#[derive(Copy, Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: Ipv4Addr,
    /// Connections to it ask for explicit congestion notification.
    pub ecn: bool,
    /// The initial window of connections to it, in packets.
    pub iw: u32,
}

/// How a host is to be.
#[derive(Clone, Debug, Default)]
pub struct SpaceSpec {
    /// Its own addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Whom it reaches.
    pub peers: Vec<Peer>,
    /// Names under `/proc/sys/net` and their values.
    pub sysctls: Vec<(&'static str, String)>,
    /// The device's queue discipline.
    pub qdisc: &'static str,
    /// The largest super-packet in segments, and in bytes.
    pub gso: (Option<u32>, Option<u32>),
}

/// One host.
#[derive(Debug)]
pub struct Space {
    namespace: OwnedFd,
    /// Its device: what the host sends is read here, what is written here it receives.
    pub device: OwnedFd,
}

impl Space {
    /// Makes one.
    pub fn new(spec: &SpaceSpec) -> Result<Space, HostError> {
        // On a thread of its own, for entering a namespace cannot be undone without privilege.
        thread::scope(|scope| scope.spawn(|| Space::make(spec)).join()).unwrap_or_else(|_| {
            Err(HostError::Failed(
                "a network namespace",
                io::Error::other("its thread failed"),
            ))
        })
    }
    fn make(spec: &SpaceSpec) -> Result<Space, HostError> {
        sys::new_network().map_err(HostError::failed("a network namespace"))?;
        let file = fs::File::open("/proc/thread-self/ns/net")
            .map_err(HostError::failed("/proc/thread-self/ns/net"))?;
        let supers = spec.gso.0 != Some(1);
        let device = sys::open_tun(DEVICE, supers).map_err(HostError::failed("/dev/net/tun"))?;
        for (name, value) in &spec.sysctls {
            let path = format!("/proc/sys/net/{name}");
            fs::write(&path, value).map_err(|e| {
                HostError::Failed(
                    "a setting of the namespace",
                    io::Error::new(e.kind(), format!("{path} = {value}: {e}")),
                )
            })?;
        }
        configure(spec).map_err(HostError::failed("the device of a namespace"))?;
        Ok(Space {
            namespace: file.into(),
            device,
        })
    }
    /// Moves this thread into it; for good, where the thread may not go back.
    pub fn enter(&self) -> Result<(), HostError> {
        sys::enter_network(&self.namespace).map_err(HostError::failed("a network namespace"))
    }
}

/// Packets that the device of the namespace of this thread could not hold.
pub fn overflow() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(DEVICE)?.strip_prefix(':'));
    // Eight numbers of what was received, then bytes, packets, errors and drops of what was sent.
    let dropped = line.and_then(|line| line.split_whitespace().nth(11)?.parse().ok());
    dropped.unwrap_or(0)
}

/// Brings up what is in the namespace of this thread.
fn configure(spec: &SpaceSpec) -> io::Result<()> {
    let index = sys::interface(c"e0")?;
    let mut netlink = Netlink::new()?;
    let link = Link {
        mtu: Some(MTU),
        queue: Some(QUEUE),
        gso_segments: spec.gso.0,
        gso_bytes: spec.gso.1,
    };
    netlink.up(LOOPBACK, &Link::default())?;
    netlink.up(index, &link)?;
    let refused =
        |e: io::Error| io::Error::new(e.kind(), format!("queue discipline {}: {e}", spec.qdisc));
    netlink.queue(index, spec.qdisc).map_err(refused)?;
    spec.addresses
        .iter()
        .try_for_each(|own| netlink.address(index, *own))?;
    spec.peers
        .iter()
        .try_for_each(|peer| netlink.route(index, peer.address, peer.iw, peer.ecn))
}
