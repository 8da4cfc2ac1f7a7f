//! Datagram sockets with kernel timestamps of arrival and departure (`SO_TIMESTAMPING`).
//!
//! The receive timestamp is taken when the kernel gets the packet from the device. The transmit
//! timestamp is taken when the kernel passes the packet to the device, after all queues of the
//! kernel. The kernel returns the transmit timestamp by the error queue of the socket, with the
//! number of the datagram. Numbers count from zero. Kernel timestamps use `CLOCK_REALTIME`;
//! [`Even`] converts them to `CLOCK_MONOTONIC`. Hardware timestamps are requested too; they arrive
//! if they are enabled at the interface (`hwstamp_ctl -i eth0 -t 1 -r 1`).

use super::control::{self, Buffer, Control, OutBuffer, Request};
use super::datagram::mapped;
use super::poll::{poll, readable};
use super::socket::{
    STORAGE, from_kernel, local, plain, set, start_connect, to_kernel, waiting_datagrams,
};
use super::time::from_timespec;
use super::{length, monotonic, realtime, unless_empty};
use std::ffi::c_int;
use std::io;
use std::mem::{size_of_val, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Longest sleep in one call, ns. A request to stop is noticed within this time.
pub const SLICE: u64 = 50_000_000;
/// Interval between two comparisons of the clocks, ns.
const COMPARED: u64 = 100_000_000;

/// Conversion from `CLOCK_REALTIME` to `CLOCK_MONOTONIC`.
#[derive(Copy, Clone, Debug)]
pub struct Even {
    /// Realtime minus monotonic, ns.
    ahead: u64,
    at: u64,
}

impl Even {
    /// Measures the present difference of the clocks: the best of three readings.
    pub fn new() -> Even {
        let (mut best, mut ahead, mut at) = (u64::MAX, 0, 0);
        for _ in 0..3 {
            let before = monotonic();
            let date = realtime();
            at = monotonic();
            if at - before < best {
                best = at - before;
                ahead = date.saturating_sub(before + (at - before) / 2);
            }
        }
        Even { ahead, at }
    }
    /// Compares the clocks again if the last comparison is old: the realtime clock may be set.
    pub fn renew(&mut self, now: u64) {
        if now.saturating_sub(self.at) > COMPARED {
            *self = Even::new();
        }
    }
    /// Converts a timestamp of the realtime clock to the monotonic clock, ns; 0 stays 0.
    pub fn of(&self, date: u64) -> u64 {
        date.saturating_sub(self.ahead)
    }
    /// Realtime minus monotonic, ns.
    pub fn ahead(&self) -> u64 {
        self.ahead
    }
}

impl Default for Even {
    fn default() -> Even {
        Even::new()
    }
}

/// A received datagram.
#[derive(Copy, Clone, Debug)]
pub struct Got {
    /// Length of the datagram, bytes; it may exceed the buffer.
    pub len: usize,
    /// Address and port of the sender, if the kernel reports them.
    pub from: Option<SocketAddr>,
    /// Traffic class: DSCP and ECN.
    pub class: u8,
    /// TTL or hop limit with which it arrived.
    pub ttl: u8,
    /// Time of arrival in the kernel (`CLOCK_REALTIME`), ns; zero: unknown.
    pub stamp: u64,
    /// Time of arrival at the device, by the clock of the device, ns; zero: unknown.
    pub hardware: u64,
    /// Number of datagrams that the socket has dropped since it was created.
    pub lost: u32,
}

/// The departure of a datagram.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Number of the datagram: how many were sent before it on the socket.
    pub id: u32,
    /// Time of departure (`CLOCK_REALTIME`), ns; zero: unknown.
    pub stamp: u64,
    /// Time of departure by the clock of the device, ns; zero: unknown.
    pub hardware: u64,
}

/// A datagram socket with timestamps.
#[derive(Debug)]
pub struct TimedSocket {
    fd: OwnedFd,
    v6: bool,
    sent: u32,
    stamps: bool,
}

/// Software and hardware timestamp of a control message.
fn stamps_in(control: &Control) -> (u64, u64) {
    let three: [libc::timespec; 3] = control.get();
    (from_timespec(&three[0]), from_timespec(&three[2]))
}

impl TimedSocket {
    /// Opens a socket bound to `at`; with a `peer`, it is connected. With `shared`, other sockets
    /// of this user may share its address and port. `stamps`: timestamps are requested.
    pub fn new(
        at: SocketAddr,
        peer: Option<SocketAddr>,
        stamps: bool,
        shared: bool,
    ) -> io::Result<TimedSocket> {
        /// Size of the receive buffer, bytes. The kernel limits it to `net.core.rmem_max`.
        const BUFFER: c_int = 1 << 20;
        let fd = waiting_datagrams(at, shared)?;
        set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER)?;
        let _ = set(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1_i32);
        let slice = libc::timeval {
            tv_sec: 0,
            tv_usec: (SLICE / 1000) as _,
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
            start_connect(&all.fd, mapped(peer, all.v6))?;
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
    /// The descriptor, for options and for polling.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
    /// Whether departures have timestamps.
    pub fn stamps(&self) -> bool {
        self.stamps
    }
    /// The address and port to which the socket is bound.
    pub fn local(&self) -> io::Result<SocketAddr> {
        local(&self.fd).map(plain)
    }
    /// Sends one datagram, to the socket's peer or to `to`, and returns its number. `None` if a
    /// buffer of the kernel or the device is full.
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
        let mut buffer = OutBuffer::default();
        // SAFETY: `msghdr` consists of integers and pointers, for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        let mut address;
        if let Some(to) = to {
            let size;
            (address, size) = to_kernel(mapped(to, self.v6));
            message.msg_name = std::ptr::from_mut(&mut address).cast();
            message.msg_namelen = size;
        }
        let v4 = to.is_none_or(|to| to.is_ipv4());
        let request = Request {
            class,
            ..Request::default()
        };
        control::set_request(&mut message, &mut buffer, v4, request);
        // SAFETY: the header points to `part`, `bytes`, `address` and `buffer` with their lengths;
        // all of them outlive the call, and the kernel reads them only.
        let sent = unsafe {
            libc::sendmsg(
                self.fd.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        match unless_empty(length(sent)) {
            Ok(None) => Ok(None),
            Ok(Some(_)) => {
                let id = self.sent;
                self.sent = self.sent.wrapping_add(1);
                Ok(Some(id))
            }
            // The queue of the device was full; the kernel has already numbered the datagram.
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
        let mut buffer: Buffer = [0; 32];
        // SAFETY: addresses and headers consist of integers and pointers, for which all zeros is a
        // valid value.
        let (mut from, mut message): (libc::sockaddr_storage, libc::msghdr) =
            unsafe { (zeroed(), zeroed()) };
        message.msg_name = std::ptr::from_mut(&mut from).cast();
        message.msg_namelen = STORAGE;
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = buffer.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&buffer) as _;
        // SAFETY: the header points to `from`, `part`, `to` and `buffer` with their lengths; all of
        // them outlive the call and nothing else refers to them.
        let n =
            unsafe { libc::recvmsg(self.fd.as_raw_fd(), &mut message, flags | libc::MSG_TRUNC) };
        let Some(len) = unless_empty(length(n))? else {
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
        control::each(
            &buffer,
            message.msg_controllen as _,
            |control| match control.kind {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                    (got.stamp, got.hardware) = stamps_in(&control);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => got.lost = control.get(),
                // One byte for IPv4, an integer for IPv6.
                (libc::IPPROTO_IP, libc::IP_TOS) => got.class = control.get(),
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => got.class = control.get::<c_int>() as u8,
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    got.ttl = control.get::<c_int>() as u8;
                }
                _ => {}
            },
        );
        Ok(Some(got))
    }
    /// Receives the next datagram; `None` if none has arrived.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<Option<Got>> {
        self.take(to, libc::MSG_DONTWAIT)
    }
    /// Receives the next datagram; waits at most [`SLICE`].
    pub fn wait_for(&self, to: &mut [u8]) -> io::Result<Option<Got>> {
        self.take(to, 0)
    }
    /// Waits until a datagram or a transmit timestamp arrives, or the monotonic clock reaches
    /// `until`; `now` is the present time. Returns whether a transmit timestamp has arrived.
    pub fn wait_until(&self, until: u64, now: u64) -> io::Result<bool> {
        let mut one = [readable(self.fd.as_raw_fd())];
        let _ = poll(&mut one, until.saturating_sub(now));
        Ok(one[0].revents & libc::POLLERR != 0)
    }
    /// The next departure that the kernel has reported. Departures are reported in order; with
    /// hardware timestamps, each is reported twice.
    pub fn departure(&self) -> Option<Left> {
        if !self.stamps {
            return None;
        }
        let mut buffer: Buffer = [0; 32];
        // SAFETY: `msghdr` consists of integers and pointers, for which all zeros is a valid value.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_control = buffer.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&buffer) as _;
        // SAFETY: the header points to `buffer` with its length, which outlives the call; without
        // parts the kernel stores no payload.
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
        control::each(
            &buffer,
            message.msg_controllen as _,
            |control| match control.kind {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => stamps = stamps_in(&control),
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                    let error: libc::sock_extended_err = control.get();
                    if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                        id = Some(error.ee_data);
                    }
                }
                _ => {}
            },
        );
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
    fn departure_and_arrival_have_kernel_timestamps() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let there = TimedSocket::new(any, None, true, false).unwrap();
        let mut here = TimedSocket::new(any, Some(there.local().unwrap()), true, false).unwrap();
        let even = Even::new();
        let mut bytes = [0; 100];
        // The kernel starts to stamp a moment after the option is set; datagrams that arrive before
        // have no timestamp.
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
            let before = monotonic();
            assert_eq!(
                here.send(&[number; 64], None, Some(0xb8)).unwrap(),
                Some(number.into())
            );
            let got = there.wait_for(&mut bytes).unwrap().unwrap();
            let after = monotonic();
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
