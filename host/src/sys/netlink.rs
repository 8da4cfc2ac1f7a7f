//! Sends and reads messages of rtnetlink(7) and sock_diag(7). A message consists of a header, a
//! fixed part, and attributes.
//!
//! The messages are encoded here because narrows uses few of them; crates for all of rtnetlink take
//! a minute to build.

use crate::sys;
use std::ffi::c_int;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

const HEADER: usize = 16;
/// `RTAX_LOCK`: a set of metrics that have precedence; of `RTAX_RTO_MIN`, it is required.
const LOCK: u16 = 1;
/// `RTAX_ADVMSS`, `RTAX_INITCWND`, `RTAX_FEATURES`, and the feature `RTAX_FEATURE_ECN`.
const ANNOUNCED_MSS: u16 = 8;
const INITIAL_WINDOW: u16 = 11;
const FEATURES: u16 = 12;
const FEATURE_ECN: u32 = 1;
/// `RTAX_RTO_MIN` and `RTAX_QUICKACK`.
const RTO_MIN: u16 = 13;
const QUICK_ACK: u16 = 15;

/// Settings of the connections over a route.
#[derive(Copy, Clone, Debug)]
pub struct RouteMetrics {
    /// Initial congestion window, packets.
    pub iw: u32,
    /// Whether connections request ECN.
    pub ecn: bool,
    /// The announced maximum segment size, bytes; `None`: that of the MTU.
    pub mss: Option<u32>,
    /// Whether each segment is acknowledged at once.
    pub quickack: bool,
    /// The minimum retransmission timeout, ms; `None`: that of the namespace.
    pub rto_min_ms: Option<u32>,
}
/// `TC_H_ROOT`, and the handle `1:`.
const ROOT: u32 = u32::MAX;
const HANDLE: u32 = 1 << 16;

/// Length of the fixed part of a message about a queue discipline (`tcmsg`), bytes.
const FIXED: usize = 20;

/// The fixed part of a message about the root queue discipline of a device.
fn root(index: u32) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&HANDLE.to_ne_bytes());
    fixed[12..16].copy_from_slice(&ROOT.to_ne_bytes());
    fixed
}

/// Settings of a device; `None` leaves a setting unchanged.
#[derive(Copy, Clone, Debug, Default)]
pub struct Link {
    /// MTU, bytes.
    pub mtu: Option<u32>,
    /// Queue length of the device (txqueuelen), packets.
    pub queue: Option<u32>,
    /// Largest number of segments of a super-packet.
    pub gso_segments: Option<u32>,
    /// Largest size of a super-packet, bytes.
    pub gso_bytes: Option<u32>,
}

/// A queue discipline of a device's egress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discipline {
    /// Name, such as `fq_codel`.
    pub kind: String,
    /// Handle; the upper 16 bits are the major number.
    pub handle: u32,
    /// Handle of the parent, or that of a class of the parent.
    pub parent: u32,
}

/// A netlink socket of the namespace of the thread that created it.
pub struct Netlink(OwnedFd);

/// A message under construction.
#[derive(Clone, Debug)]
pub struct Message {
    kind: u16,
    bytes: Vec<u8>,
}

impl Message {
    /// A message of the type `kind` with its fixed part.
    pub fn new(kind: u16, fixed: &[&[u8]]) -> Message {
        let mut bytes = vec![0; HEADER];
        fixed.iter().for_each(|part| bytes.extend_from_slice(part));
        Message { kind, bytes }
    }
    /// Adds an attribute: length, type and value, padded to four bytes.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        self.bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }
    /// Adds an attribute with an integer.
    pub fn number(self, kind: u16, value: u32) -> Message {
        self.attribute(kind, &value.to_ne_bytes())
    }
    /// Adds an attribute that contains the attributes of `inner`. Disciplines since Linux 5.2, such
    /// as `dualpi2`, reject options without the flag `NLA_F_NESTED` (`nla_parse_nested`).
    pub fn nested(self, kind: u16, inner: &Message) -> Message {
        self.attribute(kind | libc::NLA_F_NESTED as u16, inner.body())
    }
    /// The message without its header.
    pub fn body(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }
    fn number_if(self, kind: u16, value: Option<u32>) -> Message {
        match value {
            Some(value) => self.number(kind, value),
            None => self,
        }
    }
}

/// The attributes in `bytes`: type without flags, and value. A truncated attribute ends the list.
pub fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    /// `NLA_TYPE_MASK`: without the bits for nested attributes and for byte order.
    const KIND: u16 = 0x3fff;
    let mut found = Vec::new();
    while let Some(head) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let Some(value) = bytes.get(4..length) else {
            break;
        };
        found.push((u16::from_ne_bytes([head[2], head[3]]) & KIND, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// The value of the first attribute of a type.
pub fn attribute<'a>(found: &[(u16, &'a [u8])], kind: u16) -> Option<&'a [u8]> {
    found
        .iter()
        .find(|(k, _)| *k == kind)
        .map(|(_, value)| *value)
}

/// A text of the kernel, without its terminating zero.
pub fn text(value: &[u8]) -> String {
    let end = value.iter().position(|c| *c == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// Opens a netlink socket of a protocol (`NETLINK_ROUTE`, …) in this thread's network namespace.
pub fn open(protocol: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes integers only.
    sys::owned(unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) })
}

impl Netlink {
    /// A socket of rtnetlink.
    pub fn new() -> io::Result<Netlink> {
        open(libc::NETLINK_ROUTE).map(Netlink)
    }
    /// A socket of sock_diag.
    pub fn diag() -> io::Result<Netlink> {
        open(libc::NETLINK_SOCK_DIAG).map(Netlink)
    }
    /// Brings a device up and changes the given settings.
    pub fn up(&mut self, index: u32, link: &Link) -> io::Result<()> {
        let up = libc::IFF_UP as u32;
        let fixed: [&[u8]; 4] = [
            &[0; 4],
            &index.to_ne_bytes(),
            &up.to_ne_bytes(),
            &up.to_ne_bytes(),
        ];
        let message = Message::new(libc::RTM_SETLINK, &fixed)
            .number_if(libc::IFLA_MTU, link.mtu)
            .number_if(libc::IFLA_TXQLEN, link.queue)
            .number_if(libc::IFLA_GSO_MAX_SEGS, link.gso_segments)
            .number_if(libc::IFLA_GSO_MAX_SIZE, link.gso_bytes);
        self.ask(message)
    }
    /// Sets the root queue discipline of a device, with handle 1:.
    pub fn queue(&mut self, index: u32, kind: &str) -> io::Result<()> {
        let name = [kind.as_bytes(), &[0]].concat();
        let message = Message::new(libc::RTM_NEWQDISC, &[&root(index)]);
        self.ask(message.attribute(libc::TCA_KIND, &name))
    }
    /// Sets the root queue discipline of a device, with handle 1: and options.
    pub fn queue_with(&mut self, index: u32, kind: &str, options: &Message) -> io::Result<()> {
        let name = [kind.as_bytes(), &[0]].concat();
        let message = Message::new(libc::RTM_NEWQDISC, &[&root(index)])
            .attribute(libc::TCA_KIND, &name)
            .nested(libc::TCA_OPTIONS, options);
        self.ask(message)
    }
    /// The number of packets in the root queue discipline of a device.
    pub fn backlog(&mut self, index: u32) -> io::Result<u32> {
        /// `gnet_stats_queue` within `TCA_STATS2`; its first field is `qlen`.
        const QUEUE: u16 = 3;
        let message = Message::new(libc::RTM_GETQDISC, &[&root(index)]);
        // Without this flag, the kernel sends the answer only to listeners of the multicast group.
        let told = self.one_with(message, libc::NLM_F_ECHO)?;
        let found = attributes(told.get(FIXED..).unwrap_or_default());
        let stats = attribute(&found, libc::TCA_STATS2).map(attributes);
        let queue = stats.as_deref().and_then(|stats| attribute(stats, QUEUE));
        let length = queue.and_then(<[u8]>::first_chunk);
        length
            .map(|bytes| u32::from_ne_bytes(*bytes))
            .ok_or_else(cut_short)
    }
    /// The queue disciplines of a device's egress.
    pub fn disciplines(&mut self, index: u32) -> io::Result<Vec<Discipline>> {
        /// `TC_H_INGRESS`, the parent of `ingress` and `clsact`.
        const INGRESS: u32 = 0xffff_fff1;
        let number = |body: &[u8], at: usize| {
            let bytes = body.get(at..).and_then(<[u8]>::first_chunk);
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let mut found = Vec::new();
        for body in self.list(Message::new(libc::RTM_GETQDISC, &[&[0; FIXED]]))? {
            let parent = number(&body, 12);
            if number(&body, 4) != index || parent == INGRESS {
                continue;
            }
            let told = attributes(body.get(FIXED..).unwrap_or_default());
            found.push(Discipline {
                kind: attribute(&told, libc::TCA_KIND).map_or_else(String::new, text),
                handle: number(&body, 8),
                parent,
            });
        }
        Ok(found)
    }
    /// The index of the device by which packets to an address leave.
    pub fn device_to(&mut self, to: IpAddr) -> io::Result<u32> {
        /// Length of the fixed part of a message about a route (`rtmsg`), bytes.
        const ROUTE: usize = 12;
        let (family, bytes) = family(to);
        let mut fixed = [0; ROUTE];
        (fixed[0], fixed[1]) = (family, 8 * bytes.len() as u8);
        let message = Message::new(libc::RTM_GETROUTE, &[&fixed]).attribute(libc::RTA_DST, &bytes);
        let told = self.one(message)?;
        let found = attributes(told.get(ROUTE..).unwrap_or_default());
        let index = attribute(&found, libc::RTA_OIF).and_then(<[u8]>::first_chunk);
        index
            .map(|bytes| u32::from_ne_bytes(*bytes))
            .ok_or_else(cut_short)
    }
    /// Adds an address to a device.
    pub fn address(&mut self, index: u32, address: IpAddr) -> io::Result<()> {
        let (family, bytes) = family(address);
        let bits = 8 * bytes.len() as u8;
        // Without duplicate address detection, an IPv6 address is usable at once.
        let flags = if address.is_ipv6() {
            libc::IFA_F_NODAD as u8
        } else {
            0
        };
        let fixed: [&[u8]; 2] = [&[family, bits, flags, 0], &index.to_ne_bytes()];
        let message = Message::new(libc::RTM_NEWADDR, &fixed)
            .attribute(libc::IFA_LOCAL, &bytes)
            .attribute(libc::IFA_ADDRESS, &bytes);
        self.ask(message)
    }
    /// Adds a route to a host over a device.
    pub fn route(&mut self, index: u32, to: IpAddr, metrics: &RouteMetrics) -> io::Result<()> {
        let (family, bytes) = family(to);
        let kind = [
            family,
            8 * bytes.len() as u8,
            0,
            0,
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_LINK,
            libc::RTN_UNICAST,
        ];
        let metrics = Message::new(0, &[])
            .number_if(ANNOUNCED_MSS, metrics.mss)
            .number(INITIAL_WINDOW, metrics.iw)
            .number_if(FEATURES, metrics.ecn.then_some(FEATURE_ECN))
            .number_if(QUICK_ACK, metrics.quickack.then_some(1))
            .number_if(LOCK, metrics.rto_min_ms.map(|_| 1 << RTO_MIN))
            .number_if(RTO_MIN, metrics.rto_min_ms);
        let message = Message::new(libc::RTM_NEWROUTE, &[&kind, &[0; 4]])
            .attribute(libc::RTA_DST, &bytes)
            .number(libc::RTA_OIF, index)
            .attribute(libc::RTA_METRICS, &metrics.bytes[HEADER..]);
        self.ask(message)
    }
    fn send(&mut self, message: Message, flags: i32) -> io::Result<()> {
        let mut bytes = message.bytes;
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&message.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        sys::send(&self.0, &bytes).map(drop)
    }
    /// Requests a list; returns the body of each answer.
    pub fn list(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        /// The kernel sends at most this many bytes at once.
        const LARGEST: usize = 1 << 16;
        self.send(message, libc::NLM_F_DUMP)?;
        let mut found = Vec::new();
        let mut answer = vec![0; LARGEST];
        loop {
            let n = sys::read(&self.0, &mut answer)?.unwrap_or(0);
            let mut rest = &answer[..n];
            if rest.is_empty() {
                return Err(cut_short());
            }
            while let Some(head) = rest.first_chunk::<HEADER>() {
                let length = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let body = rest.get(HEADER..length).ok_or_else(cut_short)?;
                match i32::from(u16::from_ne_bytes([head[4], head[5]])) {
                    libc::NLMSG_DONE => return Ok(found),
                    libc::NLMSG_ERROR => {
                        let code = body
                            .first_chunk()
                            .map_or(0, |code| i32::from_ne_bytes(*code));
                        return Err(io::Error::from_raw_os_error(-code));
                    }
                    _ => found.push(body.to_vec()),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }
    /// Requests one object; returns the body of the answer.
    pub fn one(&mut self, message: Message) -> io::Result<Vec<u8>> {
        self.one_with(message, 0)
    }
    fn one_with(&mut self, message: Message, flags: i32) -> io::Result<Vec<u8>> {
        self.send(message, flags)?;
        let mut answer = [0; 4096];
        let n = sys::read(&self.0, &mut answer)?.unwrap_or(0);
        let body = answer[..n].get(HEADER..).ok_or_else(cut_short)?;
        if i32::from(u16::from_ne_bytes([answer[4], answer[5]])) == libc::NLMSG_ERROR {
            let code = body
                .first_chunk()
                .map_or(0, |code| i32::from_ne_bytes(*code));
            return Err(io::Error::from_raw_os_error(-code));
        }
        Ok(body.to_vec())
    }
    /// Requests a change, which creates or replaces an object, and waits for the result.
    pub fn ask(&mut self, message: Message) -> io::Result<()> {
        self.tell(message, libc::NLM_F_CREATE | libc::NLM_F_REPLACE)
    }
    /// Requests a change with these flags, and waits for the result.
    pub fn tell(&mut self, message: Message, flags: i32) -> io::Result<()> {
        self.send(message, libc::NLM_F_ACK | flags)?;
        let mut answer = [0; 4096];
        let n = sys::read(&self.0, &mut answer)?.unwrap_or(0);
        // After the header there is the error number, or 0.
        match answer[..n].get(HEADER..).and_then(<[u8]>::first_chunk) {
            Some(code) => match i32::from_ne_bytes(*code) {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(-code)),
            },
            None => Err(cut_short()),
        }
    }
}

/// The family of an address and its bytes.
fn family(of: IpAddr) -> (u8, Vec<u8>) {
    match of {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the kernel's answer is truncated",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_their_length_is_not() {
        let message = Message::new(7, &[&[1, 2, 3, 4]])
            .attribute(5, b"e0\0")
            .number(6, 9);
        let mut expected = vec![0; HEADER];
        expected.extend([1, 2, 3, 4]);
        expected.extend(7_u16.to_ne_bytes());
        expected.extend(5_u16.to_ne_bytes());
        expected.extend(b"e0\0\0");
        expected.extend(8_u16.to_ne_bytes());
        expected.extend(6_u16.to_ne_bytes());
        expected.extend(9_u32.to_ne_bytes());
        assert_eq!(message.bytes, expected);
        let read = attributes(&message.bytes[HEADER + 4..]);
        assert_eq!(read, [(5, &b"e0\0"[..]), (6, &9_u32.to_ne_bytes()[..])]);
        assert_eq!(attribute(&read, 5).map(text), Some("e0".to_string()));
    }

    #[test]
    fn nested_attributes_have_the_flag_that_new_disciplines_require() {
        let options = Message::new(0, &[]).number(1, 100);
        let message = Message::new(7, &[]).nested(libc::TCA_OPTIONS, &options);
        let head = [message.bytes[HEADER + 2], message.bytes[HEADER + 3]];
        assert_eq!(u16::from_ne_bytes(head), 0x8000 | libc::TCA_OPTIONS);
        let found = attributes(message.body());
        assert_eq!(found, [(libc::TCA_OPTIONS, options.body())]);
        assert_eq!(attributes(found[0].1), [(1, &100_u32.to_ne_bytes()[..])]);
    }

    #[test]
    fn attributes_that_are_cut_short_end_the_list() {
        assert_eq!(attributes(&[9, 0, 1, 0, 7]), []);
        assert_eq!(attributes(&[0, 0, 1, 0]), []);
        assert_eq!(attributes(&[4, 0, 1, 0, 3]), [(1, &[][..])]);
    }
}
