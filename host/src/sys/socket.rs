//! What the two ends of a measurement ask of sockets, for IPv4 and IPv6 alike: thin, and unsafe
//! code like [`crate::sys`].
//!
//! Nothing here blocks. A dual-stack socket shows IPv4 peers as mapped addresses; callers see them
//! as IPv4.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Datagrams that are read or written by one call.
pub const BATCH: usize = 32;
/// What is kept of each: every header of ours and of iperf3 is shorter. The rest is only counted.
pub const KEPT: usize = 256;

fn answer(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

pub(crate) fn set<T>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let size = size_of_val(value) as libc::socklen_t;
    // SAFETY: the value is valid for its size.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    answer(result).map(drop)
}

fn get_number(fd: &OwnedFd, level: c_int, name: c_int) -> io::Result<c_int> {
    let (mut value, mut size): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: both are valid for the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &mut size,
        )
    };
    answer(result).map(|_| value)
}

pub(crate) const STORAGE: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

pub(crate) fn to_kernel(of: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is a valid address of no family.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let size = match of {
        SocketAddr::V4(of) => {
            // SAFETY: the storage is large enough and aligned for every family.
            let to = unsafe { &mut *std::ptr::from_mut(&mut storage).cast::<libc::sockaddr_in>() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_port = of.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes(of.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(of) => {
            // SAFETY: as above.
            let to = unsafe { &mut *std::ptr::from_mut(&mut storage).cast::<libc::sockaddr_in6>() };
            to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            to.sin6_port = of.port().to_be();
            to.sin6_addr.s6_addr = of.ip().octets();
            to.sin6_scope_id = of.scope_id();
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, size as libc::socklen_t)
}

pub(crate) fn from_kernel(storage: &libc::sockaddr_storage) -> SocketAddr {
    if c_int::from(storage.ss_family) == libc::AF_INET6 {
        // SAFETY: the family says which of the two it is.
        let from = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
        let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
        let port = u16::from_be(from.sin6_port);
        return SocketAddr::V6(SocketAddrV6::new(ip, port, 0, from.sin6_scope_id));
    }
    // SAFETY: as above; of no other family is asked for.
    let from = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
    let ip = Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes());
    SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(from.sin_port)))
}

/// The address as people write it: IPv4 where it is one.
pub fn plain(of: SocketAddr) -> SocketAddr {
    match of.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), of.port()),
        IpAddr::V6(_) => of,
    }
}

fn socket(of: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    let family = if of.is_ipv6() {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    // SAFETY: takes numbers only; the descriptor is given to us alone.
    unsafe {
        let fd = libc::socket(family, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0);
        answer(fd).map(|fd| OwnedFd::from_raw_fd(fd))
    }
}

fn bind(fd: &OwnedFd, at: SocketAddr) -> io::Result<()> {
    let (address, size) = to_kernel(at);
    // SAFETY: the address is valid for its size.
    answer(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) })
        .map(drop)
}

/// A TCP socket that takes connections at `at`, of both families where that is `[::]`.
pub fn listen(at: SocketAddr) -> io::Result<OwnedFd> {
    /// The kernel cuts it to `net.core.somaxconn`.
    const BACKLOG: c_int = 4096;
    let fd = socket(at, libc::SOCK_STREAM)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
    }
    bind(&fd, at)?;
    // SAFETY: takes numbers only.
    answer(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}

/// The next connection and who it is, if there is one.
pub fn accept(fd: &OwnedFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    // SAFETY: all zeros is a valid address; it and its size are valid for the call, the descriptor
    // is given to us alone.
    let accepted = unsafe {
        let (mut from, mut size) = (zeroed::<libc::sockaddr_storage>(), STORAGE);
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = libc::accept4(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut from).cast(),
            &mut size,
            flags,
        );
        answer(fd).map(|fd| (OwnedFd::from_raw_fd(fd), plain(from_kernel(&from))))
    };
    match accepted {
        // It came and went before anybody looked.
        Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
        other => would_block(other),
    }
}

/// A datagram socket: large buffers, and every datagram tells when it came, its traffic class, and
/// how many were lost before.
pub fn datagrams(at: SocketAddr) -> io::Result<OwnedFd> {
    datagrams_of(at, false)
}

/// The same, at an address that other sockets of this user may have, too: of two, the one with a
/// peer gets what that peer sends.
pub fn shared_datagrams(at: SocketAddr) -> io::Result<OwnedFd> {
    datagrams_of(at, true)
}

fn datagrams_of(at: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    /// Bytes; some 20 ms at 1 Gbit/s. The kernel cuts it to `net.core.rmem_max`, unless it obeys
    /// the forced one.
    const BUFFER: c_int = 4 << 20;
    let fd = socket(at, libc::SOCK_DGRAM)?;
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1_i32)?;
    }
    // On a socket of both families this serves the IPv4 half.
    let _ = set(&fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32);
    for (forced, asked) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if set(&fd, libc::SOL_SOCKET, forced, &BUFFER).is_err() {
            set(&fd, libc::SOL_SOCKET, asked, &BUFFER)?;
        }
    }
    set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1_i32)?;
    if shared {
        set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
    }
    bind(&fd, at)?;
    Ok(fd)
}

/// A datagram socket that blocks, for a thread that does nothing but wait for it. `shared`: other
/// sockets of this user that say so may have the same address; of two, the one with a peer gets
/// what that peer sends.
pub fn waiting_datagrams(at: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let family = if at.is_ipv6() {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    // SAFETY: takes numbers only; the descriptor is given to us alone.
    let fd = unsafe {
        let fd = libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        answer(fd).map(|fd| OwnedFd::from_raw_fd(fd))?
    };
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
    }
    if shared {
        set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
    }
    bind(&fd, at)?;
    Ok(fd)
}

/// Where a socket is bound.
pub fn local(fd: &OwnedFd) -> io::Result<SocketAddr> {
    // SAFETY: all zeros is a valid address; it and its size are valid for the call.
    unsafe {
        let (mut at, mut size) = (zeroed::<libc::sockaddr_storage>(), STORAGE);
        answer(libc::getsockname(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut at).cast(),
            &mut size,
        ))?;
        Ok(from_kernel(&at))
    }
}

/// How a sender's socket is to be; what is `None` stays the host's.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Congestion control.
    pub cc: Option<String>,
    /// Differentiated-services code point.
    pub dscp: u8,
    /// `SO_MAX_PACING_RATE`, bytes per second.
    pub pacing: Option<u64>,
}

impl Wanted {
    /// Makes it so. The congestion control is the only one that may fail, by permission or by
    /// absence.
    pub fn apply(&self, fd: &OwnedFd) -> io::Result<()> {
        set_class(fd, self.dscp << 2);
        if let Some(rate) = self.pacing {
            set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate)?;
        }
        match &self.cc {
            Some(cc) => crate::sys::choose_cc(fd, cc),
            None => Ok(()),
        }
    }
}

/// Traffic class of whatever a socket sends from now on, both families.
pub fn set_class(fd: &OwnedFd, class: u8) {
    // One of the two fails on a socket of the other family.
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_TOS, &c_int::from(class));
    let _ = set(
        fd,
        libc::IPPROTO_IPV6,
        libc::IPV6_TCLASS,
        &c_int::from(class),
    );
}

/// Begins to connect a new TCP socket.
pub fn connect(to: SocketAddr, wanted: &Wanted) -> io::Result<OwnedFd> {
    let fd = socket(to, libc::SOCK_STREAM)?;
    wanted.apply(&fd)?;
    let (address, size) = to_kernel(to);
    // SAFETY: the address is valid for its size.
    match answer(unsafe {
        libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size)
    }) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(fd),
    }
}

/// Nothing more is sent: the other end reads what is under way, and then the end.
pub fn end_sending(socket: &OwnedFd) {
    // SAFETY: the descriptor is open, and the call takes no memory.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// The kernel asks a peer that says nothing every second whether it is there, and gives the
/// connection up after 15 s without an answer, whether or not something waits to be acknowledged
/// (`TCP_USER_TIMEOUT`).
pub fn watch_peer(fd: &OwnedFd) {
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32);
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &1_i32);
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &1_i32);
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &15_000_i32);
}

/// Time since the last segment of the peer came, ns: data or an acknowledgement, also of a probe of
/// [`watch_peer`].
pub fn silence(fd: &OwnedFd) -> u64 {
    let ms = crate::sys::tcp_info(fd).map_or(u32::MAX, |info| info.last[2].min(info.last[3]));
    u64::from(ms) * 1_000_000
}

/// Memory of the kernel that a socket takes, bytes: what has come and was not read, and what was
/// written and is not acknowledged.
pub fn memory(fd: &OwnedFd) -> u64 {
    /// `SO_MEMINFO`, `SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_WMEM_QUEUED`, `SK_MEMINFO_BACKLOG`
    /// (linux/sock_diag.h).
    const MEMINFO: c_int = 55;
    const PARTS: [usize; 3] = [0, 5, 7];
    let mut numbers = [0_u32; 9];
    let mut size = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the numbers and their size are valid for the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            MEMINFO,
            numbers.as_mut_ptr().cast(),
            &mut size,
        )
    };
    answer(result).map_or(0, |_| PARTS.iter().map(|i| u64::from(numbers[*i])).sum())
}

/// Small writes leave at once.
pub fn no_delay(fd: &OwnedFd) {
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32);
}

/// Notices that the other end has gone without a word: after `idle` seconds of silence a keepalive
/// each `interval` seconds, and at most `missed` without an answer.
pub fn keep_alive(fd: &OwnedFd, (idle, interval, missed): (u32, u32, u32)) {
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32);
    for (option, value) in [
        (libc::TCP_KEEPIDLE, idle),
        (libc::TCP_KEEPINTVL, interval),
        (libc::TCP_KEEPCNT, missed),
    ] {
        let _ = set(fd, libc::IPPROTO_TCP, option, &(value as c_int));
    }
}

/// Bytes that a socket may hold each way, where a peer asks for it.
pub fn set_buffers(fd: &OwnedFd, bytes: u32) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
}

/// Segments no larger than this, bytes.
pub fn set_mss(fd: &OwnedFd, bytes: u16) {
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &c_int::from(bytes));
}

/// The congestion control of a socket.
pub fn cc_of(fd: &OwnedFd) -> String {
    let mut name = [0_u8; 16];
    let mut size = name.len() as libc::socklen_t;
    // SAFETY: the name and its size are valid for the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut size,
        )
    };
    let end = name.iter().position(|c| *c == 0).unwrap_or(name.len());
    answer(result).map_or(String::new(), |_| {
        String::from_utf8_lossy(&name[..end]).into_owned()
    })
}

/// What went wrong with a socket, or nothing.
pub fn error(fd: &OwnedFd) -> Option<io::Error> {
    match get_number(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
        Err(e) => Some(e),
    }
}

/// Reads what is there; `None` when there is nothing yet, 0 at the end.
pub fn read(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is valid for its length.
    let n = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            to.as_mut_ptr().cast::<c_void>(),
            to.len(),
            libc::MSG_DONTWAIT,
        )
    };
    would_block(usize::try_from(n).map_err(|_| io::Error::last_os_error()))
}

/// One datagram as it came.
#[derive(Copy, Clone, Debug)]
pub struct Datagram {
    /// Its sender.
    pub from: SocketAddr,
    /// Its length, also beyond what is kept.
    pub len: usize,
    /// Traffic class: code point and ECN.
    pub class: u8,
    /// When the kernel got it, on its clock for stamps, ns.
    pub stamp: u64,
    bytes: [u8; KEPT],
}

impl Datagram {
    /// What is kept of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(KEPT)]
    }
}

/// Reads up to [`BATCH`] datagrams onto `to`; answers how many the socket has lost since it was
/// made, where it says so.
pub fn receive(fd: &OwnedFd, to: &mut Vec<Datagram>) -> io::Result<Option<u32>> {
    let mut bytes = [[0_u8; KEPT]; BATCH];
    let mut control = [[0_u64; 16]; BATCH];
    // SAFETY: all zeros is a valid address, part and header each.
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
        head.msg_control = control[i].as_mut_ptr().cast();
        head.msg_controllen = size_of_val(&control[i]) as _;
    }
    // SAFETY: everything that the headers point to lives until the end of this function.
    let n = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            BATCH as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
            std::ptr::null_mut(),
        )
    };
    let n = would_block(answer(n))?.unwrap_or(0) as usize;
    let mut lost = None;
    for i in 0..n {
        let mut datagram = Datagram {
            from: plain(from_kernel(&from[i])),
            len: messages[i].msg_len as usize,
            class: 0,
            stamp: 0,
            bytes: bytes[i],
        };
        // SAFETY: the kernel has filled the control messages, and `CMSG_NXTHDR` stays among them.
        unsafe {
            let head = &messages[i].msg_hdr;
            let mut next = libc::CMSG_FIRSTHDR(head);
            while let Some(part) = next.as_ref() {
                let data = libc::CMSG_DATA(next);
                match (part.cmsg_level, part.cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let at = data.cast::<libc::timespec>().read_unaligned();
                        datagram.stamp = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
                    }
                    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                        lost = Some(data.cast::<u32>().read_unaligned())
                    }
                    // Of IPv4 it is one byte, of IPv6 a whole number.
                    (libc::IPPROTO_IP, libc::IP_TOS) => datagram.class = data.read(),
                    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                        datagram.class = data.cast::<c_int>().read_unaligned() as u8;
                    }
                    _ => {}
                }
                next = libc::CMSG_NXTHDR(head, next);
            }
        }
        if datagram.stamp == 0 {
            datagram.stamp = crate::sys::realtime();
        }
        to.push(datagram);
    }
    Ok(lost)
}

/// One datagram to be sent: its first bytes, and how long it is in all.
#[derive(Copy, Clone, Debug)]
pub struct Outgoing {
    /// To whom; a connected socket has its own.
    pub to: Option<SocketAddr>,
    /// Traffic class, where it is not the socket's.
    pub class: Option<u8>,
    /// Its header.
    pub head: [u8; HEADER],
    /// How much of that.
    pub head_len: usize,
    /// Bytes in all.
    pub len: usize,
}

/// Bytes of a header, at most.
pub const HEADER: usize = crate::protocols::wire::TIMED;

/// The rest of a datagram: as long as one can be.
static REST: [u8; 65_536] = [0x6e; 65_536];

/// A header, with room behind it.
pub fn header(bytes: &[u8]) -> [u8; HEADER] {
    let mut head = [0; HEADER];
    let n = bytes.len().min(HEADER);
    head[..n].copy_from_slice(&bytes[..n]);
    head
}

/// Sends up to [`BATCH`] of them by one call; answers how many the kernel took. `v6`: the socket is
/// of both families.
pub fn send(fd: &OwnedFd, datagrams: &[Outgoing], v6: bool) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(BATCH)];
    // SAFETY: all zeros is a valid address, part and header each.
    let (mut to, mut parts, mut messages, mut control) = unsafe {
        (
            zeroed::<[libc::sockaddr_storage; BATCH]>(),
            zeroed::<[[libc::iovec; 2]; BATCH]>(),
            zeroed::<[libc::mmsghdr; BATCH]>(),
            [[0_u64; 4]; BATCH],
        )
    };
    for (i, datagram) in datagrams.iter().enumerate() {
        let head_len = datagram.head_len.min(datagram.len);
        let rest = (datagram.len - head_len).min(REST.len());
        parts[i][0].iov_base = datagram.head.as_ptr().cast_mut().cast();
        parts[i][0].iov_len = head_len;
        parts[i][1].iov_base = REST.as_ptr().cast_mut().cast();
        parts[i][1].iov_len = rest;
        let head = &mut messages[i].msg_hdr;
        if let Some(address) = datagram.to {
            let mapped = match address {
                SocketAddr::V4(v4) if v6 => {
                    SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
                }
                other => other,
            };
            let (storage, size) = to_kernel(mapped);
            to[i] = storage;
            head.msg_name = std::ptr::from_mut(&mut to[i]).cast();
            head.msg_namelen = size;
        }
        head.msg_iov = parts[i].as_mut_ptr();
        head.msg_iovlen = 2;
        if let Some(class) = datagram.class {
            let v4 = datagram.to.is_none_or(|to| to.is_ipv4());
            let (level, kind) = if v4 {
                (libc::IPPROTO_IP, libc::IP_TOS)
            } else {
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
            };
            head.msg_control = control[i].as_mut_ptr().cast();
            // SAFETY: the buffer has room for one message with one number.
            unsafe {
                head.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as _;
                if let Some(part) = libc::CMSG_FIRSTHDR(head).as_mut() {
                    part.cmsg_level = level;
                    part.cmsg_type = kind;
                    part.cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as u32) as _;
                    libc::CMSG_DATA(part)
                        .cast::<c_int>()
                        .write_unaligned(class.into());
                }
            }
        }
    }
    // SAFETY: everything that the headers point to lives until the end of this function, and the
    // kernel only reads it.
    let n = unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            messages.as_mut_ptr(),
            datagrams.len() as libc::c_uint,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    };
    Ok(would_block(answer(n))?.unwrap_or(0) as usize)
}

/// As many descriptors as this process may have.
pub fn allow_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is valid for both calls.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    limit.rlim_cur
}

/// A datagram socket of one peer.
pub fn connect_datagrams(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let (address, size) = to_kernel(to);
    // SAFETY: the address is valid for its size.
    answer(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) })
        .map(drop)
}

/// The code point that the SYN of an accepted connection arrived with (IPv4), where the kernel
/// tells.
pub fn arrived_class(fd: &OwnedFd) -> Option<u8> {
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32).ok()?;
    let mut control = [0_u64; 16];
    let mut size = size_of_val(&control) as libc::socklen_t;
    // SAFETY: the buffer and its size are valid for the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_PKTOPTIONS,
            control.as_mut_ptr().cast(),
            &mut size,
        )
    };
    answer(result).ok()?;
    // SAFETY: the kernel has filled the control messages up to `size`, and `CMSG_NXTHDR` stays
    // among them.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size as _;
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while let Some(part) = next.as_ref() {
            if (part.cmsg_level, part.cmsg_type) == (libc::IPPROTO_IP, libc::IP_TOS) {
                return Some(libc::CMSG_DATA(next).read());
            }
            next = libc::CMSG_NXTHDR(&message, next);
        }
    }
    None
}

/// A conversation with the kernel's families of generic netlink.
pub fn generic_netlink() -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only; the descriptor is given to us alone.
    unsafe {
        let fd = libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_GENERIC,
        );
        answer(fd).map(|fd| OwnedFd::from_raw_fd(fd))
    }
}
