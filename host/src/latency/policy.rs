//! Scheduling policies of a thread of a latency test. A policy consists of parts joined by `+`.
//!
//! | part | effect | requires |
//! |---|---|---|
//! | `default` | none | nothing |
//! | `nice`, `nice=N` | niceness -20, or N | root or RLIMIT_NICE |
//! | `rr`, `rr=N` | SCHED_RR with priority 99, or N | root or RLIMIT_RTPRIO |
//! | `fifo`, `fifo=N` | SCHED_FIFO with priority 99, or N | root or RLIMIT_RTPRIO |
//! | `lock` | memory that is never paged out (mlockall) | root or RLIMIT_MEMLOCK |
//! | `pin=N` | only processor N, even if it is busy | nothing |
//! | `busy=50us` | the socket polls its device before it sleeps (SO_BUSY_POLL) | NAPI |
//! | `spin` | the thread never sleeps and occupies a processor | nothing |
//! | `awake` | processors do not halt, which needs power | /dev/cpu_dma_latency, or nothing |
//!
//! **Awake.** A halted processor needs time to wake up. If a cpuidle driver selects idle states, a
//! zero written to /dev/cpu_dma_latency forbids deep states
//! (Documentation/power/pm_qos_interface.rst). Most virtual machines have no such driver, and their
//! processors halt nevertheless. There, one thread per processor runs in the idle scheduling class,
//! which yields to every other thread.
//!
//! **Starvation.** A real-time class cannot be combined with `spin`. Each real-time thread is
//! watched ([`crate::sys::schedule`]): if it does not sleep for 200 ms, it becomes an ordinary
//! thread, and the result reports this.
//!
//! A policy that is not permitted is rejected with a message before the measurement begins.

use crate::HostError;
use crate::sys::idle::{self, Held};
use crate::sys::schedule::{self, Class};
use crate::sys::socket;
use narrows_core::units::parse_span;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// The names of the parts, for messages.
const PARTS: &str = "default nice rr fifo lock pin=N busy=50us spin awake";
/// The highest real-time priority.
const URGENT: i32 = 99;
/// The longest busy poll, µs; for a longer one use `spin`.
const BUSY: u64 = 1000;
/// `SO_BUSY_POLL` of asm-generic/socket.h.
const SO_BUSY_POLL: libc::c_int = 46;

/// A policy that a thread can enter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    text: String,
    class: Class,
    nice: Option<i32>,
    lock: bool,
    pin: Option<usize>,
    /// Time for which the socket polls its device, µs.
    busy: Option<u32>,
    spin: bool,
    awake: bool,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            text: "default".into(),
            class: Class::Ordinary,
            nice: None,
            lock: false,
            pin: None,
            busy: None,
            spin: false,
            awake: false,
        }
    }
}

/// Why a policy cannot be used on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// This user has no permission.
    NotPermitted {
        /// The part.
        part: String,
        /// How to obtain the missing permission.
        cure: &'static str,
    },
    /// This host does not support it.
    NotHere {
        /// The part.
        part: String,
        /// The missing feature, or the error.
        why: String,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NotPermitted { part, cure } => {
                write!(f, "policy {part}: not permitted to this user; {cure}")
            }
            Refused::NotHere { part, why } => write!(f, "policy {part}: {why}"),
        }
    }
}

impl From<Refused> for HostError {
    fn from(refused: Refused) -> HostError {
        HostError::Missing(refused.to_string())
    }
}

fn refused(part: &str, cure: &'static str) -> impl Fn(io::Error) -> Refused {
    let part = part.to_string();
    move |error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOMEM) => Refused::NotPermitted {
            part: part.clone(),
            cure,
        },
        _ => Refused::NotHere {
            part: part.clone(),
            why: error.to_string(),
        },
    }
}

fn number<T>(part: &str, text: &str, range: std::ops::RangeInclusive<T>) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + fmt::Display,
{
    let found = text.parse().ok().filter(|n| range.contains(n));
    found.ok_or_else(|| {
        format!(
            "{part}: must be a whole number from {} to {}",
            range.start(),
            range.end()
        )
    })
}

impl Policy {
    /// Reads a policy.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let mut policy = Policy {
            text: text.to_string(),
            ..Policy::default()
        };
        let mut seen: Vec<&str> = Vec::new();
        for part in text.split('+').map(str::trim) {
            let (name, value) = part
                .split_once('=')
                .map_or((part, None), |(name, value)| (name, Some(value)));
            if seen.contains(&name) {
                return Err(format!("{text}: {name} occurs twice; write it once"));
            }
            seen.push(name);
            let urgency = || value.map_or(Ok(URGENT), |n| number(part, n, 1..=URGENT));
            match (name, value) {
                ("default", None) => {}
                ("nice", _) => {
                    policy.nice = Some(value.map_or(Ok(-20), |n| number(part, n, -20..=19))?)
                }
                ("rr", _) => policy.class = Class::RoundRobin(urgency()?),
                ("fifo", _) => policy.class = Class::Fifo(urgency()?),
                ("lock", None) => policy.lock = true,
                ("spin", None) => policy.spin = true,
                ("awake", None) => policy.awake = true,
                ("pin", Some(cpu)) => {
                    policy.pin = Some(number(part, cpu, 0..=libc::CPU_SETSIZE as usize - 1)?)
                }
                ("pin", None) => {
                    return Err("pin: the processor is missing; write, e.g., pin=1".into());
                }
                ("busy", Some(span)) => {
                    let span = parse_span(span)
                        .map_err(|e| format!("{part}: {}; write busy={}", e.problem, e.fix))?;
                    let us = span.as_ns() / 1000;
                    if !(1..=BUSY).contains(&us) {
                        return Err(format!(
                            "{part}: out of range; write 1us to 1ms, e.g. busy=50us, or `spin` \
                             to poll always"
                        ));
                    }
                    policy.busy = Some(us as u32);
                }
                ("busy", None) => policy.busy = Some(50),
                _ => {
                    return Err(format!(
                        "{part}: unknown part of a policy; parts are {PARTS}, joined by +"
                    ));
                }
            }
        }
        let has = |name| seen.contains(&name);
        if has("rr") && has("fifo") {
            return Err(format!(
                "{text}: a thread has one scheduling class; write rr or fifo"
            ));
        }
        if policy.class.is_real_time() && policy.nice.is_some() {
            return Err(format!(
                "{text}: niceness has no effect in a real-time class; leave nice out"
            ));
        }
        if policy.class.is_real_time() && policy.spin {
            return Err(format!(
                "{text}: a real-time thread that never sleeps blocks its processor; write \
                 busy=50us or awake instead of spin, or spin without the class"
            ));
        }
        Ok(policy)
    }
    /// The text from which the policy was read.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Opens the files that its threads need, before this process drops its privileges.
    pub fn prepare(&self) {
        if self.awake {
            idle::prepare();
        }
    }
    /// Whether the policy locks memory.
    pub fn locks(&self) -> bool {
        self.lock
    }
    /// Whether the policy raises the priority: by a real-time class, or by a negative niceness.
    pub fn hastens(&self) -> bool {
        self.class.is_real_time() || self.nice.is_some_and(|nice| nice < 0)
    }
    /// Whether the thread polls instead of sleeping.
    pub fn spins(&self) -> bool {
        self.spin
    }
    /// Sets the socket option for busy polling, if the policy has it.
    pub fn apply(&self, socket: &OwnedFd) -> Result<(), HostError> {
        let Some(us) = self.busy else { return Ok(()) };
        let cure = "busy polling beyond net.core.busy_read needs root before Linux 5.7; of \
            `narrows serve` with --net-admin";
        let us = us as libc::c_int;
        let told = socket::set(socket, libc::SOL_SOCKET, SO_BUSY_POLL, &us);
        Ok(told.map_err(refused("busy", cure))?)
    }
    /// Applies the policy to this thread until the guard is dropped. The same thread must drop it.
    pub fn enter(&self) -> Result<Guard, HostError> {
        Ok(self.try_enter()?)
    }
    /// Checks whether the policy can be used, by entering it on a thread that ends at once.
    pub fn permitted(&self) -> Result<(), Refused> {
        let tried = std::thread::scope(|scope| scope.spawn(|| self.try_enter().map(drop)).join());
        tried.unwrap_or_else(|_| {
            Err(Refused::NotHere {
                part: self.text.clone(),
                why: "its thread failed".into(),
            })
        })
    }
    fn try_enter(&self) -> Result<Guard, Refused> {
        // Each field of the guard restores its part when it is dropped, also if a later part fails.
        let mut guard = Guard {
            called_off: schedule::called_off(),
            ..Guard::default()
        };
        if let Some(cpu) = self.pin {
            let before = schedule::processors().map_err(refused("pin", ""))?;
            if !before.contains(&cpu) {
                return Err(Refused::NotHere {
                    part: format!("pin={cpu}"),
                    why: format!("this process is restricted to processors {before:?}"),
                });
            }
            schedule::pin(&[cpu]).map_err(refused("pin", ""))?;
            guard.pinned = Some(Pinned(before));
        }
        if self.lock {
            let cure = "locking memory needs root (CAP_IPC_LOCK), or a higher `ulimit -l`";
            guard.locked = Some(Locked::new().map_err(refused("lock", cure))?);
        }
        if self.awake {
            guard.awake = Some(
                Awake::new().map_err(refused("awake", "keeping processors awake needs root"))?,
            );
        }
        if let Some(nice) = self.nice {
            let before = schedule::nice();
            let cure = "a niceness below 0 needs root (CAP_SYS_NICE), or `ulimit -e`";
            schedule::set_nice(nice).map_err(refused("nice", cure))?;
            guard.nice = Some(Nice(before));
        }
        if self.class != Class::Ordinary {
            let part = if matches!(self.class, Class::Fifo(_)) {
                "fifo"
            } else {
                "rr"
            };
            let cure = "a real-time class needs root (CAP_SYS_NICE), or `ulimit -r`";
            guard.class = Some(schedule::enter(self.class).map_err(refused(part, cure))?);
        }
        Ok(guard)
    }
}

/// The policy in effect for a thread. Dropping this value restores the previous state, the
/// scheduling class first.
#[derive(Debug, Default)]
pub struct Guard {
    class: Option<schedule::Before>,
    nice: Option<Nice>,
    awake: Option<Awake>,
    locked: Option<Locked>,
    pinned: Option<Pinned>,
    called_off: u32,
    // Scheduling classes belong to threads, so the guard must not move to another thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Guard {
    /// Whether the watchdog has revoked a real-time class of this process since the policy was
    /// entered.
    pub fn called_off(&self) -> bool {
        self.class.is_some() && schedule::called_off() != self.called_off
    }
    /// The method that keeps processors awake: `cpu_dma_latency` or `idle_threads`.
    pub fn awake_by(&self) -> Option<&'static str> {
        self.awake.as_ref().map(|awake| match awake {
            Awake::Forbidden(_) => "cpu_dma_latency",
            Awake::Turning(_) => "idle_threads",
        })
    }
}

#[derive(Debug)]
struct Nice(i32);

impl Drop for Nice {
    fn drop(&mut self) {
        let _ = schedule::set_nice(self.0);
    }
}

#[derive(Debug)]
struct Pinned(Vec<usize>);

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = schedule::pin(&self.0);
    }
}

/// A lock of memory. It applies to the whole process, so the last guard unlocks.
#[derive(Debug)]
struct Locked(());

static LOCKED: AtomicUsize = AtomicUsize::new(0);

impl Locked {
    fn new() -> io::Result<Locked> {
        schedule::lock_memory()?;
        LOCKED.fetch_add(1, Ordering::SeqCst);
        Ok(Locked(()))
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if LOCKED.fetch_sub(1, Ordering::SeqCst) == 1 {
            schedule::unlock_memory();
        }
    }
}

/// The method that keeps processors from halting.
#[derive(Debug)]
enum Awake {
    /// The kernel permits no deep idle state.
    Forbidden(#[allow(dead_code)] Held),
    /// Threads of the idle class that never sleep.
    Turning(#[allow(dead_code)] Turning),
}

/// One thread per processor that never sleeps; dropping this value ends them.
#[derive(Debug)]
struct Turning {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    fn new() -> io::Result<Awake> {
        match idle::forbid()? {
            Some(held) => Ok(Awake::Forbidden(held)),
            None => Turning::new().map(Awake::Turning),
        }
    }
}

impl Turning {
    fn new() -> io::Result<Turning> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Turning {
            stop: Arc::clone(&stop),
            threads: Vec::new(),
        };
        for cpu in schedule::processors()? {
            let stop = Arc::clone(&stop);
            let turn = move || {
                // Outside the idle class the thread would take CPU time from others, so it ends.
                let Ok(_class) = schedule::enter(Class::Idle) else {
                    return;
                };
                let _ = schedule::pin(&[cpu]);
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            // The stack is small, because all of it is locked if the process locks its memory.
            let builder = std::thread::Builder::new()
                .name("awake".into())
                .stack_size(64 << 10);
            all.threads.push(builder.spawn(turn)?);
        }
        Ok(all)
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    /// Classes and limits apply to the whole process, so only one test runs at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn words_are_read_and_a_mistake_names_its_fix() {
        let policy = Policy::parse("fifo=20+lock+pin=1+busy=50us+awake").unwrap();
        assert_eq!(
            (policy.class, policy.pin, policy.busy),
            (Class::Fifo(20), Some(1), Some(50))
        );
        assert!(policy.lock && policy.awake && !policy.spins());
        let hastens = |text| Policy::parse(text).unwrap().hastens();
        assert!(policy.hastens() && hastens("nice") && !hastens("nice=5") && !hastens("default"));
        assert_eq!(policy.text(), "fifo=20+lock+pin=1+busy=50us+awake");
        assert_eq!(Policy::parse("nice").unwrap().nice, Some(-20));
        assert_eq!(Policy::parse("rr").unwrap().class, Class::RoundRobin(99));
        assert_eq!(Policy::parse("default").unwrap(), Policy::default());
        for (text, fix) in [
            ("realtime", "joined by +"),
            ("fifo+spin", "busy=50us or awake"),
            ("rr+spin+lock", "spin without the class"),
            ("rr+fifo", "rr or fifo"),
            ("rr+nice", "leave nice out"),
            ("rr=100", "1 to 99"),
            ("pin", "pin=1"),
            ("busy=1s", "busy=50us"),
            ("busy=50", "write busy="),
            ("lock+lock", "twice"),
            ("lock=1", "joined by +"),
            ("", "joined by +"),
        ] {
            let why = Policy::parse(text).unwrap_err();
            assert!(why.contains(fix), "{text}: {why}");
        }
    }

    #[test]
    fn what_is_entered_is_left_again() {
        let _alone = ALONE.lock().unwrap();
        let before = (
            schedule::class(),
            schedule::nice(),
            schedule::processors().unwrap(),
        );
        for text in [
            "rr",
            "fifo=7+lock",
            "nice",
            "nice=5",
            "pin=0",
            "awake",
            "busy=50us",
        ] {
            let policy = Policy::parse(text).unwrap();
            match policy.try_enter() {
                Ok(guard) => {
                    if policy.class != Class::Ordinary {
                        assert_eq!(schedule::class(), policy.class);
                    }
                    if let Some(nice) = policy.nice {
                        assert_eq!(schedule::nice(), nice);
                    }
                    if policy.pin.is_some() {
                        assert_eq!(schedule::processors().unwrap(), [0]);
                    }
                    assert_eq!(guard.awake_by().is_some(), policy.awake);
                    assert!(!guard.called_off());
                }
                Err(Refused::NotPermitted { .. }) => println!("{text}: left out, not permitted"),
                Err(other) => panic!("{text}: {other}"),
            }
            assert_eq!(
                (
                    schedule::class(),
                    schedule::nice(),
                    schedule::processors().unwrap()
                ),
                before,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_there_is_said() {
        let refused = Policy::parse("pin=1000").unwrap().permitted().unwrap_err();
        assert!(matches!(refused, Refused::NotHere { .. }), "{refused}");
        assert!(
            HostError::from(refused)
                .to_string()
                .contains("policy pin=1000")
        );
        assert_eq!(Policy::default().permitted(), Ok(()));
    }

    #[test]
    fn a_real_time_thread_that_never_sleeps_is_called_off() {
        let _alone = ALONE.lock().unwrap();
        for text in ["fifo", "rr=1"] {
            let policy = Policy::parse(text).unwrap();
            if let Err(why) = policy.permitted() {
                println!("left out: {why}");
                return;
            }
            let watched = std::thread::spawn(move || {
                let guard = policy.try_enter().unwrap();
                let began = sys::thread_cpu();
                // A loop without sleep, as by mistake: for 2 s of CPU time, or until the watchdog
                // acts.
                while schedule::class().is_real_time() && sys::thread_cpu() - began < 2_000_000_000
                {
                    std::hint::spin_loop();
                }
                (
                    schedule::class(),
                    sys::thread_cpu() - began,
                    guard.called_off(),
                )
            });
            let (class, ran, called_off) = watched.join().unwrap();
            assert_eq!((class, called_off), (Class::Ordinary, true), "{text}");
            assert!((WATCHED_NS..2_000_000_000).contains(&ran), "{text}: {ran}");
        }
    }

    /// One tick less, because the kernel counts in ticks.
    const WATCHED_NS: u64 = (schedule::WATCHED - 20_000) * 1000;
}
