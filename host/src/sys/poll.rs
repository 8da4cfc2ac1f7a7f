//! Readiness of descriptors: `ppoll` and `epoll`.

use super::time::to_timespec;
use super::{check, length, owned, unless_empty};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

/// Whether the kernel lacks `epoll_pwait2`, so that waits have the resolution of milliseconds.
static COARSE: AtomicBool = AtomicBool::new(false);

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
        let n = if COARSE.load(Relaxed) {
            self.wait_coarsely(&mut events, timeout)
        } else {
            match self.wait_exactly(&mut events, timeout) {
                Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                    COARSE.store(true, Relaxed);
                    self.wait_coarsely(&mut events, timeout)
                }
                done => done,
            }
        };
        let n = unless_empty(n)?.unwrap_or(0);
        Ok(events[..n].iter().map(|e| (e.events, e.u64)).collect())
    }
    /// As [`wait`](Self::wait), with nanoseconds; Linux 5.11 and newer.
    fn wait_exactly(&self, events: &mut [libc::epoll_event], timeout: u64) -> io::Result<usize> {
        let timeout = [timeout / 1_000_000_000, timeout % 1_000_000_000];
        // SAFETY: the kernel writes at most `events.len()` entries to `events` and reads one
        // `__kernel_timespec`, which is two integers of 64 bits on every processor; the null
        // pointer leaves the signal mask unchanged.
        let n = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as c_int,
                timeout.as_ptr(),
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        length(n as isize)
    }
    /// As [`wait`](Self::wait), with milliseconds, rounded up.
    fn wait_coarsely(&self, events: &mut [libc::epoll_event], timeout: u64) -> io::Result<usize> {
        let timeout = c_int::try_from(timeout.div_ceil(1_000_000)).unwrap_or(c_int::MAX);
        // SAFETY: the kernel writes at most `events.len()` entries to `events`.
        let n = unsafe {
            libc::epoll_wait(
                self.0.as_raw_fd(),
                events.as_mut_ptr(),
                events.len() as c_int,
                timeout,
            )
        };
        length(n as isize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn both_waits_end_at_an_event_and_not_before_their_timeout() {
        let epoll = Epoll::new().expect("an instance");
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        for wait in [Epoll::wait_exactly, Epoll::wait_coarsely] {
            let begin = Instant::now();
            assert_eq!(wait(&epoll, &mut events, 1_500_000).ok(), Some(0));
            assert!(begin.elapsed().as_nanos() >= 1_500_000);
        }
        let (read, write) = std::io::pipe().expect("a pipe");
        let read = OwnedFd::from(read);
        epoll.add(&read, READABLE, 7).expect("a descriptor");
        std::io::Write::write_all(&mut &write, b"x").expect("a byte");
        for wait in [Epoll::wait_exactly, Epoll::wait_coarsely] {
            assert_eq!(wait(&epoll, &mut events, u64::MAX >> 1).ok(), Some(1));
            assert_eq!({ events[0].u64 }, 7);
        }
    }
}
