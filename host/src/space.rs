//! A host: a network namespace of its own with one TUN device, `e0`.
//!
//! The namespace has no name: it lives in the descriptor that a [`Space`] holds and in the threads that entered it, and
//! dies with them, however they end. Nothing has to be taken back.
//!
//! The device's queue is ours: a `pfifo` (or `fq`) of [`QUEUE`] packets, which the device itself also holds at most; it is
//! emptied in every tick, and what it drops all the same is told among the instruments.

use crate::error::HostError;
use crate::sys;
use netlink_packet_core::{
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::thread;

/// What its device is called.
pub const DEVICE: &str = "e0";
/// Packets that the device holds at most.
pub const QUEUE: u32 = 5000;
/// Bytes of an IP packet at most.
const MTU: u32 = 1500;
const LOOPBACK: u32 = 1;
/// `RTAX_FEATURE_ECN`.
const FEATURE_ECN: u32 = 1;

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
        let file = fs::File::open("/proc/thread-self/ns/net").map_err(HostError::failed("/proc/thread-self/ns/net"))?;
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
    let mut socket = Netlink(sys::netlink()?);
    let mut link = up(index);
    link.attributes.push(LinkAttribute::Mtu(MTU));
    link.attributes.push(LinkAttribute::TxQueueLen(QUEUE));
    link.attributes.extend(spec.gso.0.map(LinkAttribute::GsoMaxSegs));
    link.attributes.extend(spec.gso.1.map(LinkAttribute::GsoMaxSize));
    socket.ask(RouteNetlinkMessage::SetLink(up(LOOPBACK)), 0)?;
    socket.ask(RouteNetlinkMessage::SetLink(link), 0)?;
    let mut queue = TcMessage::with_index(index as i32);
    queue.header.parent = TcHandle::ROOT;
    queue.header.handle = TcHandle { major: 1, minor: 0 };
    queue.attributes.push(TcAttribute::Kind(spec.qdisc.into()));
    let refused = |e: io::Error| io::Error::new(e.kind(), format!("queue discipline {}: {e}", spec.qdisc));
    socket
        .ask(
            RouteNetlinkMessage::NewQueueDiscipline(queue),
            NLM_F_CREATE | NLM_F_REPLACE,
        )
        .map_err(refused)?;
    for own in &spec.addresses {
        let mut address = AddressMessage::default();
        address.header.family = AddressFamily::Inet;
        address.header.prefix_len = 32;
        address.header.index = index;
        address.attributes.push(AddressAttribute::Local(IpAddr::V4(*own)));
        address.attributes.push(AddressAttribute::Address(IpAddr::V4(*own)));
        socket.ask(RouteNetlinkMessage::NewAddress(address), NLM_F_CREATE | NLM_F_REPLACE)?;
    }
    for peer in &spec.peers {
        let mut route = RouteMessage::default();
        route.header.address_family = AddressFamily::Inet;
        route.header.destination_prefix_length = 32;
        route.header.table = RouteHeader::RT_TABLE_MAIN;
        route.header.protocol = RouteProtocol::Static;
        route.header.scope = RouteScope::Link;
        route.header.kind = RouteType::Unicast;
        route
            .attributes
            .push(RouteAttribute::Destination(IpAddr::V4(peer.address).into()));
        route.attributes.push(RouteAttribute::Oif(index));
        let mut metrics = vec![RouteMetric::InitCwnd(peer.iw)];
        if peer.ecn {
            metrics.push(RouteMetric::Features(FEATURE_ECN));
        }
        route.attributes.push(RouteAttribute::Metrics(metrics));
        socket.ask(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)?;
    }
    Ok(())
}

fn up(index: u32) -> LinkMessage {
    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link
}

/// A conversation with the kernel about links, addresses and routes.
struct Netlink(OwnedFd);

impl Netlink {
    /// Asks for something to be done, and waits until it is.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut packet = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        packet.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        sys::send(&self.0, &bytes)?;
        let mut answer = vec![0; 8192];
        let n = sys::read(&self.0, &mut answer)?.unwrap_or(0);
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..n])
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }
}
