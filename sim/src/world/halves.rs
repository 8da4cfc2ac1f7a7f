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
use crate::lookahead::{Half, Lookahead, Window, outbox, send_both};
use narrows_core::engine::Progress;
use narrows_core::units::Time;
use std::hint::spin_loop;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Thread, park_timeout, scope, yield_now};
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
#[derive(Clone)]
enum Task {
    /// Handles all events of a window.
    Run(Arc<Window>),
    /// Takes samples for metrics.
    Sample(Time),
}

/// The half of the flows and the task that this thread passes to the other one.
type Order = (Box<Half>, Task);

/// The other thread, and the channels to and from it.
struct Other<'a> {
    thread: Thread,
    orders: SyncSender<Order>,
    /// Orders that the other thread has not begun; this thread may take them back.
    waiting: &'a Mutex<Receiver<Order>>,
    done: Receiver<Box<Half>>,
}

impl World {
    /// As [`run_until`](Self::run_until), on two threads. Afterwards, all flows are together.
    pub(super) fn run_halves(
        &mut self,
        until: Time,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<(), SimError> {
        let end = self.end;
        let (orders, waiting) = sync_channel(1);
        let waiting = Mutex::new(waiting);
        let result = scope(|scope| {
            let (finished, done) = sync_channel(1);
            let work = || {
                let finished = finished;
                while let Some((mut half, task)) = receive(|| take(&waiting)) {
                    half.perform(&task, end);
                    // The first thread needs the window again.
                    drop(task);
                    if finished.send(half).is_err() {
                        break;
                    }
                }
            };
            // Where there are no threads, this one handles both halves.
            let thread = Builder::new().spawn_scoped(scope, work);
            let other = thread.ok().map(|thread| Other {
                thread: thread.thread().clone(),
                orders,
                waiting: &waiting,
                done,
            });
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
            let second = half.lookahead.next_window(&half.datapath, Time::MAX, until);
            let Some(begin) = first.min(second) else {
                return Ok(());
            };
            if begin > until || (until > self.end && pings == 0) {
                return Ok(());
            }
            send_both(&mut self.datapath, &mut half.datapath);
            self.catch_up(begin);
            let Some(lookahead) = &mut self.lookahead else {
                return Ok(());
            };
            let (last, limit) = (after(until.min(sampler)), after(until));
            let window = lookahead.take_window(&mut self.datapath, begin, last, limit);
            let (sampled, window) = (sampler < window.end, Arc::new(window));
            let other_runs = other.filter(|_| window.arrivals(FEW) == FEW);
            let task = Task::Run(Arc::clone(&window));
            let n = self.at_once(other_runs, task, |world| {
                let lookahead = world.lookahead.as_mut()?;
                let end = world.end;
                Some(run_window(&mut world.datapath, lookahead, &window, end))
            });
            let lookahead = self.lookahead.as_mut();
            if let (Some(lookahead), Some(window), Some(Some(n))) =
                (lookahead, Arc::into_inner(window), n)
            {
                lookahead.end_window(&mut self.datapath, window, n);
            }
            if let Some(half) = &mut self.half {
                self.datapath.events += std::mem::take(&mut half.datapath.events) + 1;
            }
            if sampled {
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
            half.perform(&task, self.end);
            self.half = Some(half);
            return Some(act(self));
        };
        other.orders.send((half, task)).ok()?;
        other.thread.unpark();
        let result = act(self);
        self.half = match take(other.waiting) {
            // The other thread has not begun: its processor does something else.
            Ok((mut half, task)) => {
                half.perform(&task, self.end);
                Some(half)
            }
            Err(_) => receive(|| other.done.try_recv()),
        };
        self.half.is_some().then_some(result)
    }
}

impl Half {
    fn perform(&mut self, task: &Task, end: Time) {
        match task {
            Task::Run(window) => {
                run_window(&mut self.datapath, &mut self.lookahead, window, end);
            }
            Task::Sample(now) => sample_metrics(*now, &mut self.datapath.flows),
        }
    }
}

/// Handles all events of one half in a window. Returns the number of arrivals at the receivers of
/// both halves. `end` is the end of the run.
fn run_window(
    datapath: &mut Datapath,
    lookahead: &mut Lookahead,
    window: &Window,
    end: Time,
) -> usize {
    let n = lookahead.run_receivers_of_half(datapath, window);
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

/// Takes an order that no thread has begun.
fn take(waiting: &Mutex<Receiver<Order>>) -> Result<Order, TryRecvError> {
    let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.try_recv()
}

/// Waits for the value that `look` returns; returns `None` if the other thread has ended. The value
/// usually comes within microseconds, so the thread looks often before it sleeps.
fn receive<T>(mut look: impl FnMut() -> Result<T, TryRecvError>) -> Option<T> {
    let mut looks = 0;
    loop {
        match look() {
            Ok(value) => return Some(value),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if looks < LOOKS => spin_loop(),
            Err(TryRecvError::Empty) if looks < LOOKS_AWAKE => yield_now(),
            Err(TryRecvError::Empty) => park_timeout(SLEEP),
        }
        looks = looks.saturating_add(1);
    }
}
