//! A datagram socket whose kernel says when each datagram came and when each left
//! (`SO_TIMESTAMPING`): thin, and unsafe code.
//!
//! A stamp on the way in is taken when the kernel gets the packet from the device; on the way out,
//! when it hands it to the device, behind every queue of its own. The latter comes back over the
//! socket's queue of errors with the number of the datagram, which is how many were sent before it.
//! Kernel stamps are of the clock of dates and are converted to the even one here ([`Even`]).
//! Hardware stamps are asked for too, and come where the interface has been told to take them
//! (`hwstamp_ctl -i eth0 -t 1 -r 1`).
#![allow(unsafe_code)]

use crate::sys;
use crate::sys::socket::{STORAGE, from_kernel, plain, set, to_kernel};
use std::ffi::c_int;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// The longest sleep in one call, ns: so often a request to stop is seen.
pub const SLICE: u64 = 50_000_000;
/// From one comparison of the two clocks to the next, ns.
const COMPARED: u64 = 100_000_000;

/// From the clock of dates to the even one.
#[derive(Copy, Clone, Debug)]
pub struct Even {
    /// Dates minus even, ns.
    ahead: u64,
    at: u64,
}

impl Even {
    /// As it is now.
    pub fn new() -> Even {
        let (mut best, mut ahead, mut at) = (u64::MAX, 0, 0);
        for _ in 0..3 {
            let before = sys::monotonic();
            let date = sys::realtime();
            at = sys::monotonic();
            if at - before < best {
                best = at - before;
                ahead = date.saturating_sub(before + (at - before) / 2);
            }
        }
        Even { ahead, at }
    }
    /// Compares them again if that is some time ago: the clock of dates may be set.
    pub fn renew(&mut self, now: u64) {
        if now.saturating_sub(self.at) > COMPARED {
            *self = Even::new();
        }
    }
    /// Of a stamp; zero stays zero.
    pub fn of(&self, date: u64) -> u64 {
        date.saturating_sub(self.ahead)
    }
    /// Dates minus even, ns.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }
}

impl Default for Even {
    fn default() -> Even {
        Even::new()
    }
}

/// A datagram that came.
#[derive(Copy, Clone, Debug)]
pub struct Got {
    /// Its length; it may be longer than what was kept.
    pub len: usize,
    /// Its sender, where the socket has no peer.
    pub from: Option<SocketAddr>,
    /// Traffic class: code point and ECN.
    pub class: u8,
    /// Hops that it still had.
    pub ttl: u8,
    /// When the kernel got it, on the clock of dates, ns; zero is not known.
    pub stamp: u64,
    /// The same by the device's clock.
    pub hardware: u64,
    /// How many datagrams the socket had no room for since it was made.
    pub lost: u32,
}

/// A datagram that has left.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// How many were sent before it.
    pub id: u32,
    /// On the clock of dates, ns; zero is not known.
    pub stamp: u64,
    /// By the device's clock.
    pub hardware: u64,
}

/// The socket.
#[derive(Debug)]
pub struct TimedSocket {
    fd: OwnedFd,
    v6: bool,
    sent: u32,
    stamps: bool,
}

fn unless_empty(n: isize) -> io::Result<Option<usize>> {
    usize::try_from(n).map(Some).or_else(|_| {
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        }
    })
}

fn stamps_in(part: *const libc::cmsghdr) -> (u64, u64) {
    // SAFETY: the caller has seen that this is a control message with three times in it.
    let three = unsafe {
        libc::CMSG_DATA(part)
            .cast::<[libc::timespec; 3]>()
            .read_unaligned()
    };
    let ns = |time: &libc::timespec| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
    (ns(&three[0]), ns(&three[2]))
}

impl TimedSocket {
    /// At `at`; with a `peer`, of that one alone. `shared`: others of this user may have the same
    /// address.
    pub fn new(
        at: SocketAddr,
        peer: Option<SocketAddr>,
        stamps: bool,
        shared: bool,
    ) -> io::Result<TimedSocket> {
        /// Bytes; the kernel cuts it to `net.core.rmem_max`.
        const BUFFER: c_int = 1 << 20;
        let fd = crate::sys::socket::waiting_datagrams(at, shared)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1_i32)?;
        let slice = libc::timeval {
            tv_sec: 0,
            tv_usec: (SLICE / 1000) as libc::suseconds_t,
        };
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &slice)?;
        let _ = set(&fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32);
        let _ = set(&fd, libc::IPPROTO_IP, libc::IP_RECVTTL, &1_i32);
        if at.is_ipv6() {
            set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1_i32)?;
            set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &1_i32)?;
        }
        let mut all = TimedSocket {
            fd,
            v6: at.is_ipv6(),
            sent: 0,
            stamps,
        };
        if let Some(peer) = peer {
            let (address, size) = to_kernel(all.mapped(peer));
            // SAFETY: the address is valid for its size.
            let done = unsafe {
                libc::connect(
                    all.fd.as_raw_fd(),
                    std::ptr::from_ref(&address).cast(),
                    size,
                )
            };
            if done < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        all.stamp(stamps)?;
        Ok(all)
    }
    fn stamp(&mut self, stamps: bool) -> io::Result<()> {
        let flags = if stamps {
            libc::SOF_TIMESTAMPING_RX_SOFTWARE
                | libc::SOF_TIMESTAMPING_TX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_RX_HARDWARE
                | libc::SOF_TIMESTAMPING_TX_HARDWARE
                | libc::SOF_TIMESTAMPING_RAW_HARDWARE
                | libc::SOF_TIMESTAMPING_OPT_TX_SWHW
                | libc::SOF_TIMESTAMPING_OPT_ID
                | libc::SOF_TIMESTAMPING_OPT_TSONLY
        } else {
            0
        };
        set(&self.fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
    }
    fn mapped(&self, of: SocketAddr) -> SocketAddr {
        match of {
            SocketAddr::V4(v4) if self.v6 => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            other => other,
        }
    }
    /// For options and for waiting.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    /// Does its kernel stamp what leaves?
    pub fn stamps(&self) -> bool {
        self.stamps
    }
    /// Where it is bound.
    pub fn local(&self) -> io::Result<SocketAddr> {
        crate::sys::socket::local(&self.fd).map(plain)
    }
    /// Sends one datagram, to its peer or to `to`; answers its number, or `None` when there is no
    /// room now.
    pub fn send(
        &mut self,
        bytes: &[u8],
        to: Option<SocketAddr>,
        class: Option<u8>,
    ) -> io::Result<Option<u32>> {
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = [0_u64; 4];
        // SAFETY: all zeros is a valid header.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        let mut address;
        if let Some(to) = to {
            let size;
            (address, size) = to_kernel(self.mapped(to));
            message.msg_name = std::ptr::from_mut(&mut address).cast();
            message.msg_namelen = size;
        }
        if let Some(class) = class {
            let v4 = to.is_none_or(|to| to.is_ipv4());
            let (level, kind) = if v4 {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            message.msg_control = control.as_mut_ptr().cast();
            // SAFETY: the buffer has room for one message with one number.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
                if let Some(part) = libc::CMSG_FIRSTHDR(&message).as_mut() {
                    part.cmsg_level = level;
                    part.cmsg_type = kind;
                    part.cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
                    libc::CMSG_DATA(part)
                        .cast::<c_int>()
                        .write_unaligned(class.into());
                }
            }
        }
        // SAFETY: everything that the header points to lives until the end of this function, and
        // the kernel only reads it.
        let sent = unsafe {
            libc::sendmsg(
                self.fd.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match unless_empty(sent) {
            Ok(None) => Ok(None),
            Ok(Some(_)) => {
                let id = self.sent;
                self.sent = self.sent.wrapping_add(1);
                Ok(Some(id))
            }
            // The device's queue was full: the kernel had numbered it already.
            Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                self.sent = self.sent.wrapping_add(1);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
    fn take(&self, to: &mut [u8], flags: c_int) -> io::Result<Option<Got>> {
        let mut part = libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: to.len(),
        };
        let mut control = [0_u64; 32];
        // SAFETY: all zeros is a valid address and a valid header.
        let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (zeroed(), zeroed()) };
        message.msg_name = std::ptr::from_mut(&mut from).cast();
        message.msg_namelen = STORAGE;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: everything that the header points to lives until the end of this function.
        let n =
            unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags | libc::MSG_TRUNC) };
        let Some(len) = unless_empty(n)? else {
            return Ok(None);
        };
        let mut got = Got {
            len,
            from: (message.msg_namelen > 0).then(|| plain(from_kernel(&from))),
            class: 0,
            ttl: 0,
            stamp: 0,
            hardware: 0,
            lost: 0,
        };
        // SAFETY: the kernel has filled the control messages, and `CMSG_NXTHDR` stays among them.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(&message);
            while let Some(head) = next.as_ref() {
                let number = || libc::CMSG_DATA(next).cast::<c_int>().read_unaligned();
                match (head.cmsg_level, head.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                        (got.stamp, got.hardware) = stamps_in(next)
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => got.lost = number() as u32,
                    (libc::IPPROTO_IP, libc::IP_TOS) => got.class = libc::CMSG_DATA(next).read(),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => got.class = number() as u8,
                    (libc::IPPROTO_IP, libc::IP_TTL)
                    | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                        got.ttl = number() as u8;
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(&message, next);
            }
        }
        Ok(Some(got))
    }
    /// The next datagram, if there is one.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<Option<Got>> {
        self.take(to, libc::MSG_DONTWAIT)
    }
    /// The next datagram, waiting for at most [`SLICE`].
    pub fn wait_for(&self, to: &mut [u8]) -> io::Result<Option<Got>> {
        self.take(to, 0)
    }
    /// Waits for a datagram until the even clock shows `until`; true: a stamp of one that left has
    /// come instead.
    pub fn wait_until(&self, until: u64, now: u64) -> io::Result<bool> {
        let mut one = libc::pollfd {
            fd: self.fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let wait = until.saturating_sub(now);
        let wait = libc::timespec {
            tv_sec: (wait / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: descriptor and time are valid for the call; no signals are masked.
        unsafe { libc::ppoll(&mut one, 1, &wait, std::ptr::null()) };
        Ok(one.revents & libc::POLLERR != 0)
    }
    /// When a datagram left, if that is known by now: one for each, in order; with hardware stamps
    /// two.
    pub fn departure(&self) -> Option<Left> {
        if !self.stamps {
            return None;
        }
        let mut control = [0_u64; 32];
        // SAFETY: all zeros is a valid header.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: everything that the header points to lives until the end of this function.
        let n = unsafe {
            libc::recvmsg(
                self.fd.as_raw_fd(),
                &mut message,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
            )
        };
        if n < 0 {
            return None;
        }
        let (mut id, mut stamps) = (None, (0, 0));
        // SAFETY: the kernel has filled the control messages, and `CMSG_NXTHDR` stays among them.
        unsafe {
            let mut next = libc::CMSG_FIRSTHDR(&message);
            while let Some(head) = next.as_ref() {
                match (head.cmsg_level, head.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => stamps = stamps_in(next),
                    (libc::IPPROTO_IP, libc::IP_RECVERR)
                    | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                        let told = libc::CMSG_DATA(next)
                            .cast::<libc::sock_extended_err>()
                            .read_unaligned();
                        if told.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                            id = Some(told.ee_data);
                        }
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(&message, next);
            }
        }
        id.map(|id| Left {
            id,
            stamp: stamps.0,
            hardware: stamps.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_when_a_datagram_left_and_came() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let there = TimedSocket::new(any, None, true, false).unwrap();
        let mut here = TimedSocket::new(any, Some(there.local().unwrap()), true, false).unwrap();
        let even = Even::new();
        let mut bytes = [0; 100];
        // The kernel begins to stamp a moment after it is asked to: until then a datagram that
        // comes has no stamp.
        let late = TimedSocket::new(any, Some(there.local().unwrap()), false, false);
        let mut late = late.unwrap();
        for _ in 0..5000 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            late.send(&[0; 64], None, None).unwrap();
            if there
                .wait_for(&mut bytes)
                .unwrap()
                .is_some_and(|got| got.stamp > 0)
            {
                break;
            }
        }
        for number in 0..3_u8 {
            let before = sys::monotonic();
            assert_eq!(
                here.send(&[number; 64], None, Some(0xb8)).unwrap(),
                Some(number.into())
            );
            let got = there.wait_for(&mut bytes).unwrap().unwrap();
            let after = sys::monotonic();
            assert_eq!((got.len, got.class, bytes[0]), (64, 0xb8, number));
            assert_eq!(got.from, Some(here.local().unwrap()));
            let left = here.departure().unwrap();
            assert_eq!(left.id, u32::from(number));
            let (left, came) = (even.of(left.stamp), even.of(got.stamp));
            assert!(
                before <= left + 5000 && left <= came + 5000 && came <= after + 5000,
                "{before} {left} {came} {after}"
            );
            assert_eq!(here.departure(), None);
        }
    }
}
