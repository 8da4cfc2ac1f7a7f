//! Sends and receives batches of UDP datagrams: one system call for up to [`BATCH`] of them, with
//! the kernel's timestamps, traffic classes and loss counters.

use super::control::{self, Buffer, Control, OutBuffer, Request};
use super::realtime;
use super::socket::{STORAGE, from_kernel, plain, set, to_kernel};
use super::time::from_timespec;
use super::{check, length, unless_empty};
use std::ffi::c_int;
use std::io;
use std::mem::{size_of_val, zeroed};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Largest number of datagrams per system call.
pub const BATCH: usize = 32;
/// Number of bytes that are kept of each received datagram, more than any header of narrows or
/// iperf3. The rest is only counted.
pub const KEPT: usize = 256;

/// Requests a timestamp (`CLOCK_REALTIME`) with each datagram received.
pub fn set_stamps(fd: &impl AsRawFd) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
}

/// Requests the traffic class of each datagram received.
pub fn set_classes(fd: &impl AsRawFd) {
    // On a socket of one family, the option of the other may fail.
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32);
    let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1_i32);
}

/// Receives the next datagram: its length in bytes and its timestamp (`CLOCK_REALTIME`, ns); `None`
/// if none has arrived.
pub fn receive_stamped(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<Option<(usize, u64)>> {
    let mut stamp = realtime();
    let received = receive_with(fd, to, |control| {
        if control.kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            stamp = from_timespec(&control.get());
        }
    });
    Ok(received?.map(|n| (n, stamp)))
}

/// Receives the next datagram: its length in bytes and its traffic class; `None` if none has
/// arrived.
pub fn receive_classed(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<Option<(usize, u8)>> {
    let mut class = 0;
    let received = receive_with(fd, to, |control| match control.kind {
        (libc::IPPROTO_IP, libc::IP_TOS) => class = control.get(),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => class = control.get::<c_int>() as u8,
        _ => {}
    });
    Ok(received?.map(|n| (n, class)))
}

/// Receives the next datagram, and passes its control messages to `each`.
fn receive_with(
    fd: &impl AsRawFd,
    to: &mut [u8],
    each: impl FnMut(Control<'_>),
) -> io::Result<Option<usize>> {
    let mut part = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let mut buffer: Buffer = [0; 32];
    // SAFETY: `msghdr` consists of integers and pointers, for which all zeros is a valid value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = buffer.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&buffer) as _;
    // SAFETY: the header points to `part`, `to` and `buffer` with their lengths; all of them
    // outlive the call and nothing else refers to them.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    let Some(n) = unless_empty(length(received))? else {
        return Ok(None);
    };
    control::each(&buffer, message.msg_controllen as _, each);
    Ok(Some(n))
}

/// A received datagram.
#[derive(Copy, Clone, Debug)]
pub struct Datagram {
    /// Address and port of the sender.
    pub from: SocketAddr,
    /// Length in bytes, including bytes that are not kept.
    pub len: usize,
    /// Traffic class: DSCP and ECN.
    pub class: u8,
    /// Time of arrival in the kernel (`CLOCK_REALTIME`), ns.
    pub stamp: u64,
    bytes: [u8; KEPT],
}

impl Datagram {
    /// The first [`KEPT`] bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(KEPT)]
    }
}

/// Appends up to [`BATCH`] received datagrams to `to`. Returns the number of datagrams that the
/// socket has dropped since it was created, if the kernel reports it.
pub fn receive(fd: &OwnedFd, to: &mut Vec<Datagram>) -> io::Result<Option<u32>> {
    let mut bytes = [[0_u8; KEPT]; BATCH];
    let mut buffers: [Buffer; BATCH] = [[0; 32]; BATCH];
    // SAFETY: addresses, parts and headers consist of integers and pointers, for which all zeros
    // is a valid value.
    let (mut from, mut parts, mut messages) = unsafe {
        (
            zeroed::<[libc::sockaddr_storage; BATCH]>(),
            zeroed::<[libc::iovec; BATCH]>(),
            zeroed::<[libc::mmsghdr; BATCH]>(),
        )
    };
    for i in 0..BATCH {
        parts[i].iov_base = bytes[i].as_mut_ptr().cast();
        parts[i].iov_len = KEPT;
        let head = &mut messages[i].msg_hdr;
        head.msg_name = std::ptr::from_mut(&mut from[i]).cast();
        head.msg_namelen = STORAGE;
        head.msg_iov = &mut parts[i];
        head.msg_iovlen = 1;
        head.msg_control = buffers[i].as_mut_ptr().cast();
        head.msg_controllen = size_of_val(&buffers[i]) as _;
    }
    // SAFETY: each of the `BATCH` headers points to its own address, part, bytes and buffer with
    // their lengths; all of them outlive the call. The null pointer sets no timeout.
    let n = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            BATCH as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
            std::ptr::null_mut(),
        )
    };
    let n = unless_empty(check(n))?.unwrap_or(0) as usize;
    let mut lost = None;
    for i in 0..n {
        let mut datagram = Datagram {
            from: plain(from_kernel(&from[i])),
            len: messages[i].msg_len as usize,
            class: 0,
            stamp: 0,
            bytes: bytes[i],
        };
        let filled = messages[i].msg_hdr.msg_controllen;
        control::each(&buffers[i], filled as _, |control| match control.kind {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                datagram.stamp = from_timespec(&control.get());
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => lost = Some(control.get()),
            // One byte for IPv4, an integer for IPv6.
            (libc::IPPROTO_IP, libc::IP_TOS) => datagram.class = control.get(),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                datagram.class = control.get::<c_int>() as u8;
            }
            _ => {}
        });
        if datagram.stamp == 0 {
            datagram.stamp = realtime();
        }
        to.push(datagram);
    }
    Ok(lost)
}

/// Lets datagrams of a socket have a departure time of the monotonic clock ([`Outgoing::departs`]).
pub fn allow_departures(fd: &OwnedFd) -> io::Result<()> {
    let clock = libc::sock_txtime {
        clockid: libc::CLOCK_MONOTONIC,
        flags: 0,
    };
    set(fd, libc::SOL_SOCKET, libc::SO_TXTIME, &clock)
}

/// A datagram to be sent.
#[derive(Copy, Clone, Debug)]
pub struct Outgoing {
    /// Destination; `None` for the peer of a connected socket.
    pub to: Option<SocketAddr>,
    /// Traffic class; `None` for that of the socket.
    pub class: Option<u8>,
    /// Earliest departure, ns of the monotonic clock; `None`: at once. The queue discipline `fq`
    /// of the host keeps the datagram until then, if [`allow_departures`] was called.
    pub departs: Option<u64>,
    /// Bytes of the header.
    pub head: [u8; HEADER],
    /// Length of the header in bytes.
    pub head_len: usize,
    /// Payload of the datagram, header included, bytes. After the header, it is filled with 0x6e.
    pub len: usize,
}

/// Largest length of a header in bytes.
pub const HEADER: usize = 88;

/// Content of datagrams after the header, as long as the longest datagram.
static REST: [u8; 65_536] = [0x6e; 65_536];

/// The header `bytes`, padded with zeros.
pub fn header(bytes: &[u8]) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    let n = bytes.len().min(HEADER);
    head[..n].copy_from_slice(&bytes[..n]);
    head
}

/// Sends up to [`BATCH`] datagrams and returns how many the kernel accepted. `v6`: the socket
/// belongs to IPv6 and sends to IPv4 by mapped addresses. Of a connected socket: its peer has an
/// IPv6 address.
pub fn send(fd: &OwnedFd, datagrams: &[Outgoing], v6: bool) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(BATCH)];
    let mut buffers = [OutBuffer::default(); BATCH];
    // SAFETY: addresses, parts and headers consist of integers and pointers, for which all zeros
    // is a valid value.
    let (mut to, mut parts, mut messages) = unsafe {
        (
            zeroed::<[libc::sockaddr_storage; BATCH]>(),
            zeroed::<[[libc::iovec; 2]; BATCH]>(),
            zeroed::<[libc::mmsghdr; BATCH]>(),
        )
    };
    for (i, datagram) in datagrams.iter().enumerate() {
        let head_len = datagram.head_len.min(datagram.len).min(HEADER);
        let rest = (datagram.len - head_len).min(REST.len());
        parts[i][0].iov_base = datagram.head.as_ptr().cast_mut().cast();
        parts[i][0].iov_len = head_len;
        parts[i][1].iov_base = REST.as_ptr().cast_mut().cast();
        parts[i][1].iov_len = rest;
        let head = &mut messages[i].msg_hdr;
        if let Some(address) = datagram.to {
            let (storage, size) = to_kernel(mapped(address, v6));
            to[i] = storage;
            head.msg_name = std::ptr::from_mut(&mut to[i]).cast();
            head.msg_namelen = size;
        }
        head.msg_iov = parts[i].as_mut_ptr();
        head.msg_iovlen = 2;
        let v4 = datagram.to.map_or(!v6, |to| to.is_ipv4());
        let request = Request {
            class: datagram.class,
            segment: None,
            departs: datagram.departs,
        };
        control::set_request(head, &mut buffers[i], v4, request);
    }
    // SAFETY: each of the headers points to its own address, parts and buffer with their lengths;
    // all of them outlive the call, and the kernel reads the datagrams and writes nothing to them.
    let n = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            datagrams.len() as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    Ok(unless_empty(check(n))?.unwrap_or(0) as usize)
}

/// Largest number of datagrams in one super-packet (`UDP_MAX_SEGMENTS` of linux/udp.h before 6.9).
pub const SEGMENTS: usize = 64;

/// Sends up to [`SEGMENTS`] datagrams of a connected socket as one super-packet (`UDP_SEGMENT`).
/// All have the length of the first one, except for the last one, which may be shorter. Returns
/// whether the kernel accepted them; `false` if its buffer is full. Class and departure are those
/// of the first. `v6`: the peer has an IPv6 address.
pub fn send_super_packet(fd: &OwnedFd, datagrams: &[Outgoing], v6: bool) -> io::Result<bool> {
    let Some(first) = datagrams.first() else {
        return Ok(true);
    };
    let datagrams = &datagrams[..datagrams.len().min(SEGMENTS)];
    // SAFETY: parts and the header consist of integers and pointers, for which all zeros is a valid
    // value.
    let (mut parts, mut message) = unsafe {
        (
            zeroed::<[[libc::iovec; 2]; SEGMENTS]>(),
            zeroed::<libc::msghdr>(),
        )
    };
    for (part, datagram) in parts.iter_mut().zip(datagrams) {
        let head_len = datagram.head_len.min(datagram.len).min(HEADER);
        part[0].iov_base = datagram.head.as_ptr().cast_mut().cast();
        part[0].iov_len = head_len;
        part[1].iov_base = REST.as_ptr().cast_mut().cast();
        part[1].iov_len = (datagram.len - head_len).min(REST.len());
    }
    message.msg_iov = parts.as_mut_ptr().cast();
    message.msg_iovlen = (2 * datagrams.len()) as _;
    let mut buffer = OutBuffer::default();
    let request = Request {
        class: first.class,
        segment: (datagrams.len() > 1).then_some(first.len as u16),
        departs: first.departs,
    };
    control::set_request(&mut message, &mut buffer, !v6, request);
    // SAFETY: the header points to parts and control messages, which point to the borrowed
    // datagrams and to a static; all of them outlive the call, and the kernel only reads them.
    let sent = unsafe {
        libc::sendmsg(
            fd.as_raw_fd(),
            &message,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    unless_empty(length(sent)).map(|sent| sent.is_some())
}

/// Sends `bytes` on a connected socket. With `segment`, the kernel cuts them into datagrams of this
/// length, of which the last one may be shorter (`UDP_SEGMENT`). Returns whether the kernel
/// accepted them; `false` if its buffer is full. `v6`: the peer has an IPv6 address.
pub fn send_bytes(
    fd: &OwnedFd,
    bytes: &[u8],
    segment: Option<usize>,
    class: u8,
    v6: bool,
) -> io::Result<bool> {
    let mut part = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: `msghdr` consists of integers and pointers, for which all zeros is a valid value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    let mut buffer = OutBuffer::default();
    let request = Request {
        class: Some(class),
        segment: segment.and_then(|size| u16::try_from(size).ok()),
        departs: None,
    };
    control::set_request(&mut message, &mut buffer, !v6, request);
    // SAFETY: the header points to `part` and to control messages, and `part` to `bytes` with their
    // length; all of them outlive the call, and the kernel only reads them.
    let sent = unsafe {
        libc::sendmsg(
            fd.as_raw_fd(),
            &message,
            libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        )
    };
    unless_empty(length(sent)).map(|sent| sent.is_some())
}

/// The address in the form that a socket requires: for an IPv6 socket (`v6`), IPv4 addresses are
/// mapped.
pub(crate) fn mapped(of: SocketAddr, v6: bool) -> SocketAddr {
    match of {
        SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}
