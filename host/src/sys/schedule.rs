//! How the kernel serves a thread: its class, its niceness, its processors, its memory; and the
//! watchdog of those that come before everybody else. Thin, and unsafe code like [`crate::sys`].
//!
//! A real-time thread that never sleeps takes its processor from all ordinary ones, for 95 % of
//! every second (and for all of it where `kernel.sched_rt_runtime_us` is -1). So every process that
//! has one is told by the kernel when it has run for [`WATCHED`] without sleeping (RLIMIT_RTTIME,
//! getrlimit(2)): SIGXCPU, at which all of its real-time threads become ordinary ones again.
//! The kernel gives that signal to the thread that did not sleep. Where a process may not schedule
//! other threads than the one that calls (`serve::confine`), that thread alone becomes an ordinary
//! one. Should even that fail, the kernel ends the process after ten times as long.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// So long may a real-time thread run without sleeping, µs.
pub const WATCHED: u64 = 200_000;

fn answer(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// A class of threads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// Like everybody.
    Ordinary,
    /// Only when nobody else wants the processor.
    Idle,
    /// Before all ordinary ones, in turns among its equals; 1 to 99.
    RoundRobin(i32),
    /// Before all ordinary ones, until it sleeps; 1 to 99.
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
    /// Before all ordinary ones?
    pub fn is_real_time(self) -> bool {
        matches!(self, Class::RoundRobin(_) | Class::Fifo(_))
    }
}

/// This thread's number.
pub fn thread() -> i32 {
    // SAFETY: takes nothing; Linux numbers fit.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

fn set_class_of(thread: i32, class: Class) -> io::Result<()> {
    let (kind, priority) = class.number();
    // SAFETY: all zeros is a valid parameter.
    let mut param: libc::sched_param = unsafe { zeroed() };
    param.sched_priority = priority;
    // SAFETY: the parameter is valid for the call.
    answer(unsafe { libc::sched_setscheduler(thread, kind | libc::SCHED_RESET_ON_FORK, &param) })
}

/// The class of this thread.
pub fn class() -> Class {
    // SAFETY: all zeros is a valid parameter, which is valid for the call; 0 is this thread.
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

/// Threads that are watched at once.
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

/// How many threads the watchdog has made ordinary again.
pub fn called_off() -> u32 {
    CALLED_OFF.load(Relaxed)
}

/// The watchdog's hold on a thread.
#[derive(Debug)]
struct Watched(usize);

impl Watched {
    /// From now on this thread is watched.
    fn new() -> io::Result<Watched> {
        // SAFETY: the limit is valid for both calls; the handler stores to atomics and makes one
        // call of the kernel.
        unsafe {
            let mut limit: libc::rlimit = zeroed();
            answer(libc::getrlimit(libc::RLIMIT_RTTIME, &mut limit))?;
            limit.rlim_max = limit.rlim_max.min(10 * WATCHED);
            limit.rlim_cur = limit.rlim_max.min(WATCHED);
            libc::signal(
                libc::SIGXCPU,
                call_off as extern "C" fn(c_int) as libc::sighandler_t,
            );
            answer(libc::setrlimit(libc::RLIMIT_RTTIME, &limit))?;
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

/// What a thread was; dropping it makes it so again.
#[derive(Debug)]
pub struct Before {
    class: Class,
    watched: Option<Watched>,
}

/// From now on this thread is of that class.
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
        // Ordinary first: nobody watches a moment later.
        let _ = set_class_of(0, self.class);
        self.watched = None;
    }
}

/// The niceness of this thread.
pub fn nice() -> i32 {
    // SAFETY: takes numbers only; 0 is this thread. Of an error there is -1, which is a niceness,
    // too: it cannot fail here.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// From now on this thread is so nice: -20 to 19.
pub fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes numbers only; 0 is this thread.
    answer(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// Threads of this process may have that niceness later, without a privilege. Where that is not
/// permitted now, it is not then.
pub fn allow_niceness(nice: i32) {
    // SAFETY: the limit is valid for both calls. The limit is 20 less the least niceness
    // (setrlimit(2)).
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        if libc::getrlimit(libc::RLIMIT_NICE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_cur.max((20 - nice) as libc::rlim_t);
            limit.rlim_max = limit.rlim_max.max(limit.rlim_cur);
            libc::setrlimit(libc::RLIMIT_NICE, &limit);
        }
    }
}

/// Processors on which this thread may run.
pub fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: all zeros is a valid set, which is valid for the calls.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        answer(libc::sched_getaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &mut set,
        ))?;
        Ok((0..libc::CPU_SETSIZE as usize)
            .filter(|cpu| libc::CPU_ISSET(*cpu, &set))
            .collect())
    }
}

/// From now on this thread runs on these alone.
pub fn pin(processors: &[usize]) -> io::Result<()> {
    // SAFETY: all zeros is a valid set; what it has no room for is left out.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        for cpu in processors
            .iter()
            .filter(|cpu| **cpu < libc::CPU_SETSIZE as usize)
        {
            libc::CPU_SET(*cpu, &mut set);
        }
        answer(libc::sched_setaffinity(
            0,
            size_of::<libc::cpu_set_t>(),
            &set,
        ))
    }
}

/// All memory of this process, now and later, stays where it is.
pub fn lock_memory() -> io::Result<()> {
    // SAFETY: takes numbers only.
    answer(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
}

/// And no longer.
pub fn unlock_memory() {
    // SAFETY: takes nothing.
    unsafe { libc::munlockall() };
}
