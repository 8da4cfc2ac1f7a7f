//! Reads and writes of descriptors.

use super::{length, unless_empty};
use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Reads one packet; `None` if none is available.
pub fn read(fd: &OwnedFd, to: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the kernel writes at most `to.len()` bytes to the exclusively borrowed buffer.
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
    // SAFETY: both parts point to borrowed slices with their lengths; `writev` reads them and
    // writes nothing, so the cast to a mutable pointer has no effect.
    length(unsafe { libc::writev(fd.as_raw_fd(), parts.as_ptr(), 2) })
}

/// Sends one message; a closed connection is an error, not a signal.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads `bytes.len()` bytes of the borrowed slice.
    length(unsafe {
        libc::send(
            fd.as_raw_fd(),
            bytes.as_ptr().cast::<c_void>(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
        )
    })
}
