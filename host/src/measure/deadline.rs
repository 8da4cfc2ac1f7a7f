//! Reads from a TCP connection with a deadline for a whole message or object. The client of
//! `narrows measure` reads messages and objects only in this way.
//!
//! A time limit for each read would restart with every byte, so a server that sends single bytes
//! could delay the client forever. Waits are divided into slices of `SLICE`, after each of which
//! a request to stop is checked.

use crate::sys;
use crate::sys::socket;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Longest wait without a check for requests to stop, ns.
const SLICE: u64 = 50_000_000;

/// Why a wait or a read failed.
#[derive(Debug)]
pub enum ReadError {
    /// The user stopped the program, or the caller no longer needs the message.
    Stopped,
    /// The deadline has passed.
    TimedOut,
    /// The connection failed.
    Failed(io::Error),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> io::Error {
        match error {
            ReadError::Stopped => io::Error::other("stopped"),
            ReadError::TimedOut => io::Error::new(ErrorKind::TimedOut, "no answer in time"),
            ReadError::Failed(error) => error,
        }
    }
}

/// The deadline of a message or an object.
#[derive(Clone, Debug)]
pub struct Deadline {
    /// The deadline, ns of the monotonic clock.
    until: u64,
    /// A flag that becomes true when the message is no longer needed.
    unwanted: Option<Arc<AtomicBool>>,
    /// Whether a read was attempted. The first read returns data that has already arrived, even
    /// after the deadline.
    looked: bool,
}

impl Deadline {
    /// A deadline at a time of the monotonic clock, ns.
    pub fn at(until: u64) -> Deadline {
        Deadline {
            until,
            unwanted: None,
            looked: false,
        }
    }
    /// A deadline `ns` from now.
    pub fn within(ns: u64) -> Deadline {
        Deadline::at(sys::monotonic().saturating_add(ns))
    }
    /// Returns this deadline, which also passes when `unwanted` becomes true.
    pub fn unless(self, unwanted: &Arc<AtomicBool>) -> Deadline {
        Deadline {
            unwanted: Some(Arc::clone(unwanted)),
            ..self
        }
    }
    fn stopped(&self) -> bool {
        sys::stopped()
            || self
                .unwanted
                .as_ref()
                .is_some_and(|unwanted| unwanted.load(Relaxed))
    }
    /// Waits until a socket has completed its connection attempt.
    pub fn connected(&self, fd: &OwnedFd) -> Result<(), ReadError> {
        let epoll = sys::Epoll::new().map_err(ReadError::Failed)?;
        epoll.add(fd, sys::WRITABLE, 0).map_err(ReadError::Failed)?;
        loop {
            let now = sys::monotonic();
            if self.stopped() {
                return Err(ReadError::Stopped);
            }
            let slice = self.until.saturating_sub(now).min(SLICE);
            if !epoll.wait(slice).map_err(ReadError::Failed)?.is_empty() {
                return socket::error(fd).map_or(Ok(()), |error| Err(ReadError::Failed(error)));
            }
            if now >= self.until {
                return Err(ReadError::TimedOut);
            }
        }
    }
    /// Waits for bytes and reads them; returns 0 if the peer has closed the connection.
    pub fn read(&mut self, fd: &impl AsRawFd, to: &mut [u8]) -> Result<usize, ReadError> {
        loop {
            let now = sys::monotonic();
            if self.stopped() {
                return Err(ReadError::Stopped);
            }
            if self.looked && now >= self.until {
                return Err(ReadError::TimedOut);
            }
            self.looked = true;
            if let Some(n) = socket::read(fd, to).map_err(ReadError::Failed)? {
                return Ok(n);
            }
            if now < self.until {
                let _ = sys::wait_readable(&[fd.as_raw_fd()], (self.until - now).min(SLICE));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn pair() -> (OwnedFd, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        (near.into(), far)
    }

    #[test]
    fn bytes_do_not_postpone_a_deadline() {
        let (near, mut far) = pair();
        let mut deadline = Deadline::within(1_000_000_000);
        let mut byte = [0];
        far.write_all(b"ab").unwrap();
        assert_eq!(deadline.read(&near, &mut byte).unwrap(), 1);
        sys::AHEAD.set(2_000_000_000);
        // One byte has already arrived.
        assert!(matches!(
            deadline.read(&near, &mut byte),
            Err(ReadError::TimedOut)
        ));
        // After the deadline, data that has arrived is read once, and nothing more.
        let mut none = Deadline::within(0);
        assert_eq!(none.read(&near, &mut byte).unwrap(), 1);
        assert!(matches!(
            none.read(&near, &mut byte),
            Err(ReadError::TimedOut)
        ));
        assert!(matches!(
            Deadline::within(0).read(&near, &mut byte),
            Err(ReadError::TimedOut)
        ));
        sys::AHEAD.set(0);
    }

    #[test]
    fn what_nobody_wants_is_not_read() {
        let (near, mut far) = pair();
        let unwanted = Arc::new(AtomicBool::new(false));
        let mut deadline = Deadline::within(1_000_000_000).unless(&unwanted);
        let mut byte = [0];
        far.write_all(b"ab").unwrap();
        assert_eq!(deadline.read(&near, &mut byte).unwrap(), 1);
        unwanted.store(true, Relaxed);
        assert!(matches!(
            deadline.read(&near, &mut byte),
            Err(ReadError::Stopped)
        ));
    }
}
