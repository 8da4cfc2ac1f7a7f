//! The clock and the random numbers of quiche, which its interface does not accept as arguments.
//!
//! quiche calls `Instant::now` and BoringSSL's `RAND_bytes`. The linker replaces both in this
//! library only (`build.rs`, option `--wrap`): the monotonic clock returns the virtual time of the
//! run, and random numbers come from its seed. Each run has its own thread.

use narrows_adapter::{Nanos, random};
use std::cell::Cell;

/// Virtual time zero in seconds of the monotonic clock. It is above zero, because quiche subtracts
/// durations from instants.
const EPOCH: libc::time_t = 1_000_000;

thread_local! {
    static NOW: Cell<Nanos> = const { Cell::new(0) };
}

/// Sets the virtual time of this thread.
pub fn set_time(now: Nanos) {
    NOW.set(now);
}

unsafe extern "C" {
    fn __real_clock_gettime(clock: libc::clockid_t, to: *mut libc::timespec) -> libc::c_int;
}

/// `clock_gettime`, with virtual time as the monotonic clock.
///
/// # Safety
///
/// `to` points to a `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_clock_gettime(
    clock: libc::clockid_t,
    to: *mut libc::timespec,
) -> libc::c_int {
    if clock != libc::CLOCK_MONOTONIC {
        // SAFETY: as above.
        return unsafe { __real_clock_gettime(clock, to) };
    }
    let now = NOW.get();
    let time = libc::timespec {
        tv_sec: EPOCH + (now / 1_000_000_000) as libc::time_t,
        tv_nsec: (now % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: as above.
    unsafe { to.write(time) };
    0
}

/// `RAND_bytes`, with random numbers of the run.
///
/// # Safety
///
/// `to` has room for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_RAND_bytes(to: *mut u8, length: usize) -> libc::c_int {
    if length > 0 {
        // SAFETY: as above; the bytes are written before they are read.
        let bytes = unsafe {
            std::ptr::write_bytes(to, 0, length);
            std::slice::from_raw_parts_mut(to, length)
        };
        random::fill(bytes);
    }
    1
}
