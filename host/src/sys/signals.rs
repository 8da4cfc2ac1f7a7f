//! Requests to stop: SIGINT, SIGTERM and SIGHUP are recorded, so that a run can end regularly.

use super::{end_with_parent, monotonic};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);
/// Time (monotonic clock, tenths of a second) before which a further signal counts as a repetition
/// of the last request. The handler may only use atomics of the processor, and some 32-bit
/// processors have none of 64 bits.
static SAME_UNTIL: AtomicU32 = AtomicU32::new(0);
/// Time for which a further signal counts as a repetition of the same request, tenths of a second.
const SAME: u32 = 10;

/// The monotonic clock in tenths of a second.
fn tenths() -> u32 {
    u32::try_from(monotonic() / 100_000_000).unwrap_or(u32::MAX)
}

/// The last signal that arrived; 0: none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

extern "C" fn stop(signal: c_int) {
    if tenths() >= SAME_UNTIL.load(Ordering::Relaxed) {
        SIGNAL.store(signal, Ordering::Relaxed);
        STOPPED.store(true, Ordering::Relaxed);
    }
}

fn handle(signal: c_int) -> libc::sighandler_t {
    // SAFETY: the handler reads a clock and stores to atomics, which signal-safety(7) allows.
    unsafe { libc::signal(signal, stop as extern "C" fn(c_int) as libc::sighandler_t) }
}

/// Restores the default action of SIGTTOU, between fork and exec.
pub(super) fn default_sigttou() {
    // SAFETY: the call takes integers and is async-signal-safe.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_DFL) };
}

/// Makes this process, and children that it starts later, ignore `signals`.
pub(super) fn ignore(signals: &[c_int]) {
    for signal in signals {
        // SAFETY: the call takes integers; no handler runs.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// From now on SIGINT, SIGTERM and SIGHUP are recorded and have no other effect. With `tied` this
/// process also ends with its parent. A SIGHUP that was ignored before (`nohup`) stays ignored.
pub fn remember_signals(tied: bool) {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let before = handle(signal);
        if signal == libc::SIGHUP && before == libc::SIG_IGN {
            ignore(&[signal]);
        }
    }
    if tied {
        end_with_parent();
    }
}

/// From now on SIGTERM is recorded; the actions of the other signals do not change.
pub fn remember_end() {
    handle(libc::SIGTERM);
    STOPPED.store(false, Ordering::Relaxed);
}

/// Whether one of the recorded signals has arrived and was not acknowledged yet.
pub fn stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// The exit code of a process that was stopped: 128 plus the number of the signal; that of SIGINT
/// if none arrived.
pub fn stopped_code() -> u8 {
    /// Offset of the exit codes that shells use for signals.
    const SIGNALLED: c_int = 128;
    let signal = match SIGNAL.load(Ordering::Relaxed) {
        0 => libc::SIGINT,
        signal => signal,
    };
    u8::try_from(SIGNALLED + signal).unwrap_or(u8::MAX)
}

/// Acknowledges the request to stop, so that cleanup proceeds. A further signal counts as a new
/// request after one second: a terminal signals both this process and its parent, which forwards
/// the signal.
pub fn take_stop() {
    SAME_UNTIL.store(tenths().saturating_add(SAME), Ordering::Relaxed);
    STOPPED.store(false, Ordering::Relaxed);
}
