//! Calls for files and directories relative to an open directory (`openat` and related ones), which
//! never follow a symbolic link, and advisory locks.
//!
//! The standard library has no calls relative to a directory, and none for locks before Rust 1.89.

use super::{c_string, check, owned};
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Opens `name` in `dir`. A symbolic link fails with ELOOP, or ENOTDIR with `O_DIRECTORY`.
pub fn open_at(dir: &OwnedFd, name: &str, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    let name = c_string(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: `name` is a C string that outlives the call.
    owned(unsafe { libc::openat(dir.as_raw_fd(), name.as_ptr(), flags, mode as libc::c_uint) })
}

/// Opens the file `name` in `dir` for reading.
pub fn open_file(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    open_at(dir, name, libc::O_RDONLY, 0)
}

/// Creates the directory `name` in `dir`.
pub fn make_directory_at(dir: &OwnedFd, name: &str, mode: u32) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` is a C string that outlives the call.
    check(unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) }).map(drop)
}

/// Renames `from` to `to`, both in `dir`, and replaces `to`.
pub fn rename_at(dir: &OwnedFd, from: &str, to: &str) -> io::Result<()> {
    let (from, to) = (c_string(from)?, c_string(to)?);
    let fd = dir.as_raw_fd();
    // SAFETY: both names are C strings that outlive the call.
    check(unsafe { libc::renameat(fd, from.as_ptr(), fd, to.as_ptr()) }).map(drop)
}

/// Removes the file `name` in `dir`, or with `AT_REMOVEDIR` the empty directory.
pub fn unlink_at(dir: &OwnedFd, name: &str, flags: c_int) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: `name` is a C string that outlives the call.
    check(unsafe { libc::unlinkat(dir.as_raw_fd(), name.as_ptr(), flags) }).map(drop)
}

/// Locks an open file (`LOCK_SH` or `LOCK_EX`; with `LOCK_NB`, fails instead of waiting). The lock
/// ends when the last descriptor of the open file is closed.
pub fn lock(file: &impl AsFd, kind: c_int) -> io::Result<()> {
    // SAFETY: the call takes integers; the descriptor is borrowed and open.
    check(unsafe { libc::flock(file.as_fd().as_raw_fd(), kind) }).map(drop)
}

/// Whether an open file belongs to `/proc`.
#[allow(clippy::unnecessary_cast)] // The two types differ in width on 32-bit targets.
pub fn is_proc(file: &File) -> bool {
    // SAFETY: `statfs` consists of integers, for which all zeros is a valid value.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `statfs` to `about`, which outlives the call.
    let done = unsafe { libc::fstatfs(file.as_raw_fd(), &mut about) };
    done == 0 && about.f_type as i64 == libc::PROC_SUPER_MAGIC as i64
}
