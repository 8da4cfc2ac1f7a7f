//! What the standard library does not offer of Linux: thin, and the only unsafe code. Times are in
//! nanoseconds.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`], [`kernel`] | the time of a run on the kernel's clock; the release and features of this kernel |
//! | [`process`], [`schedule`] | programs in namespaces of their own; scheduling classes |
//! | [`socket`], [`timed_socket`] | sockets of both families; kernel timestamps |
//! | [`netlink`], [`bpf`], [`seccomp_notify`] | devices and addresses; BPF programs; answered system calls |
#![allow(unsafe_code)]

pub mod bpf;
pub mod clock;
pub mod kernel;
pub mod netlink;
pub mod process;
pub mod schedule;
pub mod seccomp_notify;
pub mod socket;
pub mod timed_socket;

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// What a call of the kernel answered: negative is an error.
fn answer(result: c_int) -> io::Result<c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn length(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn owned(result: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a descriptor that the kernel has just given to us alone.
    answer(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Nothing there, or not yet: `None`.
fn unless_empty<T>(result: io::Result<T>) -> io::Result<Option<T>> {
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

fn spec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

fn from_spec(spec: &libc::timespec) -> u64 {
    spec.tv_sec as u64 * 1_000_000_000 + spec.tv_nsec as u64
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut now = spec(0);
    // SAFETY: `now` is valid for the call; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut now) };
    from_spec(&now)
}

/// The clock that runs evenly.
pub fn monotonic() -> u64 {
    let now = read_clock(libc::CLOCK_MONOTONIC);
    #[cfg(test)]
    let now = now + AHEAD.get();
    now
}

#[cfg(test)]
thread_local! {
    /// Time that a test lets pass on its own thread, ns.
    pub static AHEAD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// The clock that stamps packets.
pub fn realtime() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Processor time of this thread.
pub fn thread_cpu() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Processor time of this process.
pub fn process_cpu() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The kernel's ticks per second: its coarse clock moves with them.
pub fn kernel_hz() -> u32 {
    let mut tick = spec(0);
    // SAFETY: `tick` is valid for the call.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    let ns = from_spec(&tick).max(1);
    (1_000_000_000 / ns) as u32
}

/// Sleeps until the even clock shows `at`, or a signal comes.
pub fn sleep_until(at: u64) {
    let until = spec(at);
    // SAFETY: `until` is valid for the call; no remainder is wanted.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &until,
            std::ptr::null_mut(),
        )
    };
}

/// Waits until one of `fds` can be read, or for `timeout`.
pub fn wait_readable(fds: &[RawFd], timeout: u64) -> io::Result<()> {
    let mut list: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let timeout = spec(timeout);
    // SAFETY: the list and the time are valid for the call.
    let result = unsafe {
        libc::ppoll(
            list.as_mut_ptr(),
            list.len() as libc::nfds_t,
            &timeout,
            std::ptr::null(),
        )
    };
    unless_empty(answer(result)).map(drop)
}

/// This thread moves into a network namespace of its own, with nothing in it.
pub fn new_network() -> io::Result<()> {
    // SAFETY: only this thread is moved.
    answer(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// This process, while it has one thread, moves into a user namespace in which it has every
/// capability.
pub fn new_user() -> io::Result<()> {
    // SAFETY: takes numbers only.
    answer(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// This thread moves into the network namespace `ns`.
pub fn enter_network(ns: &OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor is open; only this thread is moved.
    answer(unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Who this process is: user and group.
pub fn ids() -> (u32, u32) {
    // SAFETY: these calls cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// A TUN device called `name` in this thread's namespace, with a header of offloads before each
/// packet. `super_packets`: it takes whole ones.
pub fn open_tun(name: &str, super_packets: bool) -> io::Result<OwnedFd> {
    let path = c"/dev/net/tun";
    // SAFETY: the path ends with a zero.
    let fd = owned(unsafe {
        libc::open(
            path.as_ptr(),
            libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC,
        )
    })?;
    // SAFETY: all zeros is a valid request.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IFNAMSIZ - 1))
    {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: the request is valid for the call, as are the numbers below.
    unsafe { answer(libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &mut request))? };
    let size: c_int = crate::emulator::frame::VNET as c_int;
    // SAFETY: as above.
    unsafe { answer(libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &size))? };
    let whole = libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    let offload = libc::TUN_F_CSUM | if super_packets { whole } else { 0 };
    // SAFETY: as above.
    unsafe {
        answer(libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(offload),
        ))?
    };
    Ok(fd)
}

/// The number of an interface of this thread's namespace.
pub fn interface(name: &std::ffi::CStr) -> io::Result<u32> {
    // SAFETY: the name ends with a zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// The kind of hardware of an interface of this thread's namespace (`ARPHRD_ETHER`, …), if it has a
/// hardware address.
pub fn hardware(name: &str) -> io::Result<Option<u16>> {
    let mut kind = None;
    entries(name, |address| {
        if c_int::from(address.sa_family) == libc::AF_PACKET {
            // SAFETY: an address of this family is such a structure.
            kind = Some(
                unsafe { &*std::ptr::from_ref(address).cast::<libc::sockaddr_ll>() }.sll_hatype,
            );
        }
    })?;
    Ok(kind)
}

/// The addresses of an interface of this thread's namespace.
pub fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut found = Vec::new();
    entries(name, |address| {
        let at = std::ptr::from_ref(address);
        // SAFETY: the address is of the family that it says.
        match c_int::from(address.sa_family) {
            libc::AF_INET => {
                let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
                found.push(Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes()).into());
            }
            libc::AF_INET6 => {
                let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
                found.push(Ipv6Addr::from(v6.sin6_addr.s6_addr).into());
            }
            _ => {}
        }
    })?;
    Ok(found)
}

/// Every address of an interface of this thread's namespace, of whatever family.
fn entries(name: &str, mut each: impl FnMut(&libc::sockaddr)) -> io::Result<()> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the list is the C library's until it is given back below.
    answer(unsafe { libc::getifaddrs(&mut first) })?;
    let mut next = first;
    // SAFETY: each entry ends with the next one or with nothing; its name ends with a zero.
    unsafe {
        while let Some(entry) = next.as_ref() {
            next = entry.ifa_next;
            let Some(address) = entry.ifa_addr.as_ref() else {
                continue;
            };
            if std::ffi::CStr::from_ptr(entry.ifa_name).to_bytes() != name.as_bytes() {
                continue;
            }
            each(address);
        }
        libc::freeifaddrs(first);
    }
    Ok(())
}

/// The address from which this host would send to `to`; nothing is sent.
pub fn source_towards(to: SocketAddr) -> io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(any)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

/// What ethtool asks of a device, by number: the answer's words, the command itself the first.
pub fn ethtool(name: &str, command: u32, words: usize) -> io::Result<Vec<u32>> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    // Longer than any answer that this program asks for: the kernel writes as much as the command
    // has.
    let mut told = vec![0_u32; words.max(64)];
    told[0] = command;
    // SAFETY: all zeros is a valid request; the answer has room and lives until the end of this
    // function.
    unsafe {
        let mut request: libc::ifreq = zeroed();
        for (to, from) in request
            .ifr_name
            .iter_mut()
            .zip(name.bytes().take(libc::IFNAMSIZ - 1))
        {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = told.as_mut_ptr().cast();
        answer(libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCETHTOOL as _,
            &mut request,
        ))?;
    }
    told.truncate(words);
    Ok(told)
}

/// Reads one packet; `None` when there is none.
pub fn read(fd: &OwnedFd, to: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the buffer is valid for its length.
    unless_empty(length(unsafe {
        libc::read(fd.as_raw_fd(), to.as_mut_ptr().cast::<c_void>(), to.len())
    }))
}

/// Writes one packet of two parts.
pub fn write(fd: &OwnedFd, head: &[u8], payload: &[u8]) -> io::Result<usize> {
    let part = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(),
        iov_len: bytes.len(),
    };
    let parts = [part(head), part(payload)];
    // SAFETY: both parts are valid for their length, and the kernel only reads them.
    length(unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), 2) })
}

/// A netlink socket of a protocol in this thread's namespace.
pub fn netlink(protocol: c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    })
}

/// Sends one message.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes are valid for their length.
    length(unsafe {
        libc::send(
            fd.as_raw_fd(),
            bytes.as_ptr().cast::<c_void>(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
        )
    })
}

/// This thread is served before all ordinary ones, if that is permitted: its real-time class.
pub fn real_time(priority: i32) -> bool {
    // SAFETY: all zeros is a valid parameter.
    let mut param: libc::sched_param = unsafe { zeroed() };
    param.sched_priority = priority;
    // SAFETY: the parameter is valid for the call; 0 is this thread.
    unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &param) == 0
    }
}

/// This thread is nicer (or less nice) than others, if that is permitted; its timers are exact.
pub fn prefer(nice: i32) -> bool {
    // SAFETY: takes numbers only; 0 is this thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0
    }
}

/// The timers of this thread are exact, as long as it is an ordinary one.
pub fn prefer_exact_timers() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

static STOPPED: AtomicBool = AtomicBool::new(false);
/// Up to when one more request to stop is the same one, ns of the even clock.
static SAME_UNTIL: AtomicU64 = AtomicU64::new(0);
/// For so long, ns.
const SAME: u64 = 1_000_000_000;

/// The last of the signals that have come; 0: none has.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn stop(signal: c_int) {
    if monotonic() >= SAME_UNTIL.load(Ordering::Relaxed) {
        SIGNAL.store(signal, Ordering::Relaxed);
        STOPPED.store(true, Ordering::Relaxed);
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP are remembered and not obeyed; `tied`: and this process
/// ends with its parent. A SIGHUP that was ignored before (`nohup`) stays ignored.
pub fn remember_signals(tied: bool) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe {
            let before = libc::signal(signal, stop as extern "C" fn(c_int) as libc::sighandler_t);
            if signal == libc::SIGHUP && before == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
    if tied {
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    }
}

/// Of those, SIGTERM alone is remembered; what is done about the others stays.
pub fn remember_end() {
    // SAFETY: the handler only stores to an atomic.
    unsafe {
        libc::signal(
            libc::SIGTERM,
            stop as extern "C" fn(c_int) as libc::sighandler_t,
        )
    };
    STOPPED.store(false, Ordering::Relaxed);
}

/// This process ends with the one that started it.
pub fn end_with_parent() {
    // SAFETY: takes numbers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// Has one of the signals come?
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// The exit code of a process that was stopped: 128 and the number of the signal; of Ctrl-C where
/// none came.
pub fn stopped_code() -> u8 {
    /// Exit codes of a program that a signal ended, as shells have them, begin behind this.
    const SIGNALLED: c_int = 128;
    let signal = match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGINT,
        signal => signal,
    };
    u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX)
}

/// The request to stop has been seen, and what follows is to be done in peace. One more is obeyed
/// again, but not at once: a terminal tells this process, and its parent, which tells it once more.
pub fn take_stop() {
    SAME_UNTIL.store(monotonic() + SAME, Ordering::Relaxed);
    STOPPED.store(false, Ordering::Relaxed);
}

/// What to wait for of many descriptors.
pub struct Epoll(OwnedFd);

/// It can be read.
pub const READABLE: u32 = libc::EPOLLIN as u32;
/// It can be written to.
pub const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// It is broken.
pub const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

impl Epoll {
    /// One that fails: a descriptor of something else.
    #[cfg(test)]
    pub fn broken() -> Epoll {
        Epoll(
            std::fs::File::open("/dev/null")
                .expect("it is always there")
                .into(),
        )
    }
    /// Waits for nothing yet.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: takes numbers only.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }
    fn control(&self, what: c_int, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the event is valid for the call.
        answer(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd.as_raw_fd(), &mut event) })
            .map(drop)
    }
    /// From now on `events` of `fd` are told as `token`.
    pub fn add(&self, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }
    /// Other events of it.
    pub fn change(&self, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }
    /// Nothing of it any more.
    pub fn remove(&self, fd: &OwnedFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }
    /// What has happened within `timeout`: events and token of each.
    pub fn wait(&self, timeout: u64) -> io::Result<Vec<(u32, u64)>> {
        const MOST: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let timeout = spec(timeout);
        // SAFETY: the events and the time are valid for the call; no signals are masked.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                MOST as c_int,
                &timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let n = unless_empty(length(n as isize))?.unwrap_or(0);
        Ok(events[..n].iter().map(|e| (e.events, e.u64)).collect())
    }
}

fn set<T>(fd: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
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

fn address(of: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(of.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

const ADDRESS: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

/// A TCP socket of this thread's namespace that does not block, at an address of its own.
pub fn tcp(at: SocketAddrV4) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: takes numbers only.
    let fd = owned(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    set(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32)?;
    let at = address(at);
    // SAFETY: the address is valid for its size.
    answer(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&at).cast(), ADDRESS) })?;
    Ok(fd)
}

/// Chooses the congestion control of a socket by name.
pub fn choose_cc(fd: &OwnedFd, name: &str) -> io::Result<()> {
    let bytes = name.as_bytes();
    let size = bytes.len() as libc::socklen_t;
    // SAFETY: the name is valid for its size.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            bytes.as_ptr().cast(),
            size,
        )
    };
    answer(result).map(drop)
}

/// The application of a socket is asked for more while less than `bytes` waits unsent.
pub fn set_notsent_lowat(fd: &OwnedFd, bytes: u32) -> io::Result<()> {
    set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes)
}

/// The differentiated-services code point of a socket's packets.
pub fn set_dscp(fd: &OwnedFd, dscp: u8) -> io::Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_TOS, &(i32::from(dscp) << 2))
}

/// Closing a socket ends its connection at once.
pub fn set_reset(fd: &OwnedFd) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    set(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger)
}

/// Datagrams come with the time at which they came.
pub fn set_stamps(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the value is valid for its size.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            std::ptr::from_ref(&1_i32).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    answer(result).map(drop)
}

/// Begins to connect.
pub fn connect(fd: &OwnedFd, to: SocketAddrV4) -> io::Result<()> {
    let to = address(to);
    // SAFETY: the address is valid for its size.
    match answer(unsafe { libc::connect(fd.as_raw_fd(), std::ptr::from_ref(&to).cast(), ADDRESS) })
    {
        Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
        _ => Ok(()),
    }
}

/// Takes connections.
pub fn listen(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes numbers only.
    answer(unsafe { libc::listen(fd.as_raw_fd(), 16) }).map(drop)
}

/// The next connection, if there is one.
pub fn accept(fd: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: nobody wants to know the address.
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

/// Writes to a socket as much as it takes; `None` when it takes nothing now.
pub fn send_some(fd: &OwnedFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    match send(fd, bytes) {
        Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(None),
        other => unless_empty(other),
    }
}

/// Throws away up to `most` bytes that have come; `None` when there are none yet, 0 at the end.
pub fn discard(fd: &OwnedFd, most: usize) -> io::Result<Option<usize>> {
    // SAFETY: with MSG_TRUNC the kernel writes nothing to where the pointer points.
    unless_empty(length(unsafe {
        libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most, libc::MSG_TRUNC)
    }))
}

/// Bytes of a TCP socket that are not acknowledged.
pub fn unacknowledged(fd: &OwnedFd) -> io::Result<u64> {
    let mut bytes: c_int = 0;
    // SAFETY: the number is valid for the call.
    answer(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) })?;
    Ok(bytes.max(0) as u64)
}

/// Bytes of a TCP socket that were not sent yet.
pub fn unsent(fd: &OwnedFd) -> io::Result<u64> {
    /// `SIOCOUTQNSD`, which libc does not name.
    const UNSENT: libc::c_ulong = 0x894b;
    let mut bytes: c_int = 0;
    // SAFETY: the number is valid for the call.
    answer(unsafe { libc::ioctl(fd.as_raw_fd(), UNSENT, &mut bytes) })?;
    Ok(bytes.max(0) as u64)
}

/// What went wrong with a socket.
pub fn error_of(fd: &OwnedFd) -> io::Error {
    let (mut code, mut size): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: both are valid for the call.
    unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            std::ptr::from_mut(&mut code).cast(),
            &mut size,
        )
    };
    io::Error::from_raw_os_error(code)
}

/// `TCP_INFO` as the kernel lays it out (include/uapi/linux/tcp.h of Linux 6.12), up to what is
/// needed here.
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

/// Of [`TcpInfo::options`]: congestion is notified on this connection.
pub const ECN: u8 = 8;

impl TcpInfo {
    /// `tcpi_options`, bits.
    pub fn options(&self) -> u8 {
        self.small[3]
    }
}

/// What a TCP socket says of itself.
pub fn tcp_info(fd: &OwnedFd) -> io::Result<TcpInfo> {
    let mut info = TcpInfo::default();
    let mut size = size_of::<TcpInfo>() as libc::socklen_t;
    // SAFETY: plain numbers, valid for their size; an older kernel fills fewer of them.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            std::ptr::from_mut(&mut info).cast(),
            &mut size,
        )
    };
    answer(result).map(|_| info)
}

/// The next datagram and when the kernel got it, on its clock for stamps; `None` when there is
/// none.
pub fn receive_stamped(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<Option<(usize, u64)>> {
    let mut part = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let mut control = [0_u64; 16];
    // SAFETY: all zeros is a valid header.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: everything that the header points to lives until the end of this function.
    let received = unsafe { libc::recvmsg(fd.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    let Some(n) = unless_empty(length(received))? else {
        return Ok(None);
    };
    let mut stamp = realtime();
    // SAFETY: the kernel has filled the control messages, and `CMSG_NXTHDR` stays among them.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(&message);
        while let Some(header) = next.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                stamp = from_spec(
                    &libc::CMSG_DATA(next)
                        .cast::<libc::timespec>()
                        .read_unaligned(),
                );
            }
            next = libc::CMSG_NXTHDR(&message, next);
        }
    }
    Ok(Some((n, stamp)))
}

/// A socket as if that user had opened it.
pub fn give(socket: &OwnedFd, uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    answer(unsafe { libc::fchown(socket.as_raw_fd(), uid, gid) }).map(drop)
}

/// Becomes that user and group, in no other group, in every thread.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let mut parent: c_int = 0;
    // SAFETY: a number to write into, an empty list, then numbers only.
    unsafe {
        answer(libc::prctl(libc::PR_GET_PDEATHSIG, &mut parent))?;
        answer(libc::setgroups(0, std::ptr::null()))?;
        answer(libc::setresgid(gid, gid, gid))?;
        answer(libc::setresuid(uid, uid, uid))?;
        // The kernel forgets it with the user: a process that is tied to its parent stays so.
        answer(libc::prctl(libc::PR_SET_PDEATHSIG, parent))?;
    }
    Ok(())
}

/// No program that this process starts may have more privileges than it has.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: takes numbers only.
    answer(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(|_| ())
}

/// A call by its number, with up to six arguments; those that are not given are zeros.
#[cfg(test)]
pub fn call_for_test(number: libc::c_long, arguments: &[usize]) -> io::Result<libc::c_long> {
    let [a, b, c, d, e, f] = std::array::from_fn(|i| arguments.get(i).copied().unwrap_or(0));
    // SAFETY: the tests that use it pass arguments that the kernel refuses before it acts on them.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
