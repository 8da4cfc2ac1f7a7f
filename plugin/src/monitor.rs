//! The side of narrows: the call of a plugin's model that is in progress, and the first fault.
//!
//! [`cc`] and [`queue`] wrap the entries of the registry. A wrapper stores each event before it
//! calls the model, and checks the results afterwards. After the first fault of a run, no model of
//! a plugin is called any more. The driver ends the run at its next check of [`Monitor::fault`].
//!
//! A driver with several runs at a time gives each run its own [`Monitor`] with [`watched`];
//! otherwise the monitor of the process ([`process`]) applies.

use narrows_core::cc::{
    Ack, CcKind, CongestionControl, Loss, LostPacket, Reduced, Rto, Sample, Sent, SpuriousLoss,
    Start, StateChange, Window,
};
use narrows_core::packet::{Ack as PacketAck, Congestion, Packet};
use narrows_core::param::Params;
use narrows_core::queue::{
    Backlog, ClassCounts, DropReason, QueueContext, QueueDiscipline, QueueKind, Sink,
};
use narrows_core::units::{Bytes, Rate, Time};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Processor time that one event of a model may take, in seconds.
pub const MOST_EVENT_S: f64 = 5.0;

/// A model that is not part of narrows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// Its name in a scenario.
    pub name: String,
    /// The file, module or package from which the model comes.
    pub from: String,
}

/// A fault of a model.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The model, if it is known.
    pub model: Option<Model>,
    /// The event that the model handled.
    pub event: String,
    /// The time in the run.
    pub now: Time,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.model {
            Some(model) => write!(f, "{}: {}", model.from, model.name)?,
            None => write!(f, "a plugin")?,
        }
        let (event, s) = (&self.event, self.now.as_s());
        write!(f, ": {event} at {s:.6} s: {}", self.problem)
    }
}

#[derive(Clone)]
struct Present {
    model: &'static Model,
    event: &'static str,
    now: Time,
}

/// The state of the calls to plugins' models in one run, and the first fault.
#[derive(Default)]
pub struct Monitor {
    /// Number of calls begun and ended: odd while a model is called.
    calls: AtomicU64,
    present: Mutex<Option<Present>>,
    failed: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

static PROCESS: LazyLock<Arc<Monitor>> = LazyLock::new(Arc::default);

thread_local! {
    static RUN: RefCell<Option<Arc<Monitor>>> = const { RefCell::new(None) };
}

/// The monitor of the process, for drivers with one run.
pub fn process() -> Arc<Monitor> {
    Arc::clone(&PROCESS)
}

/// Runs `act` with `monitor` as the monitor of this thread.
pub fn watched<T>(monitor: &Arc<Monitor>, act: impl FnOnce() -> T) -> T {
    let before = RUN.replace(Some(Arc::clone(monitor)));
    let done = act();
    RUN.set(before);
    done
}

fn with<T>(act: impl FnOnce(&Monitor) -> T) -> T {
    RUN.with_borrow(|run| act(run.as_deref().unwrap_or(&PROCESS)))
}

/// Reports a fault of the model that is being called on this thread.
pub fn fail(event: &str, problem: &str) {
    with(|monitor| {
        let present = lock(&monitor.present).clone();
        monitor.set(Fault {
            model: present.as_ref().map(|at| at.model.clone()),
            event: event.into(),
            now: present.map_or(Time::ZERO, |at| at.now),
            problem: problem.into(),
        });
    });
}

/// Reports a fault in the present event of the model that is being called on this thread.
pub fn fail_now(problem: &str) {
    fail(present_event(), problem);
}

/// Returns the event of the model that is being called on this thread.
pub fn present_event() -> &'static str {
    with(|monitor| lock(&monitor.present).as_ref().map(|at| at.event)).unwrap_or("make")
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitor {
    /// The first fault, if there is one.
    pub fn fault(&self) -> Option<Fault> {
        if !self.failed.load(Ordering::Relaxed) {
            return None;
        }
        lock(&self.fault).clone()
    }
    /// Returns whether there is a fault.
    pub fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
    /// Forgets the fault.
    pub fn clear(&self) {
        *lock(&self.fault) = None;
        self.failed.store(false, Ordering::Relaxed);
    }
    /// The number of the present call of a model; `None` if no model is being called. If this
    /// number does not change between two queries, the event has not returned.
    pub fn call(&self) -> Option<u64> {
        let calls = self.calls.load(Ordering::Relaxed);
        (calls % 2 == 1).then_some(calls)
    }
    /// Reports that the present event did not return in time.
    pub fn overdue(&self) {
        if let Some(at) = lock(&self.present).clone() {
            self.set(Fault {
                model: Some(at.model.clone()),
                event: at.event.into(),
                now: at.now,
                problem: format!("did not return within {MOST_EVENT_S} s of processor time"),
            });
        }
    }
    fn set(&self, fault: Fault) {
        lock(&self.fault).get_or_insert(fault);
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Calls a model, unless there is a fault.
fn call<T>(
    model: &'static Model,
    event: &'static str,
    now: Option<Time>,
    instead: T,
    act: impl FnOnce() -> T,
) -> T {
    let ready = with(|monitor| {
        if monitor.failed() {
            return false;
        }
        let mut present = lock(&monitor.present);
        let now = now.unwrap_or(present.as_ref().map_or(Time::ZERO, |at| at.now));
        *present = Some(Present { model, event, now });
        monitor.calls.fetch_add(1, Ordering::Relaxed);
        true
    });
    if !ready {
        return instead;
    }
    let done = act();
    with(|monitor| monitor.calls.fetch_add(1, Ordering::Relaxed));
    done
}

/// The entry of a congestion control, with its calls monitored.
pub fn cc(model: &'static Model, of: CcKind) -> CcKind {
    let make = of.make;
    CcKind {
        make: Box::leak(Box::new(
            move |params: &Params, host: &narrows_core::cc::Host| {
                let inner = call(model, "make", None, None, || Some(make(params, host)));
                Box::new(Monitored { model, inner }) as Box<dyn CongestionControl>
            },
        )),
        ..of
    }
}

/// The entry of a queue discipline, with its calls monitored.
pub fn queue<P: Packet + Send + 'static>(model: &'static Model, of: QueueKind<P>) -> QueueKind<P> {
    let make = of.make;
    QueueKind {
        make: Box::leak(Box::new(move |params: &Params, place: &QueueContext| {
            let inner = call(model, "make", None, None, || Some(make(params, place)));
            Box::new(MonitoredQueue {
                model,
                inner,
                held: 0,
            }) as Box<dyn QueueDiscipline<P>>
        })),
        ..of
    }
}

/// A congestion control, unless its construction failed.
struct Monitored {
    model: &'static Model,
    inner: Option<Box<dyn CongestionControl>>,
}

impl Monitored {
    fn act(
        &mut self,
        event: &'static str,
        now: Time,
        w: &mut Window,
        act: impl FnOnce(&mut dyn CongestionControl, &mut Window),
    ) {
        if let Some(cc) = &mut self.inner {
            call(self.model, event, Some(now), (), || {
                act(&mut **cc, w);
                if w.cwnd == 0 {
                    fail(event, "cwnd is 0; the smallest window is 1 packet");
                    w.cwnd = 1;
                } else if w.pacing == Some(Rate::bit(0)) {
                    fail(event, "the pacing rate is 0");
                    w.pacing = None;
                }
            });
        }
    }
    fn see<T>(
        &self,
        event: &'static str,
        instead: T,
        see: impl FnOnce(&dyn CongestionControl) -> T,
    ) -> T {
        match &self.inner {
            Some(cc) => call(self.model, event, None, instead, || see(&**cc)),
            None => instead,
        }
    }
}

macro_rules! pass_events {
    ($($event:ident: $type:ty),* $(,)?) => {$(
        fn $event(&mut self, w: &mut Window, ev: &$type) {
            self.act(stringify!($event), ev.now, w, |cc, w| cc.$event(w, ev));
        }
    )*};
}

impl CongestionControl for Monitored {
    pass_events! {
        on_start: Start, on_sent: Sent, on_sample: Sample, on_ack: Ack, on_loss: Loss,
        on_packet_lost: LostPacket, on_rto: Rto, on_reduced: Reduced, on_state: StateChange,
        on_spurious_loss: SpuriousLoss,
    }
    fn in_slow_start(&self, w: &Window) -> bool {
        self.see("in_slow_start", false, |cc| cc.in_slow_start(w))
    }
    fn owns_recovery(&self) -> bool {
        self.see("owns_recovery", false, |cc| cc.owns_recovery())
    }
    fn needs_pacing(&self) -> bool {
        self.see("needs_pacing", false, |cc| cc.needs_pacing())
    }
    fn needs_samples(&self) -> bool {
        self.see("needs_samples", true, |cc| cc.needs_samples())
    }
    fn needs_delivery(&self) -> bool {
        self.see("needs_delivery", false, |cc| cc.needs_delivery())
    }
    fn needs_flight_record(&self) -> bool {
        self.see("needs_flight_record", false, |cc| cc.needs_flight_record())
    }
    fn needs_feedback(&self) -> bool {
        self.see("needs_feedback", false, |cc| cc.needs_feedback())
    }
    fn congestion(&self, w: &Window) -> Option<Congestion> {
        self.see("congestion", None, |cc| cc.congestion(w))
    }
    fn send_buffer_windows(&self) -> u32 {
        self.see("send_buffer_windows", 2, |cc| cc.send_buffer_windows())
    }
    fn describe(&self, visit: &mut dyn FnMut(&'static str, f64)) {
        self.see("describe", (), |cc| {
            cc.describe(&mut |name, value| {
                if value.is_finite() {
                    visit(name, value);
                } else {
                    fail(
                        "describe",
                        &format!("{name} is {value}, not a finite number"),
                    );
                }
            });
        });
    }
    fn mode(&self) -> Option<&'static str> {
        self.see("mode", None, |cc| cc.mode())
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        let inner = self.see("fork", None, |cc| Some(cc.fork()));
        Box::new(Monitored {
            model: self.model,
            inner,
        })
    }
}

/// A queue discipline, unless its construction failed.
struct MonitoredQueue<P> {
    model: &'static Model,
    inner: Option<Box<dyn QueueDiscipline<P>>>,
    /// Packets taken and neither returned nor dropped.
    held: u64,
}

/// Counts dropped packets.
struct Counting<'a, P> {
    sink: &'a mut dyn Sink<P>,
    dropped: u64,
}

impl<P> Sink<P> for Counting<'_, P> {
    fn dropped(&mut self, now: Time, packet: P, why: DropReason) {
        self.dropped += 1;
        self.sink.dropped(now, packet, why);
    }
    fn marked(&mut self, now: Time, packet: &P, why: DropReason) {
        self.sink.marked(now, packet, why);
    }
    fn completes(&self, packet: &P, ack: &mut PacketAck) {
        self.sink.completes(packet, ack);
    }
}

impl<P> MonitoredQueue<P> {
    /// Calls the discipline and compares its backlog with the packets that it holds.
    fn act(
        &mut self,
        event: &'static str,
        now: Time,
        sink: &mut dyn Sink<P>,
        arrives: bool,
        act: impl FnOnce(&mut dyn QueueDiscipline<P>, &mut dyn Sink<P>) -> Option<P>,
    ) -> Option<P> {
        let queue = self.inner.as_deref_mut()?;
        let held = self.held + u64::from(arrives);
        let mut sink = Counting { sink, dropped: 0 };
        let (left, backlog) = call(self.model, event, Some(now), (None, None), || {
            let left = act(queue, &mut sink);
            (left, Some(queue.backlog().packets))
        });
        let gone = sink.dropped + u64::from(left.is_some());
        self.held = held.saturating_sub(gone);
        if backlog.is_some_and(|backlog| backlog != self.held || gone > held) {
            let held = self.held;
            with(|monitor| *lock(&monitor.present) = Some(self.present(event, now)));
            fail(
                event,
                &format!(
                    "backlog() reports {} packets, but {held} are in the queue; each packet is \
                     returned by dequeue or passed to sink.dropped, once",
                    backlog.unwrap_or(0)
                ),
            );
        }
        left
    }
    fn present(&self, event: &'static str, now: Time) -> Present {
        Present {
            model: self.model,
            event,
            now,
        }
    }
    fn see<T>(
        &self,
        event: &'static str,
        instead: T,
        see: impl FnOnce(&dyn QueueDiscipline<P>) -> T,
    ) -> T {
        match &self.inner {
            Some(queue) => call(self.model, event, None, instead, || see(&**queue)),
            None => instead,
        }
    }
    fn works(&self) -> bool {
        self.inner.is_some() && !with(Monitor::failed)
    }
}

impl<P: Packet + Send> QueueDiscipline<P> for MonitoredQueue<P> {
    fn enqueue(&mut self, now: Time, packet: P, sink: &mut dyn Sink<P>) {
        if !self.works() {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        self.act("enqueue", now, sink, true, |queue, sink| {
            queue.enqueue(now, packet, sink);
            None
        });
    }
    fn enqueue_for(&mut self, now: Time, packet: P, departs: Time, sink: &mut dyn Sink<P>) {
        if !self.works() {
            return sink.dropped(now, packet, DropReason::Overflow);
        }
        self.act("enqueue_for", now, sink, true, |queue, sink| {
            queue.enqueue_for(now, packet, departs, sink);
            None
        });
    }
    fn refuses(&self, why: DropReason) -> bool {
        self.see("refuses", true, |queue| queue.refuses(why))
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<P>) -> Option<P> {
        self.act("dequeue", now, sink, false, |queue, sink| {
            queue.dequeue(now, sink)
        })
    }
    fn peek(&self) -> Option<Bytes> {
        self.see("peek", None, |queue| queue.peek())
    }
    fn wakes(&self) -> bool {
        self.see("wakes", false, |queue| queue.wakes())
    }
    fn timely(&self) -> bool {
        self.see("timely", false, |queue| queue.timely())
    }
    fn next_wakeup(&self) -> Option<Time> {
        self.see("next_wakeup", None, |queue| queue.next_wakeup())
    }
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<P>) {
        self.act("on_wakeup", now, sink, false, |queue, sink| {
            queue.on_wakeup(now, sink);
            // A wake-up at the present time would stop the clock of the run.
            if queue.next_wakeup().is_some_and(|next| next <= now) {
                fail(
                    "on_wakeup",
                    "next_wakeup() returns a time that is not after the present one",
                );
            }
            None
        });
    }
    fn backlog(&self) -> Backlog {
        self.see("backlog", Backlog::default(), |queue| queue.backlog())
    }
    fn classes(&self) -> Vec<String> {
        self.see("classes", Vec::new(), |queue| queue.classes())
    }
    fn backlog_of(&self, class: usize) -> Backlog {
        self.see("backlog_of", Backlog::default(), |queue| {
            queue.backlog_of(class)
        })
    }
    fn class_served(&self) -> usize {
        self.see("class_served", 0, |queue| queue.class_served())
    }
    fn counts_of(&self, class: usize) -> Option<ClassCounts> {
        self.see("counts_of", None, |queue| queue.counts_of(class))
    }
}
