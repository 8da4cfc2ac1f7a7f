//! Network and user namespaces of this thread.

use super::{check, socket};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Moves this thread into a new, empty network namespace.
pub fn new_network() -> io::Result<()> {
    // SAFETY: the call takes an integer and changes the namespace of the calling thread only.
    check(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Moves this process into a new user namespace, in which it has every capability. The process must
/// have one thread.
pub fn new_user() -> io::Result<()> {
    // SAFETY: the call takes an integer; the kernel rejects it in a process with several threads.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER) }).map(drop)
}

/// Moves this thread into the network namespace `ns`.
pub fn enter_network(ns: &OwnedFd) -> io::Result<()> {
    // SAFETY: the borrowed descriptor stays open during the call, which changes the namespace of
    // the calling thread only.
    check(unsafe { libc::setns(ns.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// The cookie of this thread's network namespace, which is unique within a boot. `None` before
/// Linux 5.14.
pub fn network_cookie() -> Option<u64> {
    let fd = OwnedFd::from(std::os::unix::net::UnixDatagram::unbound().ok()?);
    socket::get(&fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE).ok()
}
