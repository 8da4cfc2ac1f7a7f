//! Readiness of descriptors: `ppoll` and `epoll`.

use super::time::to_timespec;
use super::{check, length, owned, unless_empty};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Waits until a requested event or an error occurs on a descriptor of `list`, for at most
/// `timeout` ns. A signal also ends the wait.
pub(crate) fn poll(list: &mut [libc::pollfd], timeout: u64) -> io::Result<()> {
    let timeout = to_timespec(timeout);
    // SAFETY: the kernel reads and writes the `list.len()` entries of the exclusively borrowed
    // slice and reads one `timespec`; the null pointer leaves the signal mask unchanged.
    let result = unsafe {
        libc::ppoll(
            list.as_mut_ptr(),
            list.len() as libc::nfds_t,
            &timeout,
            std::ptr::null(),
        )
    };
    unless_empty(check(result)).map(drop)
}

/// An entry of a list for [`poll`]: waits for data to read.
pub(crate) fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits until one of `fds` is readable, at most for `timeout` ns or until a signal arrives.
pub fn wait_readable(fds: &[RawFd], timeout: u64) -> io::Result<()> {
    let mut list: Vec<libc::pollfd> = fds.iter().map(|fd| readable(*fd)).collect();
    poll(&mut list, timeout)
}

/// An epoll instance.
pub struct Epoll(OwnedFd);

/// The descriptor is readable.
pub const READABLE: u32 = libc::EPOLLIN as u32;
/// The descriptor is writable.
pub const WRITABLE: u32 = libc::EPOLLOUT as u32;
/// The descriptor has an error, or the connection is closed in both directions.
pub const BROKEN: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

impl Epoll {
    /// An instance on which every call fails, because its descriptor is none of epoll.
    #[cfg(test)]
    pub fn broken() -> Epoll {
        Epoll(
            std::fs::File::open("/dev/null")
                .expect("every Linux has /dev/null")
                .into(),
        )
    }
    /// An instance without descriptors.
    pub fn new() -> io::Result<Epoll> {
        // SAFETY: the call takes an integer only.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Epoll)
    }
    fn control(&self, what: c_int, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        // SAFETY: the kernel copies `event` during the call; both descriptors are borrowed and
        // open.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd.as_raw_fd(), &mut event) })
            .map(drop)
    }
    /// Adds `fd`; its `events` are reported with `token`.
    pub fn add(&self, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, token)
    }
    /// Changes the events of `fd`.
    pub fn change(&self, fd: &OwnedFd, events: u32, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, token)
    }
    /// Removes `fd`.
    pub fn remove(&self, fd: &OwnedFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0)
    }
    /// Waits for events, at most for `timeout` ns or until a signal arrives. Returns the events and
    /// the token of each descriptor.
    pub fn wait(&self, timeout: u64) -> io::Result<Vec<(u32, u64)>> {
        const MAX_EVENTS: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MAX_EVENTS];
        let timeout = to_timespec(timeout);
        // SAFETY: the kernel writes at most `MAX_EVENTS` entries to `events` and reads one
        // `timespec`; the null pointer leaves the signal mask unchanged.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                MAX_EVENTS as c_int,
                &timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        let n = unless_empty(length(n as isize))?.unwrap_or(0);
        Ok(events[..n].iter().map(|e| (e.events, e.u64)).collect())
    }
}
