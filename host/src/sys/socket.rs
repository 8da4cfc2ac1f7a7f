//! Sockets of a measurement, for IPv4 and IPv6: creation, addresses and options.
//!
//! No call here blocks. A dual-stack socket reports IPv4 peers as mapped addresses; callers see
//! them as IPv4 ([`plain`]).

use super::control::{self, Buffer, Plain};
use super::{check, length, netlink, owned, tcp, unless_empty};
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option of a socket.
pub(crate) fn set<T: ?Sized>(
    fd: &impl AsRawFd,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let size = size_of_val(value) as libc::socklen_t;
    // SAFETY: the kernel reads `size` bytes of the borrowed value.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size,
        )
    };
    check(result).map(drop)
}

/// An option of a socket, and how many of its bytes the kernel has stored; the others are zero.
pub(crate) fn get_sized<T: Plain>(
    fd: &OwnedFd,
    level: c_int,
    name: c_int,
) -> io::Result<(T, usize)> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: all zeros is a valid value, as every bit pattern is.
    let mut value: T = unsafe { zeroed() };
    // SAFETY: the kernel writes at most `size` bytes to `value`, of which every bit pattern is
    // valid, and the new length to `size`; both outlive the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_mut(&mut value).cast(),
            &mut size,
        )
    };
    check(result).map(|_| (value, size as usize))
}

/// An option of a socket; bytes that the kernel does not store are zero.
pub(crate) fn get<T: Plain>(fd: &OwnedFd, level: c_int, name: c_int) -> io::Result<T> {
    get_sized(fd, level, name).map(|(value, _)| value)
}

/// Size of an address of any family in bytes.
pub(crate) const STORAGE: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

pub(crate) fn to_kernel(of: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: `sockaddr_storage` consists of integers, for which all zeros is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let size = match of {
        SocketAddr::V4(of) => {
            // SAFETY: `sockaddr_storage` has the size and the alignment of every address, all zeros
            // is a valid `sockaddr_in`, and the reference is the only one.
            let to = unsafe { &mut *std::ptr::from_mut(&mut storage).cast::<libc::sockaddr_in>() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_port = of.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes(of.ip().octets());
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(of) => {
            // SAFETY: as above, for `sockaddr_in6`.
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
        // SAFETY: an address of the family AF_INET6 is a `sockaddr_in6`, and the storage is aligned
        // and large enough for it.
        let from = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
        let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
        let port = u16::from_be(from.sin6_port);
        return SocketAddr::V6(SocketAddrV6::new(ip, port, 0, from.sin6_scope_id));
    }
    // SAFETY: the storage is aligned and large enough for `sockaddr_in`, which consists of
    // integers; the sockets of this program have no other family.
    let from = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
    let ip = Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes());
    SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(from.sin_port)))
}

/// The address without the mapping of IPv4 into IPv6.
pub fn plain(of: SocketAddr) -> SocketAddr {
    match of.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), of.port()),
        IpAddr::V6(_) => of,
    }
}

/// A non-blocking socket of the family of `of`.
pub(super) fn socket(of: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    blocking_socket(of, kind | libc::SOCK_NONBLOCK)
}

fn blocking_socket(of: SocketAddr, kind: c_int) -> io::Result<OwnedFd> {
    let family = if of.is_ipv6() {
        libc::AF_INET6
    } else {
        libc::AF_INET
    };
    // SAFETY: the call takes integers only.
    owned(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, 0) })
}

/// Binds a socket to an address.
pub(super) fn bind(fd: &OwnedFd, at: SocketAddr) -> io::Result<()> {
    let (address, size) = to_kernel(at);
    // SAFETY: the kernel reads `size` bytes of `address`, which outlives the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) })
        .map(drop)
}

/// Connects a socket to a peer. A non-blocking TCP socket only starts to connect.
pub(super) fn start_connect(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let (address, size) = to_kernel(to);
    // SAFETY: the kernel reads `size` bytes of `address`, which outlives the call.
    let result =
        unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), size) };
    match check(result) {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(()),
    }
}

/// Opens a TCP socket that listens at `at`; at `[::]`, for IPv4, too.
pub fn listen(at: SocketAddr) -> io::Result<OwnedFd> {
    /// The kernel limits it to `net.core.somaxconn`.
    const BACKLOG: c_int = 4096;
    let fd = socket(at, libc::SOCK_STREAM)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
    }
    bind(&fd, at)?;
    // SAFETY: the call takes integers; the descriptor is open.
    check(unsafe { libc::listen(fd.as_raw_fd(), BACKLOG) })?;
    Ok(fd)
}

/// Accepts the next connection; `None` if none waits.
pub fn accept(fd: &OwnedFd) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: `sockaddr_storage` consists of integers, for which all zeros is a valid value.
    let mut from: libc::sockaddr_storage = unsafe { zeroed() };
    let mut size = STORAGE;
    // SAFETY: the kernel writes at most `size` bytes to `from`, and the new length to `size`; both
    // outlive the call.
    let accepted = owned(unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut from).cast(),
            &mut size,
            flags,
        )
    });
    match accepted {
        // The peer reset the connection before it was accepted.
        Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
        other => unless_empty(other.map(|fd| (fd, plain(from_kernel(&from))))),
    }
}

/// Opens a datagram socket with large buffers. The kernel reports the timestamp and the traffic
/// class of every received datagram, and how many the socket has dropped so far.
pub fn datagrams(at: SocketAddr) -> io::Result<OwnedFd> {
    datagrams_of(at, false)
}

/// As [`datagrams`], at an address and port that other sockets of this user may share
/// (`SO_REUSEPORT`). Datagrams of a peer go to the socket that is connected to it, if there is one.
pub fn shared_datagrams(at: SocketAddr) -> io::Result<OwnedFd> {
    datagrams_of(at, true)
}

fn datagrams_of(at: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    /// Size of each buffer, bytes: about 30 ms at 1 Gbit/s. The kernel limits it to
    /// `net.core.rmem_max`, unless this process has CAP_NET_ADMIN (`SO_RCVBUFFORCE`).
    const BUFFER: c_int = 4 << 20;
    let fd = socket(at, libc::SOCK_DGRAM)?;
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, &1_i32)?;
    }
    // On a dual-stack socket this option applies to IPv4.
    let _ = set(&fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32);
    for (forced, asked) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        if set(&fd, libc::SOL_SOCKET, forced, &BUFFER).is_err() {
            set(&fd, libc::SOL_SOCKET, asked, &BUFFER)?;
        }
    }
    // User-mode emulators lack both options. Without a timestamp of the kernel, the time of the
    // read counts; without the counter of dropped datagrams, it stays 0.
    let _ = set(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32);
    let _ = set(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1_i32);
    if shared {
        set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
    }
    bind(&fd, at)?;
    Ok(fd)
}

/// Opens a blocking datagram socket, for a thread that only waits for this socket. With `shared`,
/// other sockets of this user may share its address and port, as for [`shared_datagrams`].
pub fn waiting_datagrams(at: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    let fd = blocking_socket(at, libc::SOCK_DGRAM)?;
    if at.is_ipv6() {
        set(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &0_i32)?;
    }
    if shared {
        set(&fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, &1_i32)?;
    }
    bind(&fd, at)?;
    Ok(fd)
}

/// The address to which a socket is bound.
pub fn local(fd: &OwnedFd) -> io::Result<SocketAddr> {
    // SAFETY: `sockaddr_storage` consists of integers, for which all zeros is a valid value.
    let mut at: libc::sockaddr_storage = unsafe { zeroed() };
    let mut size = STORAGE;
    // SAFETY: the kernel writes at most `size` bytes to `at`, and the new length to `size`; both
    // outlive the call.
    check(unsafe {
        libc::getsockname(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut at).cast(),
            &mut size,
        )
    })?;
    Ok(from_kernel(&at))
}

/// Options of a TCP socket; `None` keeps the default of the host.
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
    /// Sets the options. The congestion control may fail: it may not be permitted or not exist.
    pub fn apply(&self, fd: &OwnedFd) -> io::Result<()> {
        set_class(fd, self.dscp << 2);
        if let Some(rate) = self.pacing {
            set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &rate)?;
        }
        match &self.cc {
            Some(cc) => tcp::choose_cc(fd, cc),
            None => Ok(()),
        }
    }
}

/// Sets the traffic class of a socket, for both families.
pub fn set_class(fd: &impl AsRawFd, class: u8) {
    // On a socket of one family, the option of the other fails.
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_TOS, &c_int::from(class));
    let _ = set(
        fd,
        libc::IPPROTO_IPV6,
        libc::IPV6_TCLASS,
        &c_int::from(class),
    );
}

/// Starts to connect a new TCP socket.
pub fn connect(to: SocketAddr, wanted: &Wanted) -> io::Result<OwnedFd> {
    let fd = socket(to, libc::SOCK_STREAM)?;
    wanted.apply(&fd)?;
    start_connect(&fd, to)?;
    Ok(fd)
}

/// Ends the sending direction (FIN): the peer reads the data in transit and then the end of the
/// stream.
pub fn end_sending(socket: &OwnedFd) {
    // SAFETY: the call takes integers; the descriptor is borrowed and open.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_WR) };
}

/// Makes the kernel send keepalive probes to a silent peer every second. It aborts the connection
/// after 15 s without an acknowledgement of data or probes (`TCP_USER_TIMEOUT`).
pub fn watch_peer(fd: &OwnedFd) {
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32);
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &1_i32);
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &1_i32);
    limit_output_time(fd);
}

/// Time since the last segment from the peer, ns: data or an acknowledgement, including those of
/// the probes of [`watch_peer`].
pub fn silence(fd: &OwnedFd) -> u64 {
    let ms = tcp::tcp_info(fd).map_or(u32::MAX, |info| info.last[2].min(info.last[3]));
    u64::from(ms) * 1_000_000
}

/// Kernel memory of a socket, bytes: that of received data that is not read, and of written data
/// that is not acknowledged.
pub fn memory(fd: &OwnedFd) -> u64 {
    /// `SO_MEMINFO`, `SK_MEMINFO_RMEM_ALLOC`, `SK_MEMINFO_WMEM_QUEUED`, `SK_MEMINFO_BACKLOG`
    /// (linux/sock_diag.h).
    const MEMINFO: c_int = 55;
    const PARTS: [usize; 3] = [0, 5, 7];
    let numbers: [u32; 9] = get(fd, libc::SOL_SOCKET, MEMINFO).unwrap_or_default();
    PARTS.iter().map(|i| u64::from(numbers[*i])).sum()
}

/// Makes a socket discard datagrams that the link layer delivers to more than one host. If it
/// answered a broadcast or multicast, each host would send an answer to the same source.
pub fn refuse_broadcasts(fd: &OwnedFd) -> io::Result<()> {
    /// `SKF_AD_OFF` + `SKF_AD_PKTTYPE` of linux/filter.h: zero for this host alone.
    const RECIPIENT: u32 = (-0x1000_i32 + 4) as u32;
    let step = |code: u32, jf, k| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, RECIPIENT),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    // The kernel copies the steps during the call.
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Limits the receive buffer of a TCP socket, bytes; the kernel doubles the value. A window that
/// was already announced is not withdrawn, but data beyond the limit is discarded.
pub fn limit_input(fd: &OwnedFd, bytes: u32) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
}

/// Makes the kernel abort the connection if the peer does not acknowledge data for 15 s, also after
/// this host has closed it.
pub fn limit_output_time(fd: &OwnedFd) {
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &15_000_i32);
}

/// Disables the Nagle algorithm.
pub fn no_delay(fd: &OwnedFd) {
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32);
}

/// Makes the kernel detect a peer that disappeared. After `idle` seconds of silence, it sends a
/// keepalive probe every `interval` seconds. It ends the connection after `missed` unanswered
/// probes.
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

/// Sets the send and the receive buffer of a socket, bytes; the kernel doubles the value.
pub fn set_buffers(fd: &OwnedFd, bytes: u32) {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &bytes);
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes);
}

/// Sets the maximum segment size, bytes.
pub fn set_mss(fd: &OwnedFd, bytes: u16) {
    let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, &c_int::from(bytes));
}

/// The congestion control of a socket; empty if unknown.
pub fn cc_of(fd: &OwnedFd) -> String {
    let name: [u8; 16] = get(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION).unwrap_or_default();
    netlink::text(&name)
}

/// The pending error of a socket, if any.
pub fn error(fd: &OwnedFd) -> Option<io::Error> {
    match get(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
        Err(e) => Some(e),
    }
}

/// Reads received bytes; `None` if none have arrived yet, 0 at the end of the stream.
pub fn read(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the kernel writes at most `to.len()` bytes to the exclusively borrowed buffer.
    let n = unsafe {
        libc::recv(
            fd.as_raw_fd(),
            to.as_mut_ptr().cast::<c_void>(),
            to.len(),
            libc::MSG_DONTWAIT,
        )
    };
    unless_empty(length(n))
}

/// Raises the limit of open descriptors of this process to its maximum, and returns it.
#[allow(
    clippy::unnecessary_cast,
    reason = "a limit has 32 bits on some processors"
)]
pub fn allow_descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls read or write one `rlimit`, which outlives them.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
    }
    limit.rlim_cur as u64
}

/// Limits the send buffer of a datagram socket for a congestion-controlled flow. The datagrams in
/// it wait in this host, where the sender cannot see them.
pub fn limit_output(fd: &OwnedFd) {
    /// Linux's default (`net.core.wmem_default`); the kernel doubles the value.
    const BUFFER: c_int = 106_496;
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &BUFFER);
}

/// The MTU of the path of a connected socket, as far as this kernel knows it, bytes.
pub fn path_mtu(fd: &OwnedFd) -> Option<u32> {
    let known = [
        (libc::IPPROTO_IP, libc::IP_MTU),
        (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    ];
    let mtu = |(level, name)| get::<c_int>(fd, level, name).ok();
    known
        .into_iter()
        .filter_map(mtu)
        .filter_map(|mtu| u32::try_from(mtu).ok())
        .min()
}

/// Leaves the discovery of the path's MTU to the owner of a datagram socket. The kernel neither
/// fragments its datagrams nor limits them to the MTU that it knows.
pub fn probe_mtu(fd: &OwnedFd) {
    // On a socket of one family, the option of the other may fail.
    let (v4, v6) = (libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE);
    let _ = set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &v4);
    let _ = set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &v6);
}

/// Connects a datagram socket to its only peer.
pub fn connect_datagrams(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    start_connect(fd, to)
}

/// The traffic class with which the SYN of an accepted connection arrived (IPv4), if the kernel
/// reports it.
pub fn arrived_class(fd: &OwnedFd) -> Option<u8> {
    set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, &1_i32).ok()?;
    let (buffer, filled): (Buffer, _) =
        get_sized(fd, libc::IPPROTO_IP, libc::IP_PKTOPTIONS).ok()?;
    let mut class = None;
    control::each(&buffer, filled, |control| {
        if control.kind == (libc::IPPROTO_IP, libc::IP_TOS) {
            class = class.or(Some(control.get()));
        }
    });
    class
}
