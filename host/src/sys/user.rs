//! User IDs and privileges of this process.

use super::check;
use std::ffi::c_int;
use std::io;
use std::os::fd::OwnedFd;

/// Effective user ID and group ID of this process.
pub fn ids() -> (u32, u32) {
    // SAFETY: the calls take no arguments and cannot fail.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Makes a user and a group the owner of a socket, as if that user had opened it. Routing and
/// firewall rules, and the sharing of ports, depend on the owner.
pub fn give(socket: &OwnedFd, uid: u32, gid: u32) -> io::Result<()> {
    std::os::unix::fs::fchown(socket, Some(uid), Some(gid))
}

/// Changes user and group of every thread of this process, and drops all supplementary groups.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let mut parent: c_int = 0;
    // SAFETY: the first call writes one integer to `parent`, which outlives it; `setgroups` reads
    // no entry of a list of length zero; the others take integers.
    unsafe {
        check(libc::prctl(libc::PR_GET_PDEATHSIG, &mut parent))?;
        check(libc::setgroups(0, std::ptr::null()))?;
        check(libc::setresgid(gid, gid, gid))?;
        check(libc::setresuid(uid, uid, uid))?;
        // The kernel clears the parent-death signal when the user changes.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, parent))?;
    }
    Ok(())
}

/// Prevents this thread and every program that it starts from gaining privileges by setuid bits or
/// file capabilities.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: the call takes integers only.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }).map(drop)
}
