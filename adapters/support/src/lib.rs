//! Code that the adapters share.
//!
//! | module | contents |
//! |---|---|
//! | this one | the clock, and the amounts of data at both ends |
//! | `random` | random numbers of a protocol stack, from the seed of the run |
//! | `tls` | a fixed certificate, and TLS configurations whose messages have constant sizes |

#[cfg(feature = "seeded")]
pub mod random;
#[cfg(feature = "tls")]
pub mod tls;

use std::time::{Duration, Instant};

/// Nanoseconds since the start of the run.
pub type Nanos = u64;

/// Converts between the virtual time of a run and [`Instant`]. It holds the arbitrary instant that
/// stands for the start of the run.
#[derive(Copy, Clone, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock for which the start of the run is the present instant.
    pub fn new() -> Clock {
        Clock(Instant::now())
    }
    /// The instant that stands for `now`, a time of the run.
    pub fn instant(&self, now: Nanos) -> Instant {
        self.0 + Duration::from_nanos(now)
    }
    /// The time of the run for an instant; zero for instants before the start.
    pub fn nanos(&self, at: Instant) -> Nanos {
        let since = at.saturating_duration_since(self.0).as_nanos();
        Nanos::try_from(since).unwrap_or(Nanos::MAX)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Nanoseconds of a duration.
pub fn nanos(of: Duration) -> Nanos {
    Nanos::try_from(of.as_nanos()).unwrap_or(Nanos::MAX)
}

/// The data that an application writes in one call: zeros.
pub const CHUNK: &[u8] = &[0; 1 << 16];

/// The amount of data that one application sends.
#[derive(Copy, Clone, Debug, Default)]
pub struct Supply {
    /// Bytes that the application may write in total.
    pub offered: u64,
    /// Bytes that the application has written so far.
    pub written: u64,
}

impl Supply {
    /// The number of bytes to write next, at most the size of [`CHUNK`].
    pub fn next(&self) -> usize {
        let left = self.offered.saturating_sub(self.written);
        usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK.len())
    }
}
