//! The kernel's clocks, in nanoseconds.

/// The most seconds that a `timespec` holds; it has 32 bits for them on some processors.
const MOST_SECONDS: u64 = if size_of::<libc::timespec>() > 8 {
    i64::MAX as u64
} else {
    i32::MAX as u64
};

/// Converts ns to a `timespec`.
pub(crate) fn to_timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000).min(MOST_SECONDS) as _,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// Converts a `timespec` to ns.
pub(crate) fn from_timespec(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut now = to_timespec(0);
    // SAFETY: the kernel writes one `timespec` to `now`, which outlives the call.
    unsafe { libc::clock_gettime(clock, &mut now) };
    from_timespec(&now)
}

/// `CLOCK_MONOTONIC`, a clock that is never set, ns.
pub fn monotonic() -> u64 {
    let now = read_clock(libc::CLOCK_MONOTONIC);
    #[cfg(test)]
    let now = now + AHEAD.get();
    now
}

#[cfg(test)]
thread_local! {
    /// Time by which a test advances [`monotonic`] on its own thread, ns.
    pub static AHEAD: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// `CLOCK_REALTIME`, the clock of the kernel's packet timestamps, ns.
pub fn realtime() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// `CLOCK_BOOTTIME`, the time since the boot including suspension, ns.
pub fn since_boot() -> u64 {
    read_clock(libc::CLOCK_BOOTTIME)
}

/// CPU time of this thread, ns.
pub fn thread_cpu() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of this process, ns.
pub fn process_cpu() -> u64 {
    read_clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Ticks of the kernel per second (`CONFIG_HZ`), from the resolution of its coarse clock.
pub fn kernel_hz() -> u32 {
    let mut tick = to_timespec(0);
    // SAFETY: the kernel writes one `timespec` to `tick`, which outlives the call.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut tick) };
    let ns = from_timespec(&tick).max(1);
    (1_000_000_000 / ns) as u32
}

/// Sleeps until [`monotonic`] reaches `at`, or until a signal arrives.
pub fn sleep_until(at: u64) {
    let until = to_timespec(at);
    // SAFETY: the kernel reads one `timespec` from `until`, which outlives the call, and writes no
    // remainder to the null pointer.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &until,
            std::ptr::null_mut(),
        )
    };
}
