//! The side of the plugin: a panic in a model is caught and reported to narrows. It must not pass
//! from one library to another.

use crate::erased::AnyPacket;
use crate::interface::{Host, Models};
use narrows_core::cc::{
    Ack, CcKind, CongestionControl, Loss, LostPacket, Reduced, Rto, Sample, Sent, SpuriousLoss,
    Start, StateChange, Window,
};
use narrows_core::packet::Congestion;
use narrows_core::param::Params;
use narrows_core::queue::{
    Backlog, ClassCounts, DropReason, QueueContext, QueueDiscipline, QueueKind, Sink,
};
use narrows_core::units::{Bytes, Time};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Message and place of the last panic of this thread.
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs `act`; a panic is reported, and the result is `instead`.
fn caught<T>(host: Host, event: &str, instead: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| {
        let said = SAID.with_borrow_mut(std::mem::take);
        (host.fail)(event, &said);
        instead
    })
}

/// Replaces the panic hook: message and place of a panic are stored instead of printed.
fn quiet() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload();
        let text = (message.downcast_ref::<&str>().copied())
            .or_else(|| message.downcast_ref::<String>().map(String::as_str));
        let place = panic.location().map_or(String::new(), |at| {
            format!(" ({}:{})", at.file(), at.line())
        });
        let said = format!("panic: {}{place}", text.unwrap_or("no message"));
        SAID.with_borrow_mut(|last| *last = said);
    }));
}

/// The models that `list` returns, with every call guarded. Called once, by
/// [`export!`](crate::export).
pub fn guarded(host: Host, list: impl FnOnce() -> Models) -> Models {
    quiet();
    let none = Models {
        ccs: Vec::new(),
        queues: Vec::new(),
    };
    let models = caught(host, "export", none, list);
    Models {
        ccs: models.ccs.into_iter().map(|of| cc(host, of)).collect(),
        queues: models
            .queues
            .into_iter()
            .map(|of| queue(host, of))
            .collect(),
    }
}

fn cc(host: Host, of: CcKind) -> CcKind {
    let make = of.make;
    CcKind {
        make: Box::leak(Box::new(
            move |params: &Params, at: &narrows_core::cc::Host| {
                let made = caught(host, "make", None, || Some(make(params, at)));
                Box::new(Guarded(host, made)) as Box<dyn CongestionControl>
            },
        )),
        ..of
    }
}

fn queue(host: Host, of: QueueKind<AnyPacket>) -> QueueKind<AnyPacket> {
    let make = of.make;
    QueueKind {
        make: Box::leak(Box::new(move |params: &Params, place: &QueueContext| {
            let made = caught(host, "make", None, || Some(make(params, place)));
            Box::new(Guarded(host, made)) as Box<dyn QueueDiscipline<AnyPacket>>
        })),
        ..of
    }
}

/// A model, if its construction succeeded.
struct Guarded<M: ?Sized>(Host, Option<Box<M>>);

impl<M: ?Sized> Drop for Guarded<M> {
    fn drop(&mut self) {
        if let Some(model) = self.1.take() {
            caught(self.0, "drop", (), || drop(model));
        }
    }
}

impl<M: ?Sized> Guarded<M> {
    fn act<T>(&mut self, event: &str, instead: T, act: impl FnOnce(&mut M) -> T) -> T {
        match &mut self.1 {
            Some(model) => caught(self.0, event, instead, || act(model)),
            None => instead,
        }
    }
    fn see<T>(&self, event: &str, instead: T, see: impl FnOnce(&M) -> T) -> T {
        match &self.1 {
            Some(model) => caught(self.0, event, instead, || see(model)),
            None => instead,
        }
    }
}

macro_rules! pass_events {
    ($($event:ident: $type:ty),* $(,)?) => {$(
        fn $event(&mut self, w: &mut Window, ev: &$type) {
            self.act(stringify!($event), (), |cc| cc.$event(w, ev));
        }
    )*};
}

impl CongestionControl for Guarded<dyn CongestionControl> {
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
        self.see("describe", (), |cc| cc.describe(visit));
    }
    fn mode(&self) -> Option<&'static str> {
        self.see("mode", None, |cc| cc.mode())
    }
    fn fork(&self) -> Box<dyn CongestionControl> {
        let copy = self.see("fork", None, |cc| Some(cc.fork()));
        Box::new(Guarded(self.0, copy))
    }
}

impl QueueDiscipline<AnyPacket> for Guarded<dyn QueueDiscipline<AnyPacket>> {
    fn enqueue(&mut self, now: Time, packet: AnyPacket, sink: &mut dyn Sink<AnyPacket>) {
        self.act("enqueue", (), |queue| queue.enqueue(now, packet, sink));
    }
    fn enqueue_for(
        &mut self,
        now: Time,
        packet: AnyPacket,
        departs: Time,
        sink: &mut dyn Sink<AnyPacket>,
    ) {
        self.act("enqueue_for", (), |queue| {
            queue.enqueue_for(now, packet, departs, sink);
        });
    }
    fn refuses(&self, why: DropReason) -> bool {
        self.see("refuses", true, |queue| queue.refuses(why))
    }
    fn dequeue(&mut self, now: Time, sink: &mut dyn Sink<AnyPacket>) -> Option<AnyPacket> {
        self.act("dequeue", None, |queue| queue.dequeue(now, sink))
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
    fn on_wakeup(&mut self, now: Time, sink: &mut dyn Sink<AnyPacket>) {
        self.act("on_wakeup", (), |queue| queue.on_wakeup(now, sink));
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
