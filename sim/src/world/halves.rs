//! The event loop with lookahead on two threads ([`crate::lookahead::Half`]).
//!
//! For each window, this thread passes the second half of the flows to the other thread. It handles
//! the events of the first half, and then receives the second half again. Everything else happens
//! on this thread between two windows: the path, the samples of queues, and rows of samples. A
//! window ends at the latest with a sample, so that no sample lies within a window.
//!
//! This thread also handles the second half if a window has few events. It does the same if the
//! other thread has not begun when the first half is done. This happens on a busy machine.

use super::World;
use super::event_loop::{after, fire};
use super::sampling::sample_metrics;
use crate::datapath::Datapath;
use crate::error::SimError;
use crate::lookahead::{Arrivals, Half, Lookahead, Window, end_window, outbox, send_both};
use narrows_core::engine::Progress;
use narrows_core::units::Time;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, current, park_timeout, scope, yield_now};
use std::time::Duration;

/// Number of arrivals in a window from which on two threads are used.
const FEW: usize = 48;
/// Number of flows from which on two threads take their samples.
const FEW_FLOWS: usize = 256;
/// Number of times that a thread looks for a value until it lets other threads run in between, and
/// until it sleeps in between.
const LOOKS: u32 = 4_000;
const LOOKS_AWAKE: u32 = 8_000;
/// Longest sleep between two looks.
const SLEEP: Duration = Duration::from_millis(1);

/// The work of a thread with one half of the flows.
#[derive(Copy, Clone)]
enum Task {
    /// Handles all events of a window.
    Run(Window),
    /// Takes samples for metrics.
    Sample(Time),
}

/// The half of the flows and the task that this thread passes to the other one. The other thread
/// returns the same.
type Order = (Box<Half>, Task);

/// A place for one value, in cache lines of its own. A thread that waits for the value therefore
/// reads no memory that the other thread writes for other reasons.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    full: AtomicBool,
    order: Mutex<Option<Order>>,
}

/// The slots to and from the other thread.
#[derive(Default)]
struct Slots {
    /// An order that the other thread has not begun; this thread may take it back.
    to: Slot,
    from: Slot,
    /// There will be no more orders.
    over: AtomicBool,
}

/// The other thread. It ends when this value is dropped.
struct Other<'a> {
    thread: ScopedJoinHandle<'a, ()>,
    slots: &'a Slots,
}

impl Slot {
    fn put(&self, order: Order) {
        *self.order.lock().unwrap_or_else(PoisonError::into_inner) = Some(order);
        self.full.store(true, Ordering::Release);
    }
    /// Takes the value, if there is one.
    fn take(&self) -> Option<Order> {
        if !self.full.load(Ordering::Relaxed) || !self.full.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        order.take()
    }
    /// Waits for the value; returns `None` if there is none and the other thread has `ended`. The
    /// value usually comes within microseconds, so the thread looks often before it sleeps.
    fn wait(&self, ended: impl Fn() -> bool) -> Option<Order> {
        let mut looks = 0;
        loop {
            let over = ended();
            if let Some(order) = self.take() {
                return Some(order);
            }
            match looks {
                _ if over => return None,
                0..LOOKS => spin_loop(),
                LOOKS..LOOKS_AWAKE => yield_now(),
                _ => park_timeout(SLEEP),
            }
            looks = looks.saturating_add(1);
        }
    }
}

impl Drop for Other<'_> {
    fn drop(&mut self) {
        self.slots.over.store(true, Ordering::Release);
        self.thread.thread().unpark();
    }
}

impl World {
    /// As [`run_until`](Self::run_until), on two threads. Afterwards, all flows are together.
    pub(super) fn run_halves(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let end = self.end;
        let slots = &Slots::default();
        let this = current();
        let result = scope(|scope| {
            let work = || {
                while let Some((mut half, task)) =
                    slots.to.wait(|| slots.over.load(Ordering::Acquire))
                {
                    half.perform(task, end);
                    slots.from.put((half, task));
                    this.unpark();
                }
            };
            // Where there are no threads, this one handles both halves.
            let thread = Builder::new().spawn_scoped(scope, work);
            let other = thread.ok().map(|thread| Other { thread, slots });
            self.run_windows_of_halves(until, progress, other.as_ref())
        });
        if let (Some(half), Some(lookahead)) = (self.half.take(), &mut self.lookahead) {
            half.join(&mut self.datapath, lookahead);
        }
        result
    }

    fn run_windows_of_halves(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
        other: Option<&Other>,
    ) -> Result<(), SimError> {
        loop {
            let sampler = self.next_metrics.min(self.next_samples);
            let pings = self.datapath.observer.packets.pings;
            let (Some(lookahead), Some(half)) = (&mut self.lookahead, &mut self.half) else {
                return Ok(());
            };
            let first = lookahead.next_window(&self.datapath, sampler, until);
            let Some(begin) = first.map(|first| first.min(half.next)) else {
                return Ok(());
            };
            if begin > until || (until > self.end && pings == 0) {
                return Ok(());
            }
            send_both(&mut self.datapath, &mut half.datapath);
            self.catch_up(begin);
            let (Some(lookahead), Some(half)) = (&mut self.lookahead, &mut self.half) else {
                return Ok(());
            };
            let limits = [until.min(sampler), until].map(after);
            let (window, arrivals) =
                lookahead.take_window(&mut self.datapath, &mut half.arrivals, begin, limits);
            let other_runs = other.filter(|_| window.has(FEW, &arrivals));
            let n = self.at_once(other_runs, Task::Run(window), |world| {
                let lookahead = world.lookahead.as_mut()?;
                let datapath = &mut world.datapath;
                Some(run_window(
                    datapath, lookahead, window, &arrivals, world.end,
                ))
            });
            if let Some(Some(n)) = n {
                end_window(&mut self.datapath, arrivals, n);
            }
            if let Some(half) = &mut self.half {
                self.datapath.events += std::mem::take(&mut half.events) + 1;
            }
            if sampler < window.end {
                self.sample_halves(sampler, other);
            }
            self.report(begin, progress)?;
        }
    }

    /// Takes the samples that are due at `now`.
    fn sample_halves(&mut self, now: Time, other: Option<&Other>) {
        if let Some(half) = &mut self.half {
            send_both(&mut self.datapath, &mut half.datapath);
        }
        self.catch_up(now);
        if self.next_samples == now || self.datapath.flows.len() < FEW_FLOWS {
            self.sample_flows(now);
        } else {
            self.at_once(other, Task::Sample(now), |world| {
                sample_metrics(now, &mut world.datapath.flows);
            });
        }
        self.sample_network(now);
    }

    /// Lets the other thread perform `task` with the second half while `act` runs. Without another
    /// thread, both run on this one. Returns `None` if the other thread has failed.
    fn at_once<T>(
        &mut self,
        other: Option<&Other>,
        task: Task,
        act: impl FnOnce(&mut World) -> T,
    ) -> Option<T> {
        let mut half = self.half.take()?;
        let Some(other) = other else {
            half.perform(task, self.end);
            self.half = Some(half);
            return Some(act(self));
        };
        other.slots.to.put((half, task));
        other.thread.thread().unpark();
        let result = act(self);
        let done = match other.slots.to.take() {
            // The other thread has not begun: its processor does something else.
            Some((mut half, task)) => {
                half.perform(task, self.end);
                Some((half, task))
            }
            None => other.slots.from.wait(|| other.thread.is_finished()),
        };
        self.half = done.map(|(half, _)| half);
        self.half.is_some().then_some(result)
    }
}

impl Half {
    fn perform(&mut self, task: Task, end: Time) {
        match task {
            Task::Run(window) => {
                let arrivals = &self.arrivals;
                run_window(
                    &mut self.datapath,
                    &mut self.lookahead,
                    window,
                    arrivals,
                    end,
                );
                self.next = self.lookahead.next_event(&self.datapath);
                self.events += std::mem::take(&mut self.datapath.events);
            }
            Task::Sample(now) => sample_metrics(now, &mut self.datapath.flows),
        }
    }
}

/// Handles all events of one half in a window. Returns the number of arrivals at the receivers of
/// both halves. `end` is the end of the run.
fn run_window(
    datapath: &mut Datapath,
    lookahead: &mut Lookahead,
    window: Window,
    arrivals: &Arrivals,
    end: Time,
) -> usize {
    let n = lookahead.run_receivers_of_half(datapath, window, arrivals);
    loop {
        let now = datapath.timers.next();
        if now >= window.end {
            break;
        }
        lookahead.run_senders(datapath, after(now), now);
        if let Some(number) = datapath.timers.pop(now) {
            outbox(datapath, |outbox| outbox.caused_by_timer(number));
            fire(now, number, datapath, Some(lookahead), end);
        }
        datapath.events += 1;
    }
    lookahead.run_senders(datapath, window.end, window.end);
    Lookahead::sort(datapath);
    n
}
