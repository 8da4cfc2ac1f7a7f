//! TCP sockets: options, connections, and `TCP_INFO`.

use super::control::Plain;
use super::socket::{bind, get, get_sized, local, set, socket, start_connect};
use super::{check, length, owned, send, unless_empty};
use std::ffi::c_int;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Opens a non-blocking TCP socket in this thread's network namespace, bound to `at`.
pub fn tcp(at: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(at, libc::SOCK_STREAM)?;
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
    bind(&fd, at)?;
    Ok(fd)
}

/// Sets the congestion control of a socket, by name.
pub fn choose_cc(fd: &OwnedFd, name: &str) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes())
}

/// Sets `TCP_NOTSENT_LOWAT`: the socket is writable while fewer than `bytes` are unsent.
pub fn set_notsent_lowat(fd: &OwnedFd, bytes: u32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// Sets the differentiated-services code point of a socket's packets.
pub fn set_dscp(fd: &OwnedFd, dscp: u8) -> io::Result<()> {
    let class = i32::from(dscp) << 2;
    if local(fd)?.is_ipv6() {
        set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &class)
    } else {
        set(fd, libc::IPPROTO_IP, libc::IP_TOS, &class)
    }
}

/// Makes closing the socket reset its connection (`SO_LINGER` with 0 s).
pub fn set_reset(fd: &OwnedFd) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Starts to connect to `to`.
pub fn connect(fd: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    start_connect(fd, to)
}

/// Listens for connections.
pub fn listen(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: the call takes integers; the descriptor is borrowed and open.
    check(unsafe { libc::listen(fd.as_raw_fd(), 16) }).map(drop)
}

/// Accepts the next connection; `None` if none waits.
pub fn accept(fd: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: with null pointers the kernel does not store the address of the peer.
    let result = unsafe {
        libc::accept4(
            fd.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags,
        )
    };
    unless_empty(owned(result))
}

/// Writes as many bytes as fit into the send buffer; `None` if none fit, or if the connection is
/// not established yet.
pub fn send_some(fd: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    match send(fd, bytes) {
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(None),
        other => unless_empty(other),
    }
}

/// Discards up to `most` received bytes; `None` if none have arrived yet, 0 at the end of the
/// stream.
pub fn discard(fd: &OwnedFd, most: usize) -> io::Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC a TCP socket drops the bytes and writes nothing to the null pointer
    // (tcp(7)).
    unless_empty(length(unsafe {
        libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC)
    }))
}

fn queue(fd: &OwnedFd, request: libc::c_ulong) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: both callers pass a request that writes one `int`, and `bytes` outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, &mut bytes) })?;
    Ok(bytes.max(0) as u64)
}

/// Number of bytes of a TCP socket that are written and not acknowledged.
pub fn unacknowledged(fd: &OwnedFd) -> io::Result<u64> {
    queue(fd, libc::TIOCOUTQ as _)
}

/// Number of bytes of a TCP socket that are written and not sent.
pub fn unsent(fd: &OwnedFd) -> io::Result<u64> {
    /// `SIOCOUTQNSD`, which libc does not name.
    const UNSENT: libc::c_ulong = 0x894b;
    queue(fd, UNSENT)
}

/// The pending error of a socket (`SO_ERROR`).
pub fn error_of(fd: &OwnedFd) -> io::Error {
    io::Error::from_raw_os_error(get(fd, libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0))
}

/// The beginning of `struct tcp_info` (include/uapi/linux/tcp.h of Linux 6.12), up to the last
/// field that this program reads.
#[repr(C)]
#[derive(Copy, Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct TcpInfo {
    pub state: u8,
    pub ca_state: u8,
    pub small: [u8; 4],
    pub bits: [u8; 2],
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last: [u32; 4],
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
}

// SAFETY: the structure consists of integers.
unsafe impl Plain for TcpInfo {}

/// Bit of [`TcpInfo::options`]: ECN was negotiated.
pub const ECN: u8 = 8;

impl TcpInfo {
    /// `tcpi_options`, bits.
    pub fn options(&self) -> u8 {
        self.small[3]
    }
}

/// Largest number of words of `TCP_CC_INFO`.
const CC_WORDS: usize = 5;

/// The `TCP_CC_INFO` of a socket in words of 32 bits; empty if the congestion control reports
/// nothing.
pub fn tcp_cc_info(fd: &OwnedFd) -> io::Result<Vec<u32>> {
    let found = get_sized::<[u32; CC_WORDS]>(fd, libc::IPPROTO_TCP, libc::TCP_CC_INFO);
    found.map(|(words, size)| words[..(size / size_of::<u32>()).min(CC_WORDS)].to_vec())
}

/// The `TCP_INFO` of a socket; fields that an older kernel does not know are zero.
pub fn tcp_info(fd: &OwnedFd) -> io::Result<TcpInfo> {
    get(fd, libc::IPPROTO_TCP, libc::TCP_INFO)
}
