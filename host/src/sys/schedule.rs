//! Scheduling of threads: class, niceness, allowed processors, memory locks, and a watchdog for
//! real-time threads.
//!
//! A real-time thread that never sleeps takes its processor from all ordinary threads for 95 % of
//! every second. If `kernel.sched_rt_runtime_us` is -1, it takes all of it. The kernel therefore
//! signals a process whose real-time thread has run for [`WATCHED`] without sleeping
//! (RLIMIT_RTTIME, getrlimit(2)) with SIGXCPU. The handler makes all real-time threads of the
//! process ordinary. The kernel sends the signal to the thread that did not sleep. Where a process
//! may schedule the calling thread only (`serve::confine`), that thread alone becomes ordinary. If
//! that fails too, the kernel ends the process after ten times as long.

use super::check;
use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// CPU time for which a real-time thread may run without sleeping, µs.
pub const WATCHED: u64 = 200_000;

/// A scheduling class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// `SCHED_OTHER`.
    Ordinary,
    /// `SCHED_IDLE`: runs when no other thread is ready.
    Idle,
    /// `SCHED_RR` with a priority of 1 to 99.
    RoundRobin(i32),
    /// `SCHED_FIFO` with a priority of 1 to 99.
    Fifo(i32),
}

impl Class {
    fn number(self) -> (c_int, i32) {
        match self {
            Class::Ordinary => (libc::SCHED_OTHER, 0),
            Class::Idle => (libc::SCHED_IDLE, 0),
            Class::RoundRobin(priority) => (libc::SCHED_RR, priority),
            Class::Fifo(priority) => (libc::SCHED_FIFO, priority),
        }
    }
    /// Whether it is a real-time class.
    pub fn is_real_time(self) -> bool {
        matches!(self, Class::RoundRobin(_) | Class::Fifo(_))
    }
}

/// The thread ID of this thread.
pub fn thread() -> i32 {
    // SAFETY: the call takes no arguments and cannot fail; thread IDs fit into 32 bits.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

fn set_class_of(thread: i32, class: Class) -> io::Result<()> {
    let (kind, priority) = class.number();
    // SAFETY: `sched_param` consists of integers, for which all zeros is a valid value.
    let mut param: libc::sched_param = unsafe { zeroed() };
    param.sched_priority = priority;
    // SAFETY: the kernel reads one `sched_param`, which outlives the call.
    check(unsafe { libc::sched_setscheduler(thread, kind | libc::SCHED_RESET_ON_FORK, &param) })
        .map(drop)
}

/// The class of this thread.
pub fn class() -> Class {
    // SAFETY: `sched_param` consists of integers, for which all zeros is a valid value; the kernel
    // writes one to `param`, which outlives the call. 0 is this thread.
    let (kind, priority) = unsafe {
        let mut param: libc::sched_param = zeroed();
        libc::sched_getparam(0, &mut param);
        (libc::sched_getscheduler(0), param.sched_priority)
    };
    match kind & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_RR => Class::RoundRobin(priority),
        libc::SCHED_FIFO => Class::Fifo(priority),
        libc::SCHED_IDLE => Class::Idle,
        _ => Class::Ordinary,
    }
}

/// Largest number of threads that are watched at the same time.
const MOST: usize = 64;
static WATCHED_THREADS: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
static CALLED_OFF: AtomicU32 = AtomicU32::new(0);

extern "C" fn call_off(_signal: c_int) {
    let own = thread();
    for place in &WATCHED_THREADS {
        let thread = place.load(Relaxed);
        // 0 is the thread that calls.
        let whom = if thread == own { 0 } else { thread };
        if thread != 0 && set_class_of(whom, Class::Ordinary).is_ok() {
            CALLED_OFF.fetch_add(1, Relaxed);
        }
    }
}

/// Number of times that the watchdog has made a thread ordinary.
pub fn called_off() -> u32 {
    CALLED_OFF.load(Relaxed)
}

/// The entry of a thread in the watchdog.
#[derive(Debug)]
struct Watched(usize);

impl Watched {
    /// Starts to watch this thread.
    fn new() -> io::Result<Watched> {
        // SAFETY: `rlimit` consists of integers, for which all zeros is a valid value; it outlives
        // both calls. The handler uses atomics and two system calls, which signal-safety(7) allows.
        unsafe {
            let mut limit: libc::rlimit = zeroed();
            check(libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit))?;
            limit.rlim_max = limit.rlim_max.min(10 * WATCHED as libc::rlim_t);
            limit.rlim_cur = limit.rlim_max.min(WATCHED as libc::rlim_t);
            libc::signal(
                libc::SIGXCPU,
                call_off as extern "C" fn(c_int) as libc::sighandler_t,
            );
            check(libc::setrlimit(libc::RLIMIT_RTTIME, &limit))?;
        }
        let own = thread();
        let free = |place: &AtomicI32| place.compare_exchange(0, own, Relaxed, Relaxed).is_ok();
        let place = WATCHED_THREADS.iter().position(free);
        place.map(Watched).ok_or_else(|| {
            io::Error::other(format!("{MOST} real-time threads are watched already"))
        })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        WATCHED_THREADS[self.0].store(0, Relaxed);
    }
}

/// The class of a thread before a change; dropping it restores the class.
#[derive(Debug)]
pub struct Before {
    class: Class,
    watched: Option<Watched>,
}

/// Changes the class of this thread.
pub fn enter(class: Class) -> io::Result<Before> {
    let before = self::class();
    let watched = class.is_real_time().then(Watched::new).transpose()?;
    set_class_of(0, class)?;
    Ok(Before {
        class: before,
        watched,
    })
}

impl Drop for Before {
    fn drop(&mut self) {
        // The class is restored before the watchdog ends.
        let _ = set_class_of(0, self.class);
        self.watched = None;
    }
}

/// The niceness of this thread.
pub fn nice() -> i32 {
    // SAFETY: the call takes integers; 0 is this thread, for which it cannot fail.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the niceness of this thread, -20 to 19.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: the call takes integers; 0 is this thread.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }).map(drop)
}

/// Raises the limit RLIMIT_NICE, so that threads of this process may use the niceness `nice` after
/// the process has dropped its privileges. If the process lacks the privilege now, nothing changes.
pub fn allow_niceness(nice: i32) {
    // The limit is 20 minus the niceness (setrlimit(2)).
    // SAFETY: `rlimit` consists of integers, for which all zeros is a valid value; it outlives both
    // calls.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        if libc::getrlimit(libc::RLIMIT_NICE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_cur.max((20 - nice) as libc::rlim_t);
            limit.rlim_max = limit.rlim_max.max(limit.rlim_cur);
            libc::setrlimit(libc::RLIMIT_NICE, &limit);
        }
    }
}

/// The processors on which this thread may run.
pub fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: `cpu_set_t` consists of integers, for which all zeros is a valid value; the kernel
    // writes at most its size, and indices below CPU_SETSIZE lie within it.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        check(libc::sched_getaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &mut set,
        ))?;
        Ok((0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect())
    }
}

/// Restricts this thread to these processors.
pub fn pin(processors: &[usize]) -> io::Result<()> {
    // SAFETY: `cpu_set_t` consists of integers, for which all zeros is a valid value; indices below
    // CPU_SETSIZE lie within it, and the kernel reads its size.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for cpu in processors
            .iter()
            .filter(|cpu| **cpu < libc::CPU_SETSIZE as usize)
        {
            libc::CPU_SET(*cpu, &mut set);
        }
        check(libc::sched_setaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &set,
        ))
        .map(drop)
    }
}

/// Locks all present and future memory of this process.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: the call takes integers only.
    check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) }).map(drop)
}

/// Unlocks the memory of this process.
pub fn unlock_memory() {
    // SAFETY: the call takes no arguments.
    unsafe { libc::munlockall() };
}

/// Gives this thread the real-time class `SCHED_FIFO` without a watchdog. Returns whether that is
/// permitted.
pub fn real_time(priority: i32) -> bool {
    set_class_of(0, Class::Fifo(priority)).is_ok()
}

/// Makes the timers of this thread exact, and sets its niceness. Returns whether the latter is
/// permitted.
pub fn prefer(nice: i32) -> bool {
    prefer_exact_timers();
    set_nice(nice).is_ok()
}

/// Sets the timer slack of this thread to 1 ns, which applies while it has an ordinary class.
pub fn prefer_exact_timers() {
    // SAFETY: the call takes integers only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
