//! The clock of a run: it derives the time of the core, which is zero at the beginning of the run,
//! from `CLOCK_MONOTONIC`.

use crate::sys;
use narrows_core::units::{Span, Time};

/// The clock of a run.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    zero: u64,
}

impl Clock {
    /// A clock that reaches zero after `ahead`.
    pub fn starting_in(ahead: Span) -> Clock {
        Clock {
            zero: sys::monotonic() + ahead.as_ns(),
        }
    }
    /// The present time; zero before the run begins.
    pub fn now(&self) -> Time {
        Time::from_ns(sys::monotonic().saturating_sub(self.zero))
    }
    /// Converts a packet's timestamp (`CLOCK_REALTIME`, ns). It must be called right after the
    /// packet arrived, since the realtime clock may be set later.
    pub fn of_stamp(&self, stamp: u64) -> Time {
        let ago = sys::realtime().saturating_sub(stamp);
        Time::from_ns(
            sys::monotonic()
                .saturating_sub(ago)
                .saturating_sub(self.zero),
        )
    }
    /// Sleeps until `at`.
    pub fn sleep_until(&self, at: Time) {
        sys::sleep_until(self.zero.saturating_add(at.as_ns()));
    }
}
