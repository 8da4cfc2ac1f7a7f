//! Calls that the first process of a virtual machine needs: mounting file systems, replacing
//! standard streams, power-off.

use super::{c_string, check};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

/// Mounts a file system of the type `kind` at `place`. `data` are its options.
pub fn mount(kind: &str, place: &str, data: &str) -> io::Result<()> {
    let (kind, place, data) = (c_string(kind)?, c_string(place)?, c_string(data)?);
    // SAFETY: all four are C strings that outlive the call; the kernel reads `data` as text for the
    // file systems that this program mounts.
    check(unsafe {
        libc::mount(
            kind.as_ptr(),
            place.as_ptr(),
            kind.as_ptr(),
            0,
            data.as_ptr().cast::<c_void>(),
        )
    })
    .map(drop)
}

/// Makes the file system mounted at `place` the root of this process, and detaches the former one.
pub fn become_root(place: &str) -> io::Result<()> {
    std::env::set_current_dir(place)?;
    // SAFETY: both paths are C strings with static lifetime. The former root is mounted over the
    // new one, where the second call detaches it (pivot_root(2), section Notes).
    unsafe {
        let here = c".".as_ptr();
        check(libc::syscall(libc::SYS_pivot_root, here, here) as i32)?;
        check(libc::umount2(here, libc::MNT_DETACH))?;
    }
    std::env::set_current_dir("/")
}

/// Makes `file` the standard stream `stream`: 0 for input, 1 for output, 2 for errors.
pub fn become_stream(file: &File, stream: i32) -> io::Result<()> {
    // SAFETY: both are descriptors; the standard library does not close those of the standard
    // streams, so nothing else refers to the replaced one.
    check(unsafe { libc::dup2(file.as_raw_fd(), stream) }).map(drop)
}

/// Writes everything to the disks and switches the virtual machine off. Returns only if the kernel
/// refuses.
pub fn power_off() -> ExitCode {
    // SAFETY: both calls take no pointers. The caller is the first process of a virtual machine,
    // so the call does not affect the host.
    unsafe {
        libc::sync();
        libc::reboot(libc::LINUX_REBOOT_CMD_POWER_OFF);
    }
    ExitCode::FAILURE
}
