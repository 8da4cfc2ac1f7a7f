//! The run's own clock: the core's time, which is zero when the run begins, on the kernel's even
//! clock.

use crate::sys;
use narrows_core::units::{Span, Time};

/// The run's own clock.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    zero: u64,
}

impl Clock {
    /// One that will be at zero `ahead` from now.
    pub fn starting_in(ahead: Span) -> Clock {
        Clock {
            zero: sys::monotonic() + ahead.as_ns(),
        }
    }
    /// Now; zero before it begins.
    pub fn now(&self) -> Time {
        Time::from_ns(sys::monotonic().saturating_sub(self.zero))
    }
    /// When a packet came that was stamped `stamp` by the kernel's clock for stamps; asked right
    /// after it came, before that clock can have been set.
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
