//! A device whose queue discipline releases a packet only on request.
//!
//! Frames are sent to its queue discipline by a packet socket. Each read of the device requests the
//! next frame. This requires a kernel built by `narrows kernel build`: there, a TAP device with
//! `IFF_ONE_QUEUE` takes one frame from its discipline per read. Other kernels ignore the flag.

use super::{check, io as calls, owned, poll, socket};
use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Linux 6.12 `include/uapi/linux/if_tun.h`.
const IFF_ONE_QUEUE: c_int = 0x2000;
/// Send buffer of the packet socket, bytes: more than the frames in any queue discipline need.
const MEMORY: c_int = 1 << 30;

/// A device with its queue discipline.
#[derive(Debug)]
pub struct Gate {
    device: OwnedFd,
    socket: Option<OwnedFd>,
    priority: c_int,
}

impl Gate {
    /// Creates the device `name` in this thread's namespace.
    pub fn new(name: &str) -> io::Result<Gate> {
        let flags = libc::IFF_TAP | libc::IFF_NO_PI | IFF_ONE_QUEUE;
        let device = super::device::open(name, flags)?;
        Ok(Gate {
            device,
            socket: None,
            priority: 0,
        })
    }
    /// Opens the packet socket by which frames are enqueued. The device, with this `index`, must be
    /// up.
    pub fn open(&mut self, index: u32) -> io::Result<()> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: the call takes integers only.
        let fd = owned(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        socket::set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &MEMORY)?;
        // SAFETY: `sockaddr_ll` consists of integers, for which all zeros is a valid value.
        let mut to: libc::sockaddr_ll = unsafe { zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index as c_int;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the kernel reads one `sockaddr_ll`, which outlives the call.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const to).cast(), length) })?;
        self.socket = Some(fd);
        Ok(())
    }
    /// The descriptor that becomes readable when a frame leaves that was requested before.
    pub fn fd(&self) -> RawFd {
        self.device.as_raw_fd()
    }
    /// Sets the priority (`SO_PRIORITY`) of the next frames.
    pub fn prioritize(&mut self, priority: c_int) -> io::Result<()> {
        match &self.socket {
            Some(fd) if self.priority != priority => {
                self.priority = priority;
                socket::set(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, &priority)
            }
            _ => Ok(()),
        }
    }
    /// Enqueues a frame; returns `false` if the discipline rejects it.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        let Some(fd) = &self.socket else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        match calls::send(fd, frame) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(false),
            Err(error) => Err(error),
        }
    }
    /// Requests the next frame and reads its beginning to `to`; `None` if the discipline has no
    /// frame that may leave now.
    pub fn receive(&self, to: &mut [u8]) -> io::Result<Option<usize>> {
        calls::read(&self.device, to)
    }
}

/// Waits until one of `fds` is readable, at most for `timeout` ns. Returns for each of them whether
/// it is readable.
pub fn wait_which(fds: &[RawFd], timeout: u64) -> io::Result<Vec<bool>> {
    let mut list: Vec<libc::pollfd> = fds.iter().map(|fd| poll::readable(*fd)).collect();
    poll::poll(&mut list, timeout)?;
    Ok(list.iter().map(|entry| entry.revents != 0).collect())
}
